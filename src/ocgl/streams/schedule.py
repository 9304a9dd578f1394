"""When changes of a graph happen in a stream: the step of each, and which of them can happen at all."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ocgl.errors import StreamError
from ocgl.graph import Graph
from ocgl.graph._kernels.rows import are_adjacent
from ocgl.graph.changes import KINDS, LATER_EDGE, REMOVAL, REMOVED_EDGE, UPDATE, Changes
from ocgl.types import BoolArray, IntArray, Rows

NEVER = int(np.iinfo(np.int64).max)


class Changeable(Protocol):
    """What changes can be made in: a store, or a learner."""

    def add_edges(self, edges: ArrayLike) -> int:
        """Add edges between nodes that are there."""
        ...

    def update(self, ids: ArrayLike, x: Any) -> None:
        """Replace the features of nodes."""
        ...

    def remove_edges(self, edges: ArrayLike) -> None:
        """Remove edges."""
        ...

    def remove(self, ids: ArrayLike) -> None:
        """Remove nodes."""
        ...


@dataclass(frozen=True, eq=False)
class StepChanges:
    """The changes of one step, made after its nodes have arrived, in the order of the fields.

    Args:
        later_edges: edges between nodes that are there, of shape [2, num_edges].
        updated: nodes with new features.
        rows: their new features.
        removed_edges: edges that are removed.
        removed: nodes that are removed.
    """

    later_edges: IntArray
    updated: IntArray
    rows: Rows | None
    removed_edges: IntArray
    removed: IntArray

    def apply(self, target: Changeable) -> None:
        """Make the changes in a store, or in a learner."""
        if self.later_edges.shape[1]:
            target.add_edges(self.later_edges)
        if len(self.updated):
            target.update(self.updated, self.rows)
        if self.removed_edges.shape[1]:
            target.remove_edges(self.removed_edges)
        if len(self.removed):
            target.remove(self.removed)


def change_steps(graph: Graph, order: IntArray, cuts: IntArray) -> IntArray:
    """Return the step of each change of a graph, `NEVER` for one that does not happen.

    A change happens in the first step that ends at or after its moment, and not before its nodes have arrived. What
    names a node that was removed in an earlier step does not happen, nor does what was done already.

    Args:
        graph: the graph, with changes.
        order: nodes in order of arrival.
        cuts: end position (exclusive) of each step in `order`.
    """
    changes = graph.changes
    assert changes is not None
    arrives = np.full(graph.nodes, NEVER)
    arrives[order] = np.searchsorted(cuts, np.arange(len(order)), side="right")
    is_edge = changes.second >= 0
    _check_edges(graph, changes.first[is_edge], changes.second[is_edge])
    other = np.where(is_edge, changes.second, changes.first)
    there = np.maximum(arrives[changes.first], arrives[other])
    steps = np.where(there < NEVER, np.maximum(_moments(graph, changes, order, cuts, there), there), NEVER)
    removals = changes.kind == REMOVAL
    removed_at = np.full(graph.nodes, NEVER)
    np.minimum.at(removed_at, changes.first[removals], steps[removals])
    steps[steps > np.minimum(removed_at[changes.first], removed_at[other])] = NEVER
    keys = edge_keys(graph.nodes, changes.first, other)
    late, taken = changes.kind == LATER_EDGE, changes.kind == REMOVED_EDGE
    steps[taken & (steps < _first_step(keys, late, steps, there))] = NEVER
    for kind, name in ((late, keys), (taken, keys), (removals, changes.first)):
        _keep_first(steps, kind, name)
    updates = changes.kind == UPDATE
    _keep_last(steps, updates, changes.first)
    return steps


def edge_keys(nodes: int, first: IntArray, second: IntArray) -> IntArray:
    """Return a number for each edge that does not depend on its direction."""
    return np.minimum(first, second) * nodes + np.maximum(first, second)


def _moments(graph: Graph, changes: Changes, order: IntArray, cuts: IntArray, there: IntArray) -> IntArray:
    """Return the step of each change by its moment alone, `NEVER` after the last."""
    if changes.unit == "fraction":
        begin, last = np.where(there < NEVER, there, 0), len(cuts) - 1
        steps: IntArray = begin + np.ceil(changes.when * (last - begin)).astype(np.int64)
    else:
        if graph.time is None:
            raise StreamError("changes have times, but nodes have none; give the graph times")
        latest = np.maximum.accumulate(graph.time[order])[cuts - 1]
        steps = np.searchsorted(latest, changes.when, side="left")
    steps[steps >= len(cuts)] = NEVER
    return steps


def _check_edges(graph: Graph, first: IntArray, second: IntArray) -> None:
    heads = np.stack([graph.indptr[:-1], np.diff(graph.indptr)], axis=1)
    found = are_adjacent(heads, graph.indices, first.astype(np.int32), second.astype(np.int32))
    if not found.all():
        a, b = first[~found][0], second[~found][0]
        raise StreamError(f"a change is of the edge {a}-{b}, which the graph does not have")


def _first_step(keys: IntArray, late: BoolArray, steps: IntArray, there: IntArray) -> IntArray:
    """Return for each edge the step in which it comes: that of its later end, or its own."""
    comes = there.copy()
    order = np.lexsort((steps[late], keys[late]))
    known, first = np.unique(keys[late][order], return_index=True)
    if len(known):
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        own = known[place] == keys
        comes[own] = steps[late][order][first][place[own]]
    return comes


def _keep_first(steps: IntArray, kind: BoolArray, name: IntArray) -> None:
    """Let only the first of several changes of one kind and name happen."""
    places = np.nonzero(kind & (steps < NEVER))[0]
    order = np.lexsort((steps[places], name[places]))
    again = np.zeros(len(places), np.bool_)
    again[1:] = np.diff(name[places][order]) == 0
    steps[places[order][again]] = NEVER


def _keep_last(steps: IntArray, kind: BoolArray, name: IntArray) -> None:
    """Let only the last of several changes of one kind and name in one step happen."""
    places = np.nonzero(kind & (steps < NEVER))[0]
    order = np.lexsort((places, steps[places], name[places]))
    again = np.zeros(len(places), np.bool_)
    again[:-1] = (np.diff(name[places][order]) == 0) & (np.diff(steps[places][order]) == 0)
    steps[places[order][again]] = NEVER


class Timeline:
    """The changes of a stream by step, and what follows from them.

    Args:
        changes: the changes of the graph.
        steps: step of each, `NEVER` for none.
        nodes: number of nodes.

    Attributes:
        removed_at: step in which each node is removed, `NEVER` for none.
        late: sorted keys of the edges that do not come with their later end.
    """

    def __init__(self, changes: Changes, steps: IntArray, nodes: int) -> None:
        self._changes, self._nodes = changes, nodes
        self.removed_at = np.full(nodes, NEVER)
        removals = (changes.kind == REMOVAL) & (steps < NEVER)
        self.removed_at[changes.first[removals]] = steps[removals]
        late = changes.kind == LATER_EDGE
        self.late = np.unique(edge_keys(nodes, changes.first[late], changes.second[late]))
        happening = np.nonzero(steps < NEVER)[0]
        self._order = happening[np.argsort(steps[happening], kind="stable")]
        self._steps = steps[self._order]
        self._row = np.cumsum(changes.kind == UPDATE) - 1

    @property
    def description(self) -> str:
        """How many changes of each kind happen, in words."""
        counts = np.bincount(self._changes.kind[self._order], minlength=len(KINDS))
        names = ("later edges", "new features", "removed edges", "removed nodes")
        return ", ".join(f"{count:,} {name}" for count, name in zip(counts.tolist(), names, strict=True))

    def at(self, step: int) -> StepChanges:
        """Return the changes of a step."""
        changes = self._changes
        begin, end = np.searchsorted(self._steps, [step, step + 1])
        chosen = self._order[begin:end]
        kind = changes.kind[chosen]
        pairs = np.stack([changes.first[chosen], changes.second[chosen]])
        updated = chosen[kind == UPDATE]
        rows = None if changes.rows is None else changes.rows[self._row[updated]]
        return StepChanges(
            pairs[:, kind == LATER_EDGE],
            changes.first[updated],
            rows,
            pairs[:, kind == REMOVED_EDGE],
            changes.first[chosen[kind == REMOVAL]],
        )
