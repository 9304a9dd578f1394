"""What happens to a graph after its nodes have arrived: later edges, new features, and removals."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from ocgl.errors import GraphError
from ocgl.graph.features import checked_rows
from ocgl.types import AnyArray, BoolArray, DoubleArray, IntArray, Rows

if TYPE_CHECKING:
    from ocgl.graph.static import Graph

LATER_EDGE, UPDATE, REMOVED_EDGE, REMOVAL = range(4)
KINDS = ("later edge", "update", "removed edge", "removal")
"""Kinds of changes, in the order in which those of one moment are made."""

When = Literal["fraction", "time"]


@dataclass(frozen=True, eq=False)
class Changes:
    """Changes of a graph, each at its moment.

    A later edge is an edge of the graph that comes after both its ends. The other edges come with their later end.

    Args:
        kind: kind of each change: LATER_EDGE, UPDATE, REMOVED_EDGE or REMOVAL.
        first: node of each change, or first end of its edge.
        second: second end of its edge; -1 for a change of a node.
        when: moment of each change: its time, or the fraction of what is left of the stream once all its nodes are
            there.
        unit: what `when` means.
        rows: new features, one row per update in their order.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("change_kind", "change_first", "change_second", "change_when", "change_unit")

    kind: IntArray
    first: IntArray
    second: IntArray
    when: DoubleArray
    unit: When
    rows: Rows | None

    def __len__(self) -> int:
        return len(self.kind)

    def check(self, nodes: int, width: int) -> None:
        """Raise `GraphError` if the changes are none of a graph with this many nodes and features."""
        sizes = {len(self.kind), len(self.first), len(self.second), len(self.when)}
        if len(sizes) != 1:
            raise GraphError(f"changes have arrays of different lengths: {sorted(sizes)}")
        edge = (self.kind == LATER_EDGE) | (self.kind == REMOVED_EDGE)
        if len(self) and not (self.kind.min() >= 0 and self.kind.max() <= REMOVAL):
            raise GraphError("a change is of an unknown kind")
        if len(self) and not (self.first.min() >= 0 and self.first.max() < nodes):
            raise GraphError(f"a change names a node outside 0..{nodes - 1}")
        if not ((self.second[edge] >= 0) & (self.second[edge] < nodes)).all() or (self.second[~edge] != -1).any():
            raise GraphError("a change of an edge needs two nodes, one of a node only one")
        if not np.isfinite(self.when).all() or (self.unit == "fraction" and (np.abs(self.when - 0.5) > 0.5).any()):
            raise GraphError("moments of changes must be finite times, or fractions from 0 to 1")
        updates, given = int((self.kind == UPDATE).sum()), 0 if self.rows is None else self.rows.shape[0]
        if updates != given or (self.rows is not None and self.rows.shape[1] != width):
            raise GraphError(f"{updates} updates need as many rows of {width} features")

    def within(self, new: IntArray) -> BoolArray:
        """Return which changes are of nodes that have a new number; `new` has it for each node, -1 for none."""
        kept: BoolArray = (new[self.first] >= 0) & ((self.second < 0) | (new[self.second] >= 0))
        return kept

    def induced(self, new: IntArray) -> "Changes":
        """Return the changes of some nodes, renumbered; `new` has the new number of each node, -1 for none."""
        second = np.where(self.second < 0, -1, new[self.second])
        kept = self.within(new)
        return replace(self.taken(kept), first=new[self.first][kept], second=second[kept])

    def taken(self, chosen: AnyArray) -> "Changes":
        """Return a part of the changes, given by a mask."""
        rows = None if self.rows is None else self.rows[chosen[self.kind == UPDATE]]
        kept = self.kind[chosen], self.first[chosen], self.second[chosen], self.when[chosen]
        return Changes(*kept, self.unit, rows)

    def columns(self) -> dict[str, AnyArray]:
        """Return the changes as plain arrays; `from_columns` restores them."""
        found: dict[str, AnyArray] = {
            "change_kind": self.kind,
            "change_first": self.first,
            "change_second": self.second,
            "change_when": self.when,
            "change_unit": np.array([int(self.unit == "time")], np.int64),
        }
        if isinstance(self.rows, np.ndarray):
            found["change_x"] = self.rows
        elif self.rows is not None:
            found |= {"change_x_data": self.rows.data, "change_x_indices": self.rows.indices.astype(np.int64)}
            found |= {"change_x_indptr": self.rows.indptr.astype(np.int64)}
            found["change_x_shape"] = np.array(self.rows.shape, np.int64)
        return found

    @classmethod
    def from_columns(cls, columns: dict[str, AnyArray], nodes: int, width: int) -> "Changes | None":
        """Return the changes in the arrays of a graph, checked; None if there are none."""
        if not any(name.startswith("change_") for name in columns):
            return None
        lacking = [name for name in cls.COLUMNS if name not in columns]
        if lacking:
            raise GraphError(f"changes need the arrays {', '.join(lacking)}")
        from ocgl.graph.static import sparse_or_dense

        for name in cls.COLUMNS:
            array, kinds = columns[name], "fiu" if name == "change_when" else "iu"
            if array.ndim != 1 or array.dtype.kind not in kinds or (name == "change_unit" and len(array) != 1):
                raise GraphError(f"{name} is {array.dtype} of shape {array.shape}")
        rows = {k.removeprefix("change_"): v for k, v in columns.items() if k.startswith("change_x")}
        unit: When = "time" if int(columns["change_unit"][0]) else "fraction"
        kind, first, second = (np.asarray(columns[f"change_{name}"], np.int64) for name in ("kind", "first", "second"))
        when = np.asarray(columns["change_when"], np.float64)
        given = sparse_or_dense(rows)
        checked = None if given is None else checked_rows(given, given.shape[0], width, None)
        found = cls(kind, first, second, when, unit, checked)
        found.check(nodes, width)
        return found


def draw_changes(graph: "Graph", share: float, source: np.random.Generator) -> Changes:
    """Draw changes at random moments: later edges, new features (those of the next node by class) and removals.

    Args:
        graph: a graph with features.
        share: fraction of the edges that come later, and of the nodes with new features; half as many edges and nodes
            are removed.
        source: where to draw from.
    """
    assert graph.x is not None
    ends = np.repeat(np.arange(graph.nodes), np.diff(graph.indptr))
    edges = np.stack([ends, graph.indices.astype(np.int64)])[:, ends < graph.indices]

    def drawn(count: int, share: float) -> IntArray:
        return np.nonzero(source.random(count) < share)[0]

    later, gone = edges[:, drawn(graph.edges, share)], edges[:, drawn(graph.edges, share / 2)]
    updated, removed = drawn(graph.nodes, share), drawn(graph.nodes, share / 2)
    order = np.argsort(graph.y, kind="stable")
    following = np.empty(graph.nodes, np.int64)
    following[order] = np.roll(order, -1)
    parts = ((LATER_EDGE, *later), (UPDATE, updated, -1), (REMOVED_EDGE, *gone), (REMOVAL, removed, -1))
    first = np.concatenate([part[1] for part in parts])
    second = np.concatenate([np.broadcast_to(part[2], part[1].shape) for part in parts]).astype(np.int64)
    kind = np.repeat([part[0] for part in parts], [len(part[1]) for part in parts])
    return Changes(kind, first, second, source.random(len(kind)), "fraction", graph.x[following[updated]])
