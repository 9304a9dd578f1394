"""Undirected adjacency: one contiguous row of neighbours per node, sorted by arrival, in a shared pool.

A full row moves to a row of the next size class (4, 6, 8, 12, 16, ...), and its old space goes to a free list of its
class. Nothing is ever rebuilt. With d the degree of a node:

- An edge that comes with its later node is added at the end of both rows: amortised O(1).
- A later edge is put in its place: up to d entries of 4 bytes move.
- Removing an edge searches it (log d) and moves up to d entries; a row keeps its room.
- Removing a node does that in the row of each of its neighbours, and frees its own row.

Every change of a row raises its version.
"""

from pathlib import Path

import numpy as np

from ocgl.graph._kernels.rows import (
    CAPACITIES,
    CLASSES,
    NONE,
    TOTALS,
    are_adjacent,
    insert,
    raise_versions,
    take_out_edges,
    take_out_nodes,
)
from ocgl.graph.growable import Growable
from ocgl.types import BoolArray, IntArray, PositionArray


def in_order(later: PositionArray, earlier: PositionArray) -> tuple[PositionArray, PositionArray]:
    """Return the edges sorted by (later, earlier) end, as `add_edges` requires."""
    keys = np.sort((later.astype(np.int64) << 32) | earlier)
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


class Adjacency:
    """Neighbours of each node, sorted by arrival.

    Args:
        folder: where to store the pool in a memory-mapped file; None for memory.

    >>> graph = Adjacency()
    >>> graph.add_nodes(3)
    >>> graph.add_edges(np.array([1, 2, 2], np.int32), np.array([0, 0, 1], np.int32))
    >>> graph.neighbors(0).tolist()
    [1, 2]
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._heads = Growable(np.int64, 2)  # row start and degree together: one cache miss for both
        self._class = Growable(np.uint8)
        self._versions: Growable | None = None
        self._pool = Growable(np.int32, folder=folder)
        self._free = np.full(CLASSES + 1, -1, np.int64)
        self._free[CLASSES] = 0
        self.edges = 0

    def __len__(self) -> int:
        return len(self._heads)

    @property
    def nbytes(self) -> int:
        """Memory in bytes, including free rows."""
        return self._heads.nbytes + self._class.nbytes + self.changes.nbytes + int(self._free[CLASSES]) * 4

    @property
    def arrays(self) -> tuple[IntArray, PositionArray]:
        """Heads (row start and degree, of shape [num_nodes, 2]) and the pool of rows, for kernels."""
        return self._heads.rows, self._pool.reserved

    def add_nodes(self, count: int) -> None:
        """Add nodes without edges."""
        self._heads.extend(np.zeros((count, 2), np.int64))
        self._class.extend(np.full(count, NONE, np.uint8))
        if self._versions is not None:
            self._versions.extend(np.zeros(count, np.int32))

    @property
    def changes(self) -> PositionArray:
        """The version of each row; empty while rows only grow, when their lengths serve."""
        return np.empty(0, np.int32) if self._versions is None else self._versions.rows

    @property
    def versions(self) -> PositionArray:
        """Number of changes of each node's row, features of the node and its neighbours included."""
        return self.degrees(np.arange(len(self))) if self._versions is None else self._versions.rows

    def keep_versions(self) -> None:
        """Count changes from now on: a row may change without getting longer."""
        if self._versions is None:
            versions = Growable(np.int32)
            versions.extend(self.versions)
            self._versions = versions

    def have_edge(self, first: PositionArray, second: PositionArray) -> BoolArray:
        """Return for each pair of existing nodes whether they have an edge."""
        return are_adjacent(*self.arrays, first, second)

    def remove_edges(self, first: PositionArray, second: PositionArray) -> None:
        """Remove distinct edges that are there."""
        take_out_edges(self._heads.rows, self.changes, self._pool.reserved, first, second)
        self.edges -= len(first)

    def remove_nodes(self, nodes: PositionArray) -> None:
        """Remove all edges of distinct nodes."""
        held = (self._heads.rows, self._class.rows, self.changes, self._pool.reserved, self._free)
        self.edges -= take_out_nodes(*held, nodes)

    def touch(self, nodes: PositionArray) -> None:
        """Raise the versions of nodes whose features have changed, and of their neighbours."""
        raise_versions(self._heads.rows, self.changes, self._pool.reserved, nodes)

    def add_edges(self, later: PositionArray, earlier: PositionArray) -> None:
        """Add edges between existing nodes that are not there yet.

        Args:
            later: position of the node of each edge that arrived later; edges are sorted by (later, earlier).
            earlier: position of the other node.
        """
        done = 0
        while True:
            done = insert(
                self._heads.rows,
                self._class.rows,
                self.changes,
                self._pool.reserved,
                self._free,
                later,
                earlier,
                done,
            )
            if done == 2 * len(later):
                break
            self._pool.reserve(len(self._pool.reserved) + (1 << 16))
        self.edges += len(later)

    def make_room(self, later: PositionArray, earlier: PositionArray) -> None:
        """Reserve enough pool for these edges, so that `add_edges` cannot fail halfway.

        A row may move several times, to every size class between its present one and the one that it ends in.
        """
        ends, times = np.unique(np.concatenate([later, earlier]), return_counts=True)
        degrees, size_class = np.zeros(len(ends), np.int64), np.full(len(ends), -1, np.int64)
        old = ends < len(self)
        degrees[old] = self._heads.rows[ends[old], 1]
        held = self._class.rows[ends[old]].astype(np.int64)
        size_class[old] = np.where(held == NONE, -1, held)
        last = np.searchsorted(CAPACITIES, degrees + times)
        needed = TOTALS[np.maximum(last, size_class) + 1] - TOTALS[size_class + 1]
        self._pool.reserve(int(self._free[CLASSES]) + int(needed.sum()))

    def release_pages(self) -> None:
        """Drop file-backed pages from memory; reads load them again."""
        self._pool.release_pages()

    def neighbors(self, node: int) -> PositionArray:
        """Return a copy of the neighbours of a node."""
        begin, degree = self._heads.rows[node].tolist()
        row: PositionArray = self._pool.reserved[begin : begin + degree]
        return row.copy()

    def degrees(self, nodes: PositionArray | IntArray) -> PositionArray:
        """Return the degrees of nodes."""
        found: PositionArray = self._heads.rows[nodes, 1].astype(np.int32)
        return found
