"""What one batch may see of the graph."""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from ocgl.errors import (
    DuplicateEdgeError,
    EmptyBatchError,
    GraphError,
    NotFiniteError,
    SelfLoopError,
    WrongWidthError,
)
from ocgl.graph.aggregation import ONES, Block
from ocgl.graph.features import SparseTable, Table, checked_rows, integers, numbers, table_of
from ocgl.graph.look import Cost, Look, Norm, look_bytes
from ocgl.graph.sampling import mean_weights, sym_weights
from ocgl.graph.sparse import SparseRows
from ocgl.types import AnyArray, FloatArray, IntArray, PositionArray, Rows


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """Seeds first, then the nodes reached hop by hop; the sampled edges of every node before the last hop.

    `sizes[h]` nodes lie within h hops, so what layer l of L needs is always a prefix: it reads the nodes within
    L - l + 1 hops and writes those within L - l. The same edges serve at every layer; a node of the last hop has
    its self-loop only. `edge` and `own` are the aggregation weights (empty: all one).
    """

    sizes: tuple[int, ...]
    indptr: IntArray
    indices: PositionArray
    edge: FloatArray
    own: FloatArray
    nodes: PositionArray
    table: Table
    cost: Cost
    norm: Norm = "sum"

    @property
    def seeds(self) -> int:
        """How many nodes are asked about."""
        return self.sizes[0]

    @property
    def hops(self) -> int:
        """How far the look went."""
        return len(self.sizes) - 1

    @property
    def width(self) -> int:
        """The number of features."""
        return self.table.width

    @cached_property
    def aggregated(self) -> FloatArray:
        """Raw features summed over the first step of message passing, for all nodes before the last hop.

        Computed once and kept: every pass on a batch, and every layer's linear map, starts from here.
        """
        return self.table.aggregate(self.nodes, self.block(1))

    @cached_property
    def sparse_rows(self) -> SparseRows:
        """The feature rows of all nodes, where the table's are sparse."""
        assert isinstance(self.table, SparseTable)
        return self.table.chosen(self.nodes)

    def block(self, layer: int) -> Block:
        """Give the message passing of a layer, counted from 1."""
        rows = self.sizes[self.hops - layer]
        return Block(self.indptr, self.indices, self.edge, self.own, rows, self.sizes[self.hops - layer + 1])

    def counts(self, rows: int) -> IntArray:
        """Count the sampled neighbours of the first nodes, all of them before the last hop."""
        return np.diff(self.indptr[: rows + 1])

    def rows(self) -> Rows:
        """Copy the feature rows of all nodes."""
        return self.table.take(self.nodes)

    def own_rows(self) -> Rows:
        """Copy the feature rows of the seeds."""
        return self.table.take(self.nodes[: self.seeds])

    def detached(self) -> "Neighborhood":
        """Copy into a neighbourhood that holds its own rows, to be sent where there is no store."""
        arrays = self.arrays()
        return from_arrays(arrays)

    def arrays(self) -> dict[str, AnyArray]:
        """Give everything as plain arrays; `from_arrays` takes them back bit-equal."""
        rows = self.rows()
        features: dict[str, AnyArray] = (
            {"x": rows}
            if isinstance(rows, np.ndarray)
            else {
                "x_data": rows.data,
                "x_indices": rows.indices,
                "x_indptr": rows.indptr,
                "x_shape": np.array(rows.shape),
            }
        )
        return features | {
            "sizes": np.array(self.sizes),
            "indptr": self.indptr,
            "indices": self.indices,
            "edge": self.edge,
            "own": self.own,
            "norm": np.array(self.norm),
        }


def weigh(
    look: Look,
    sizes: IntArray,
    indptr: IntArray,
    indices: PositionArray,
    store_degrees: PositionArray | IntArray | None,
) -> tuple[FloatArray, FloatArray]:
    """Give the weights of the sampled edges and of the expanded nodes themselves."""
    if look.norm == "sum" or look.hops == 0:
        return ONES, ONES
    if store_degrees is not None:
        degrees = store_degrees.astype(np.int64) + 1
    else:
        degrees = np.ones(int(sizes[-1]), np.int64)
        degrees[: len(indptr) - 1] += np.diff(indptr)
    if look.norm == "mean":
        return mean_weights(indptr, degrees)
    return sym_weights(indptr, indices, degrees)


def touched(table: Table, nodes: PositionArray, indptr: IntArray) -> Cost:
    """Count what a look read."""
    edges = int(indptr[-1])
    return Cost(len(nodes), edges, look_bytes(table.bytes_of(nodes), edges, len(indptr) - 1))


def from_arrays(arrays: dict[str, AnyArray]) -> Neighborhood:
    """Take a neighbourhood from outside (no store), checked.

    Keys: `x` or `x_data`, `x_indices`, `x_indptr`, `x_shape` (rows of all nodes, seeds first), `sizes` (nodes
    within 0, 1, ... hops), `indptr` and `indices` (sampled neighbours, local), `edge` and `own` (weights; empty: all
    one), `norm` (what the weights are: sum, mean or sym).
    """
    rows = {"x"} if "x" in arrays else {"x_data", "x_indices", "x_indptr", "x_shape"}
    missing = ({"sizes", "indptr", "indices", "edge", "own"} | rows) - arrays.keys()
    if missing:
        raise GraphError(f"the neighbourhood lacks {', '.join(sorted(missing))}")
    sizes = tuple(_whole(arrays, "sizes").tolist())
    if not sizes or sizes[0] < 1:
        raise EmptyBatchError("a neighbourhood without seeds")
    table = table_of(checked_rows(_rows_of(arrays), sizes[-1], None, None))
    nodes = np.arange(sizes[-1], dtype=np.int32)
    indptr, indices = _whole(arrays, "indptr"), _whole(arrays, "indices")
    _check_shape(sizes, indptr, indices)
    edge, own = (numbers(arrays[name], name, np.float32) for name in ("edge", "own"))
    norm = _norm(str(arrays.get("norm", "sum")), edge, own, indptr)
    cost = touched(table, nodes, indptr)
    return Neighborhood(sizes, indptr, indices.astype(np.int32), edge, own, nodes, table, cost, norm)


def _whole(arrays: dict[str, AnyArray], name: str) -> IntArray:
    given = integers(arrays[name])
    if given is None or given.ndim != 1:
        raise GraphError(f"{name} of a neighbourhood is a flat array of integers")
    return given


def _rows_of(arrays: dict[str, AnyArray]) -> object:
    """Give the feature rows, dense or sparse, not checked."""
    from scipy.sparse import csr_array

    if "x" in arrays:
        return arrays["x"]
    shape = cast(tuple[int, int], tuple(_whole(arrays, "x_shape").tolist()))
    try:
        parts = (numbers(arrays["x_data"], "x_data", np.float32), arrays["x_indices"], arrays["x_indptr"])
        return csr_array(parts, shape=shape)
    except (TypeError, ValueError) as error:
        raise WrongWidthError(f"x_data, x_indices and x_indptr are no CSR matrix of shape {shape}: {error}") from error


def isolated(rows: Rows, hops: int) -> Neighborhood:
    """Make a neighbourhood of nodes without neighbours: message passing leaves only their self-loops."""
    count = rows.shape[0]
    table = table_of(rows)
    nodes = np.arange(count, dtype=np.int32)
    indptr = np.zeros(count + 1, np.int64)
    sizes = (count,) * (hops + 1)
    empty = np.empty(0, np.int32)
    return Neighborhood(sizes, indptr, empty, ONES, ONES, nodes, table, touched(table, nodes, indptr))


def _norm(name: str, edge: FloatArray, own: FloatArray, indptr: IntArray) -> Norm:
    """Check the weights of a neighbourhood from outside, and what they are said to be."""
    if name not in ("sum", "mean", "sym"):
        raise GraphError(f"norm is sum, mean or sym, not {name!r}")
    wanted = (0, 0) if name == "sum" else (int(indptr[-1]), len(indptr) - 1)
    if (len(edge), len(own)) != wanted:
        raise GraphError("sum takes no weights; mean and sym one for each edge and each expanded node")
    if not (np.isfinite(edge).all() and np.isfinite(own).all()):
        raise NotFiniteError("a weight is NaN or infinite")
    return cast(Norm, name)


def _check_shape(sizes: tuple[int, ...], indptr: IntArray, indices: IntArray) -> None:
    hops = len(sizes) - 1
    expanded = sizes[-2] if hops else 0
    if list(sizes) != sorted(sizes) or len(indptr) != expanded + 1 or indptr[0] != 0:
        raise GraphError("sizes and indptr of the neighbourhood do not fit each other")
    if (np.diff(indptr) < 0).any() or indptr[-1] != len(indices):
        raise GraphError("indptr and indices of the neighbourhood do not fit each other")
    for hop in range(hops):
        row = indices[indptr[sizes[hop - 1] if hop else 0] : indptr[sizes[hop]]]
        if len(row) and (row.min() < 0 or row.max() >= sizes[hop + 1]):
            raise GraphError(f"an edge of hop {hop + 1} leaves the nodes within that many hops")
    receivers = np.repeat(np.arange(expanded), np.diff(indptr))
    if (receivers == indices).any():
        raise SelfLoopError("a node of the neighbourhood has an edge to itself; its self-loop is implied")
    if len(np.unique(receivers * sizes[-1] + indices)) != len(indices):
        raise DuplicateEdgeError("a neighbour is given twice for the same node")
