"""A graph store written for the eye: dictionaries, lists and whole numbers. Every store must sample what it samples."""

from typing import Any

import numpy as np

from ocgl.errors import (
    DuplicateNodeError,
    EmptyBatchError,
    OldEdgeError,
    SelfLoopError,
    UnknownEdgeError,
    UnknownNodeError,
)
from ocgl.graph import NeighborSampling
from ocgl.types import FloatArray

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15

Edge = tuple[Any, Any]


def _mix(value: int) -> int:
    """The finaliser of splitmix64."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _WORD
    return value ^ (value >> 31)


def drawn(key: int, node: int, degree: int, cap: int) -> list[int]:
    """Draw `cap` distinct places of a row of `degree` entries (Floyd's algorithm), by key, node and degree."""
    state = _mix(_mix(key + _GOLDEN * (node + 1) & _WORD) + _GOLDEN * degree & _WORD)
    picks: list[int] = []
    for taken in range(cap):
        last = degree - cap + taken
        state = state + _GOLDEN & _WORD
        pick = (_mix(state) >> 32) * (last + 1) >> 32
        picks.append(last if pick in picks else pick)
    return picks


class ReferenceStore:
    """What `GraphStore` promises, slowly.

    Attributes:
        position: position of arrival of each id that is there.
        rows: neighbours of each position, sorted; None for a removed node.
        x: features of each position.
    """

    def __init__(self) -> None:
        self.position: dict[Any, int] = {}
        self.rows: list[list[int] | None] = []
        self.x: list[FloatArray] = []

    def add(self, ids: list[Any], x: FloatArray, edges: list[Edge]) -> None:
        """Add nodes with their edges."""
        if not ids:
            raise EmptyBatchError("empty")
        if len(set(ids)) < len(ids) or set(ids) & self.position.keys():
            raise DuplicateNodeError("twice")
        new = {id: len(self.rows) + i for i, id in enumerate(ids)}
        found = self._ends(edges, self.position | new)
        if any(max(pair) < len(self.rows) for pair in found):
            raise OldEdgeError("old")
        self.position |= new
        self.rows += [[] for _ in ids]
        self.x += list(x)
        self._join(found)

    def add_edges(self, edges: list[Edge]) -> int:
        """Add edges between nodes that are there; return how many were new."""
        return self._join(self._ends(edges, self.position))

    def remove_edges(self, edges: list[Edge]) -> None:
        """Remove edges that are there."""
        found = {(min(pair), max(pair)) for pair in self._ends(edges, self.position)}
        if any(b not in self._row(a) for a, b in found):
            raise UnknownEdgeError("no edge")
        for a, b in found:
            self._row(a).remove(b)
            self._row(b).remove(a)

    def update(self, ids: list[Any], x: FloatArray) -> None:
        """Replace the features of nodes."""
        for place, row in zip(self._places(ids), x, strict=True):
            self.x[place] = row

    def remove(self, ids: list[Any]) -> None:
        """Remove nodes with their edges."""
        for place in self._places(ids):
            for neighbor in self._row(place):
                self._row(neighbor).remove(place)
            self.rows[place] = None
        for id in ids:
            del self.position[id]

    def sample(
        self, ids: list[Any], sampling: NeighborSampling, key: int
    ) -> tuple[list[int], list[int], list[list[int]]]:
        """Return the sampled nodes by hop, how many there are within each hop, and the local neighbours of each."""
        nodes = [self.position[id] for id in ids]
        local = {node: i for i, node in enumerate(nodes)}
        sizes = [len(nodes)]
        lists: list[list[int]] = []
        for cap in sampling.fanouts:
            for node in nodes[len(lists) : sizes[-1]]:
                row = self._row(node)
                whole = cap < 0 or len(row) <= cap
                chosen = row if whole else [row[place] for place in drawn(key, node, len(row), cap)]
                for neighbor in chosen:
                    if neighbor not in local:
                        local[neighbor] = len(nodes)
                        nodes.append(neighbor)
                lists.append([local[neighbor] for neighbor in chosen])
            sizes.append(len(nodes))
        return nodes, sizes, lists

    def _row(self, place: int) -> list[int]:
        row = self.rows[place]
        assert row is not None
        return row

    def _places(self, ids: list[Any]) -> list[int]:
        if any(id not in self.position for id in ids):
            raise UnknownNodeError("unknown")
        if not ids:
            raise EmptyBatchError("empty")
        if len(set(ids)) < len(ids):
            raise DuplicateNodeError("twice")
        return [self.position[id] for id in ids]

    def _ends(self, edges: list[Edge], known: dict[Any, int]) -> list[tuple[int, int]]:
        if any(end not in known for edge in edges for end in edge):
            raise UnknownNodeError("unknown")
        if any(a == b for a, b in edges):
            raise SelfLoopError("loop")
        return [(known[a], known[b]) for a, b in edges]

    def _join(self, pairs: list[tuple[int, int]]) -> int:
        added = 0
        for a, b in pairs:
            if b not in self._row(a):
                self._row(a).append(b)
                self._row(b).append(a)
                self._row(a).sort()
                self._row(b).sort()
                added += 1
        return added


def rows_at(store: ReferenceStore, places: list[int]) -> FloatArray:
    """Return the features at positions of arrival."""
    return np.array([store.x[place] for place in places], np.float32)
