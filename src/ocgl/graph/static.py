"""A complete graph in memory, as returned by datasets and turned into streams."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import issparse

from ocgl.errors import GraphError, NotFiniteError
from ocgl.graph.changes import Changes
from ocgl.graph.features import checked_rows, numbers
from ocgl.kernels import kernel
from ocgl.types import AnyArray, DoubleArray, IntArray, PositionArray, Rows


@kernel
def _fill(ends: IntArray, others: IntArray, cursor: IntArray, indices: PositionArray) -> None:
    for i in range(len(ends)):
        indices[cursor[ends[i]]] = others[i]
        cursor[ends[i]] += 1


@kernel
def _sort_rows(indptr: IntArray, indices: PositionArray) -> None:
    for v in range(len(indptr) - 1):
        indices[indptr[v] : indptr[v + 1]].sort()


def symmetric_csr(edge_index: AnyArray, nodes: int) -> tuple[IntArray, PositionArray]:
    """Return both directions of every distinct edge as CSR, without self-loops, with sorted rows.

    Args:
        edge_index: edges of shape [2, num_edges], in any direction, possibly repeated.
        nodes: number of nodes.
    """
    low, high = np.minimum(*edge_index), np.maximum(*edge_index)
    keys = low[low != high].astype(np.int64) * nodes + high[low != high]
    del low, high
    keys.sort()
    keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))] if len(keys) else keys
    low, high = keys // nodes, keys % nodes
    del keys
    degree = np.bincount(low, minlength=nodes) + np.bincount(high, minlength=nodes)
    indptr = np.concatenate(([0], np.cumsum(degree))).astype(np.int64)
    indices = np.empty(int(indptr[-1]), np.int32)
    cursor = indptr[:-1].copy()
    _fill(low, high, cursor, indices)
    _fill(high, low, cursor, indices)
    _sort_rows(indptr, indices)
    return indptr, indices


def whole_numbers(values: AnyArray, what: str) -> IntArray:
    """Return integer-valued numbers as int64, or raise GraphError.

    Args:
        values: numbers of any type.
        what: their name in the error message.

    >>> whole_numbers(np.array([0.0, 2.0]), "domain")
    array([0, 2])
    """
    with np.errstate(invalid="ignore"):
        whole: IntArray = numbers(values, what, np.int64)
    if not np.array_equal(whole, values):
        raise GraphError(f"{what} must be whole numbers, below 2**63")
    return whole


def _times(values: AnyArray) -> DoubleArray:
    times: DoubleArray = numbers(values, "time")
    if not np.isfinite(times).all():
        bad = np.nonzero(~np.isfinite(times))[0]
        raise NotFiniteError(f"time of rows {bad[:5].tolist()} is NaN or infinite")
    return times


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph without self-loops or duplicate edges, as symmetric CSR.

    Args:
        name: name of the dataset.
        indptr: CSR row starts, of shape [num_nodes + 1].
        indices: neighbours of each node, sorted, of shape [2 * num_edges].
        y: label of each node, -1 if unknown.
        x: features, of shape [num_nodes, num_features]; None for the structure alone.
        time: time of each node.
        domain: domain of each node, for domain-incremental streams.
        notes: caveats to show with results, for example that the times are artificial.
        label_time: time at which each label becomes known; infinite for never.
        changes: what happens to the graph after its nodes have arrived.
        ids: the user's own id of each node; None if they are the rows.
        class_names: the user's own name of each class; None if they are the labels.
    """

    name: str
    indptr: IntArray
    indices: PositionArray
    y: IntArray
    x: Rows | None = None
    time: DoubleArray | None = None
    domain: IntArray | None = None
    notes: tuple[str, ...] = ()
    label_time: DoubleArray | None = None
    changes: Changes | None = None
    ids: AnyArray | None = None
    class_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("y", "time", "domain", "label_time", "ids"):
            column = getattr(self, name)
            if column is not None and column.shape != (self.nodes,):
                raise GraphError(f"{name} has shape {column.shape}, but the graph has {self.nodes} nodes")
        if self.x is not None and self.x.shape[0] != self.nodes:
            raise GraphError(f"x has {self.x.shape[0]} rows, but the graph has {self.nodes} nodes")

    @classmethod
    def from_edges(
        cls,
        name: str,
        edge_index: AnyArray,
        y: AnyArray,
        x: object = None,
        time: AnyArray | None = None,
        domain: AnyArray | None = None,
        notes: tuple[str, ...] = (),
        label_time: AnyArray | None = None,
        changes: Changes | None = None,
    ) -> "Graph":
        """Build a graph from a list of edges. Duplicates and self-loops are removed.

        Args:
            name: name of the dataset.
            edge_index: edges of shape [2, num_edges], in any direction.
            y: label of each node, -1 if unknown.
            x: features, of shape [num_nodes, num_features], dense or scipy sparse.
            time: time of each node.
            domain: domain of each node.
            notes: caveats to show with results.
            label_time: time at which each label becomes known; infinite for never.
            changes: what happens to the graph after its nodes have arrived.

        >>> Graph.from_edges("toy", np.array([[0, 1, 1], [1, 0, 1]]), np.array([0, 1])).edges
        1
        """
        edge_index, labels = np.asarray(edge_index), np.asarray(y)
        if edge_index.ndim != 2 or edge_index.shape[0] != 2 or not np.issubdtype(edge_index.dtype, np.integer):
            raise GraphError(f"edge_index must be integers of shape (2, E), not {edge_index.dtype} {edge_index.shape}")
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or (labels.size and labels.min() < -1):
            raise GraphError("y must be a one-dimensional array of integers from 0, or -1 where unknown")
        if edge_index.size and (edge_index.min() < 0 or edge_index.max() >= len(labels)):
            raise GraphError(f"edge_index contains a node outside 0..{len(labels) - 1}")
        labels = whole_numbers(labels, "y").copy()
        times = None if time is None else _times(time)
        domains = None if domain is None else whole_numbers(domain, "domain")
        csr = symmetric_csr(edge_index, len(labels))
        rows = None if x is None else checked_rows(x, len(labels), None, None)
        known = None if label_time is None else numbers(label_time, "label_time")
        if known is not None and np.isnan(known).any():
            raise NotFiniteError("label_time is NaN; infinity stands for a label that never becomes known")
        if changes is not None:
            changes.check(len(labels), 0 if rows is None else int(rows.shape[1]))
        return cls(name, *csr, labels, rows, times, domains, notes, known, changes)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.indptr) - 1

    @property
    def edges(self) -> int:
        """Number of undirected edges."""
        return len(self.indices) // 2

    @property
    def width(self) -> int:
        """Number of features, 0 without features."""
        return 0 if self.x is None else int(self.x.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether the features are sparse."""
        return bool(issparse(self.x))

    @cached_property
    def classes(self) -> int:
        """Number of distinct labels."""
        return len(np.unique(self.y[self.y >= 0]))

    def columns(self) -> dict[str, AnyArray]:
        """Return the graph as plain arrays in a fixed order; `from_columns` restores it."""
        columns: dict[str, AnyArray] = {"indptr": self.indptr, "indices": self.indices, "y": self.y}
        if isinstance(self.x, np.ndarray):
            columns["x"] = self.x
        elif self.x is not None:
            shape = np.array(self.x.shape, np.int64)
            columns |= {"x_data": self.x.data, "x_indices": self.x.indices, "x_indptr": self.x.indptr, "x_shape": shape}
        if self.time is not None:
            columns["time"] = self.time
        if self.domain is not None:
            columns["domain"] = self.domain
        if self.label_time is not None:
            columns["label_time"] = self.label_time
        return columns | ({} if self.changes is None else self.changes.columns())

    @classmethod
    def from_columns(cls, name: str, columns: dict[str, AnyArray], notes: tuple[str, ...] = ()) -> "Graph":
        """Build a graph from the arrays returned by `columns`, after checking that they are one."""
        _check_columns(columns)
        x = sparse_or_dense(columns)
        nodes, width = len(columns["indptr"]) - 1, 0 if x is None else int(x.shape[1])
        return cls(
            name,
            columns["indptr"],
            columns["indices"],
            columns["y"],
            x,
            columns.get("time"),
            columns.get("domain"),
            notes,
            columns.get("label_time"),
            Changes.from_columns(columns, nodes, width),
        )

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the edges, features, labels, times and domains."""
        digest = hashlib.sha256()
        for name, column in self.columns().items():
            digest.update(f"{name}:{column.dtype.str}:{column.shape};".encode())
            digest.update(np.ascontiguousarray(column).data.cast("B"))
        return digest.hexdigest()

    def induced(self, nodes: IntArray) -> "Graph":
        """Return the subgraph induced by these nodes, renumbered in the given order."""
        new = np.full(self.nodes, -1, np.int64)
        new[nodes] = np.arange(len(nodes))
        sources = np.repeat(new, np.diff(self.indptr))
        targets = new[self.indices]
        inside = (sources >= 0) & (targets > sources)
        indptr, indices = symmetric_csr(np.stack([sources[inside], targets[inside]]), len(nodes))
        return replace(
            self,
            indptr=indptr,
            indices=indices,
            y=self.y[nodes],
            x=None if self.x is None else self.x[nodes],
            time=None if self.time is None else self.time[nodes],
            domain=None if self.domain is None else self.domain[nodes],
            label_time=None if self.label_time is None else self.label_time[nodes],
            changes=None if self.changes is None else self.changes.induced(new),
            ids=None if self.ids is None else self.ids[nodes],
        )


_REAL = ("time", "label_time", "x_data", "change_when", "change_x_data")
"""One-dimensional arrays of a graph that need not be whole numbers."""


def _check_columns(columns: dict[str, AnyArray]) -> None:
    """Raise `GraphError` if arrays have wrong types, or indices that lie outside of what they index."""
    for name in ("indptr", "indices", "y"):
        if name not in columns:
            raise GraphError(f"a graph needs the array {name}")
    for name, array in columns.items():
        matrix, real = name in ("x", "change_x"), name in _REAL
        kinds, dimensions = ("fiu" if matrix or real else "iu"), 2 if matrix else 1
        if array.dtype.kind not in kinds or array.ndim != dimensions:
            raise GraphError(f"{name} is {array.dtype} of shape {array.shape}")
    nodes = len(columns["indptr"]) - 1
    if columns["indptr"].dtype != np.int64 or columns["indices"].dtype != np.int32 or columns["y"].dtype != np.int64:
        raise GraphError("indptr, indices and y must be of type int64, int32 and int64")
    _check_csr("indptr", "indices", columns["indptr"], columns["indices"], nodes)
    if "x_data" not in columns:
        return
    for name in ("x_indices", "x_indptr", "x_shape"):
        if name not in columns:
            raise GraphError(f"sparse features need the array {name}")
    shape = columns["x_shape"].tolist()
    if (
        len(shape) != 2
        or shape[0] != len(columns["x_indptr"]) - 1
        or len(columns["x_data"]) != len(columns["x_indices"])
    ):
        raise GraphError(f"the sparse features do not have the shape {shape}")
    _check_csr("x_indptr", "x_indices", columns["x_indptr"], columns["x_indices"], shape[1])


def _check_csr(name: str, other: str, indptr: AnyArray, indices: AnyArray, columns: int) -> None:
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise GraphError(f"{name} must rise from 0 to {len(indices)}, the length of {other}")
    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        raise GraphError(f"{other} holds indices outside 0..{columns - 1}")


def sparse_or_dense(columns: dict[str, AnyArray]) -> Rows | None:
    """Return the features stored as `x`, or as `x_data`, `x_indices`, `x_indptr`, `x_shape`; None without either."""
    if "x" in columns:
        return columns["x"]
    if "x_data" not in columns:
        return None
    from scipy.sparse import csr_array

    parts = (columns["x_data"], columns["x_indices"], columns["x_indptr"])
    rows, width = (int(side) for side in columns["x_shape"])
    return csr_array(parts, shape=(rows, width), copy=False)
