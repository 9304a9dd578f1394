"""The sampled neighbourhood of a batch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ocgl.errors import (
    ConfigError,
    DuplicateEdgeError,
    EmptyBatchError,
    GraphError,
    MissingExtraError,
    NotFiniteError,
    SelfLoopError,
    WrongSamplingError,
    WrongWidthError,
)
from ocgl.graph._kernels.aggregation import ONES, Block
from ocgl.graph._kernels.sampling import mean_weights, sym_weights
from ocgl.graph._kernels.sparse_rows import SparseRows
from ocgl.graph.features import SparseTable, Table, checked_rows, dense, integers, numbers, table_of
from ocgl.graph.neighbor_sampling import Cost, NeighborSampling, Norm, sample_bytes
from ocgl.types import AnyArray, FloatArray, IntArray, PositionArray, Rows

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """Nodes sampled around some seeds, and the sampled edges of every node before the last hop.

    Nodes are ordered by hop, seeds first. Layer l of L therefore reads a prefix of the nodes, those within L - l + 1
    hops, and writes those within L - l hops. All layers use the same edges; a node of the last hop only has its
    self-loop.

    Args:
        sizes: number of nodes within 0, 1, ..., L hops.
        indptr: CSR row starts of the sampled neighbours, one row per node before the last hop.
        indices: sampled neighbours, as indices into `nodes`.
        edge_weight: weight of each sampled edge; empty if all are one.
        self_weight: weight of each node's self-loop; empty if all are one.
        nodes: rows of the nodes in `table`.
        table: features of all nodes.
        cost: nodes, edges and bytes read.
        norm: the kind of weights.
        ids_at: gives the ids of rows of `table`; None if the neighbourhood is of no store.
    """

    sizes: tuple[int, ...]
    indptr: IntArray
    indices: PositionArray
    edge_weight: FloatArray
    self_weight: FloatArray
    nodes: PositionArray
    table: Table
    cost: Cost
    norm: Norm = "sum"
    ids_at: Callable[[PositionArray], AnyArray] | None = None

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return self.sizes[0]

    @property
    def hops(self) -> int:
        """Number of hops."""
        return len(self.sizes) - 1

    @property
    def width(self) -> int:
        """Number of features."""
        return self.table.width

    @cached_property
    def aggregated(self) -> FloatArray:
        """Features after the first aggregation, for all nodes before the last hop.

        Computed once and cached: it has no parameters, so every pass over a batch uses the same sums.
        """
        return self.table.aggregate(self.nodes, self.block(1))

    @cached_property
    def sparse_rows(self) -> SparseRows:
        """Features of all nodes for matrix products; only for a sparse table."""
        assert isinstance(self.table, SparseTable)
        return self.table.chosen(self.nodes)

    @cached_property
    def dense_rows(self) -> FloatArray:
        """Features of all nodes, written out and cached."""
        return dense(self.rows())

    @cached_property
    def edge_index(self) -> IntArray:
        """The sampled edges (source, target) of shape [2, num_edges], without self-loops, sorted by target."""
        edges = np.empty((2, len(self.indices)), np.int64)
        edges[0] = self.indices
        edges[1] = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return edges

    @property
    def per_hop(self) -> tuple[list[int], list[int]]:
        """Number of nodes that each hop adds, seeds first, and of sampled edges to the nodes of each hop but the last.

        They are what PyG's loaders call `num_sampled_nodes_per_hop` and `num_sampled_edges_per_hop`.
        """
        ends = [0, *(int(self.indptr[size]) for size in self.sizes[:-1])]
        return np.diff((0, *self.sizes)).tolist(), np.diff(ends).tolist()

    def to_pyg(self, device: "str | torch.device | None" = None) -> Any:
        """Return the neighbourhood as a `torch_geometric.data.Data`, laid out as PyG's NeighborLoader does.

        It has `x` (seeds first), `edge_index` (without self-loops), `edge_weight` (None if all are one), `batch_size`
        (number of seeds), `n_id` (position of arrival of each node), `ids` (its id, where the neighbourhood was sampled
        from a store), `num_sampled_nodes` and `num_sampled_edges` (per hop).

        Args:
            device: where to move it; the CPU if None.
        """
        import torch

        try:
            from torch_geometric.data import Data
        except ImportError as error:
            raise MissingExtraError("to_pyg", "pyg") from error
        nodes, edges = self.per_hop
        data = Data(x=torch.from_numpy(dense(self.rows())), edge_index=torch.from_numpy(self.edge_index.copy()))
        data.edge_weight = None if self.norm == "sum" else torch.from_numpy(self.edge_weight.copy())
        data.batch_size, data.num_sampled_nodes, data.num_sampled_edges = self.seeds, nodes, edges
        data.n_id = torch.from_numpy(self.nodes.astype(np.int64))
        if self.ids_at is not None:
            ids = self.ids_at(self.nodes)
            data.ids = ids.tolist() if ids.dtype == object else torch.from_numpy(ids.copy())
        return data if device is None else data.to(checked_device(device))

    def block(self, layer: int) -> Block:
        """Return the sampled edges of a layer, counted from 1."""
        if not 1 <= layer <= self.hops:
            raise WrongSamplingError(f"a neighbourhood of {self.hops} hops has no edges for layer {layer}")
        rows = self.sizes[self.hops - layer]
        return Block(
            self.indptr, self.indices, self.edge_weight, self.self_weight, rows, self.sizes[self.hops - layer + 1]
        )

    def counts(self, rows: int) -> IntArray:
        """Return the number of sampled neighbours of each of the first `rows` nodes, all before the last hop."""
        return np.diff(self.indptr[: rows + 1])

    def rows(self) -> Rows:
        """Return a copy of the features of all nodes."""
        return self.table.take(self.nodes)

    def own_rows(self) -> Rows:
        """Return a copy of the features of the seeds."""
        return self.table.take(self.nodes[: self.seeds])

    def detached(self) -> "Neighborhood":
        """Return a copy that contains its features and does not refer to a store."""
        arrays = self.arrays()
        return from_arrays(arrays)

    def arrays(self) -> dict[str, AnyArray]:
        """Return the neighbourhood as plain arrays; `from_arrays` restores it bit-equal."""
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
            "edge_weight": self.edge_weight,
            "self_weight": self.self_weight,
            "norm": np.array(self.norm),
        }


def weigh(
    sampling: NeighborSampling,
    sizes: IntArray,
    indptr: IntArray,
    indices: PositionArray,
    store_degrees: PositionArray | IntArray | None,
) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the sampled edges and of the self-loops.

    Args:
        sampling: its `norm` selects the weights.
        sizes: number of nodes within 0, 1, ..., L hops.
        indptr: CSR row starts of the sampled neighbours.
        indices: sampled neighbours, as local indices.
        store_degrees: degrees of the nodes in the whole graph; None to use the sampled degrees.
    """
    if sampling.norm == "sum" or sampling.hops == 0:
        return ONES, ONES
    if store_degrees is not None:
        degrees = store_degrees.astype(np.int64) + 1
    else:
        degrees = np.ones(int(sizes[-1]), np.int64)
        degrees[: len(indptr) - 1] += np.diff(indptr)
    if sampling.norm == "mean":
        return mean_weights(indptr, degrees)
    return sym_weights(indptr, indices, degrees)


def touched(table: Table, nodes: PositionArray, indptr: IntArray) -> Cost:
    """Return the cost of a sample: its nodes, edges and bytes."""
    edges = int(indptr[-1])
    return Cost(len(nodes), edges, sample_bytes(table.bytes_of(nodes), edges, len(indptr) - 1))


def from_arrays(arrays: dict[str, AnyArray]) -> Neighborhood:
    """Build a neighbourhood from plain arrays, without a store, after checking them.

    Args:
        arrays: with the keys `x`, or `x_data`, `x_indices`, `x_indptr`, `x_shape` (features of all nodes, seeds first,
            dense or as CSR), `sizes` (number of nodes within 0, 1, ... hops), `indptr` and `indices` (sampled
            neighbours, as local indices), `edge_weight` and `self_weight` (empty if all one), and optionally `norm`
            (`sum`, `mean` or `sym`; default `sum`).
    """
    rows = {"x"} if "x" in arrays else {"x_data", "x_indices", "x_indptr", "x_shape"}
    missing = ({"sizes", "indptr", "indices", "edge_weight", "self_weight"} | rows) - arrays.keys()
    if missing:
        raise GraphError(f"the neighbourhood lacks {', '.join(sorted(missing))}")
    sizes = tuple(_whole(arrays, "sizes").tolist())
    if not sizes or sizes[0] < 1:
        raise EmptyBatchError("the neighbourhood has no seeds; sizes must start with a positive number")
    table = table_of(checked_rows(_rows_of(arrays), sizes[-1], None, None))
    nodes = np.arange(sizes[-1], dtype=np.int32)
    indptr, indices = _whole(arrays, "indptr"), _whole(arrays, "indices")
    _check_shape(sizes, indptr, indices)
    edge_weight, self_weight = (numbers(arrays[name], name, np.float32) for name in ("edge_weight", "self_weight"))
    norm = _norm(str(arrays.get("norm", "sum")), edge_weight, self_weight, indptr)
    cost = touched(table, nodes, indptr)
    return Neighborhood(sizes, indptr, indices.astype(np.int32), edge_weight, self_weight, nodes, table, cost, norm)


def _whole(arrays: dict[str, AnyArray], name: str) -> IntArray:
    given = integers(arrays[name])
    if given is None or given.ndim != 1:
        raise GraphError(f"{name} of a neighbourhood must be a one-dimensional array of integers")
    return given


def _rows_of(arrays: dict[str, AnyArray]) -> object:
    """Return the features, dense or sparse, unchecked."""
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
    """Return a neighbourhood of nodes without neighbours: message passing only uses their self-loops.

    Args:
        rows: features, of shape [num_nodes, num_features].
        hops: number of hops.
    """
    count = rows.shape[0]
    table = table_of(rows)
    nodes = np.arange(count, dtype=np.int32)
    indptr = np.zeros(count + 1, np.int64)
    sizes = (count,) * (hops + 1)
    empty = np.empty(0, np.int32)
    return Neighborhood(sizes, indptr, empty, ONES, ONES, nodes, table, touched(table, nodes, indptr))


def _norm(name: str, edge_weight: FloatArray, self_weight: FloatArray, indptr: IntArray) -> Norm:
    """Return the norm after checking its name and the number of weights it needs."""
    if name not in ("sum", "mean", "sym"):
        raise GraphError(f"norm must be sum, mean or sym, not {name!r}")
    wanted = (0, 0) if name == "sum" else (int(indptr[-1]), len(indptr) - 1)
    if (len(edge_weight), len(self_weight)) != wanted:
        raise GraphError("norm=sum needs empty weights; mean and sym need one per edge and one per expanded node")
    if not (np.isfinite(edge_weight).all() and np.isfinite(self_weight).all()):
        raise NotFiniteError("a weight is NaN or infinite")
    return cast(Norm, name)


def _check_shape(sizes: tuple[int, ...], indptr: IntArray, indices: IntArray) -> None:
    hops = len(sizes) - 1
    expanded = sizes[-2] if hops else 0
    if list(sizes) != sorted(sizes) or len(indptr) != expanded + 1 or indptr[0] != 0:
        raise GraphError("sizes and indptr of the neighbourhood do not match")
    if (np.diff(indptr) < 0).any() or indptr[-1] != len(indices):
        raise GraphError("indptr and indices of the neighbourhood do not match")
    for hop in range(hops):
        row = indices[indptr[sizes[hop - 1] if hop else 0] : indptr[sizes[hop]]]
        if len(row) and (row.min() < 0 or row.max() >= sizes[hop + 1]):
            raise GraphError(f"an edge of hop {hop + 1} points to a node more than {hop + 1} hops away")
    targets = np.repeat(np.arange(expanded), np.diff(indptr))
    if (targets == indices).any():
        raise SelfLoopError("a node of the neighbourhood has an edge to itself; self-loops are implicit")
    if len(np.unique(targets * sizes[-1] + indices)) != len(indices):
        raise DuplicateEdgeError("a node of the neighbourhood has the same neighbour twice")


def checked_device(device: "str | torch.device") -> "str | torch.device":
    """Return a device of torch that there is, or raise `ConfigError`."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"there is no device {device} here, or it cannot be used: {reason}") from error
    return device
