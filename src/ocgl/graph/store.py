"""The Past Information Store: the graph so far, and bounded neighbourhood sampling from it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from ocgl.errors import (
    DiskFullError,
    DuplicateNodeError,
    EmptyBatchError,
    GraphError,
    NotFiniteError,
    OldEdgeError,
    SelfLoopError,
    StoreFolderError,
    UnknownEdgeError,
    UnknownNodeError,
)
from ocgl.graph._kernels.hashing import IdTable
from ocgl.graph._kernels.sampling import sample
from ocgl.graph._kernels.sparsify import Sparsified, sparsify
from ocgl.graph.adjacency import Adjacency, in_order
from ocgl.graph.events import Arrival
from ocgl.graph.features import Table, checked_rows, integers, make_table, numbers
from ocgl.graph.growable import Growable
from ocgl.graph.neighbor_sampling import NeighborSampling
from ocgl.graph.neighborhood import Neighborhood, touched, weigh
from ocgl.kernels import kernel
from ocgl.types import BoolArray, DoubleArray, IntArray, PositionArray, Rows

_MAX_NODES = 2**31 - 1
_RELEASE_AFTER = 1 << 28


Method = TypeVar("Method", bound=Callable[..., Any])


def _locked(method: Method) -> Method:
    """Let one thread at a time into a method."""

    @wraps(method)
    def call(self: "GraphStore", *args: Any, **more: Any) -> Any:
        with self._lock:
            return method(self, *args, **more)

    return cast(Method, call)


class GraphStore:
    """The graph so far: nodes with features, and undirected edges. It holds no labels.

    Nodes arrive with edges to nodes that are there. Later edges, new features and removals of nodes and edges may
    follow. The graph is simple: an edge that is given again changes nothing, and a node has no edge to itself. Every
    call is done as a whole, or raises an error and changes nothing. A node that is removed and added again is a new
    node.

    Samples are bit-equal whether the store is in memory or on disk.

    Args:
        folder: where to store features and neighbours in memory-mapped temporary files, which are deleted with the
            store; None for memory.

    >>> store = GraphStore()
    >>> store.add([7, 8], np.eye(2), edges=[[8], [7]])
    >>> neighborhood = store.sample([8], NeighborSampling(hops=1, norm="mean"), key=0)
    >>> neighborhood.aggregated.tolist()
    [[0.5, 0.5]]
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._ids = IdTable()
        self._order = Growable(np.int64)
        self._times = Growable(np.float64)
        try:
            self._adjacency = Adjacency(folder)
        except OSError as error:
            raise StoreFolderError(f"cannot create a graph store in {folder}: {error}") from error
        self._table: Table | None = None
        self._gone: BoolArray | None = None  # which positions are of removed nodes; None while there are none
        self._removed = 0
        self.version = 0
        """Number of changes so far."""
        self._release_at = _RELEASE_AFTER
        self._lock = threading.RLock()

    def reading(self) -> AbstractContextManager[object]:
        """Keep other threads from changing the graph inside a block, so that all that is read is of one moment.

        A single sample needs it only if its features are read while another thread writes: they are read when they are
        first used.
        """
        return self._lock

    def __len__(self) -> int:
        return self.arrived - self._removed

    @property
    def arrived(self) -> int:
        """Number of nodes that have arrived, removed ones included: positions of arrival are below it."""
        return len(self._adjacency)

    @property
    def removed(self) -> int:
        """Number of nodes that were removed."""
        return self._removed

    @property
    def edges(self) -> int:
        """Number of undirected edges."""
        return self._adjacency.edges

    @property
    def nbytes(self) -> int:
        """Memory in bytes, including files."""
        table = 0 if self._table is None else self._table.nbytes
        ids = self._ids.nbytes + self._order.nbytes + self._times.nbytes
        return table + ids + self._adjacency.nbytes

    @property
    def features(self) -> Table:
        """Features of all nodes, by position of arrival."""
        if self._table is None:
            raise GraphError("no node has arrived yet; add nodes first")
        return self._table

    @property
    def ids(self) -> IntArray:
        """Ids of the nodes that are there, in order of arrival."""
        rows: IntArray = self._order.rows
        return rows.copy() if self._gone is None else rows[self._present]

    @property
    def times(self) -> DoubleArray:
        """Arrival times of the nodes that are there, in order of arrival."""
        rows: DoubleArray = self._times.rows
        return rows.copy() if self._gone is None else rows[self._present]

    @property
    def _present(self) -> IntArray:
        """Positions of the nodes that are there."""
        return np.nonzero(~self.was_removed(np.arange(self.arrived)))[0]

    @_locked
    def add(self, ids: ArrayLike, x: Any, edges: ArrayLike = ((), ()), times: ArrayLike | None = None) -> None:
        """Add nodes with their edges. If an input is invalid, nothing changes.

        Args:
            ids: distinct ids of new nodes, integers from 0.
            x: features, of shape [num_nodes, num_features], dense or scipy sparse.
            edges: node ids of shape [2, num_edges]; at least one end of each edge is a new node. A repeated edge
                counts once.
            times: arrival times; default: the position of arrival.
        """
        new = _ids_of(ids)
        known = self._ids.find(new)
        if len(new) == 0:
            raise EmptyBatchError("no node to add; ids is empty")
        if new.min() < 0:
            raise UnknownNodeError(f"node ids must be integers from 0, not {int(new.min())}")
        if (known >= 0).any():
            raise DuplicateNodeError(f"node {int(new[known >= 0][0])} has already arrived; add each node once")
        if len(np.unique(new)) != len(new):
            raise DuplicateNodeError("a node id occurs twice in one arrival")
        if self.arrived + len(new) > _MAX_NODES:
            raise GraphError(f"a store holds at most {_MAX_NODES} nodes")
        width, sparse = (None, None) if self._table is None else (self._table.width, self._table.sparse)
        rows = checked_rows(x, len(new), width, sparse)
        later, earlier = self._checked_edges(new, _ends_of(edges))
        first = self.arrived
        stamps = np.arange(first, first + len(new), dtype=np.float64) if times is None else numbers(times, "times")
        if stamps.shape != new.shape:
            raise GraphError(f"got {stamps.size} times for {len(new)} nodes")
        if not np.isfinite(stamps).all():
            raise NotFiniteError("an arrival time is NaN or infinite")

        table = self._table
        if self.folder is not None:
            table = self._reserved_table(rows, later, earlier)
        elif table is None:
            table = make_table(rows.shape[1], not isinstance(rows, np.ndarray))
        self._table = table
        table.append(rows)
        self._ids.append(new)
        self._order.extend(new)
        self._times.extend(stamps)
        self._adjacency.add_nodes(len(new))
        self._adjacency.add_edges(later, earlier)
        self.version += 1
        if self.folder is not None and self.nbytes > self._release_at:
            table.release_pages()
            self._adjacency.release_pages()
            self._release_at = self.nbytes + _RELEASE_AFTER

    def _reserved_table(self, rows: Rows, later: PositionArray, earlier: PositionArray) -> Table:
        """Return the table after reserving disk space for an arrival, or raise DiskFullError."""
        with self._reserving(f"{rows.shape[0]} more nodes"):
            table = self._table or make_table(rows.shape[1], not isinstance(rows, np.ndarray), self.folder)
            table.make_room(rows)
            self._adjacency.make_room(later, earlier)
        return table

    @contextmanager
    def _reserving(self, what: str) -> Iterator[None]:
        """Reserve room on disk inside the block; a full disk raises DiskFullError."""
        try:
            yield
        except OSError as error:
            raise DiskFullError(f"no room for {what} in {self.folder}; free disk space: {error}") from error

    @_locked
    def add_edges(self, edges: ArrayLike) -> int:
        """Add edges between nodes that are there; return how many were new. An edge that is there stays as it is.

        Args:
            edges: node ids of shape [2, num_edges].
        """
        later, earlier = self._ordered_ends(_ends_of(edges))
        new = ~self._adjacency.have_edge(later, earlier)
        later, earlier = later[new], earlier[new]
        if len(later):
            if self.folder is not None:
                with self._reserving(f"{len(later)} more edges"):
                    self._adjacency.make_room(later, earlier)
            self._adjacency.add_edges(later, earlier)
            self.version += 1
        return len(later)

    @_locked
    def remove_edges(self, edges: ArrayLike) -> None:
        """Remove edges. One that is not there raises `UnknownEdgeError`; one that is given twice counts once.

        Args:
            edges: node ids of shape [2, num_edges].
        """
        later, earlier = self._ordered_ends(_ends_of(edges))
        there = self._adjacency.have_edge(later, earlier)
        if not there.all():
            missing = self.ids_at(np.array([later[~there][0], earlier[~there][0]])).tolist()
            raise UnknownEdgeError(f"there is no edge between {missing[0]!r} and {missing[1]!r}")
        if len(later):
            self._adjacency.keep_versions()
            self._adjacency.remove_edges(later, earlier)
            self.version += 1

    @_locked
    def update(self, ids: ArrayLike, x: Any) -> None:
        """Replace the features of nodes.

        Args:
            ids: distinct ids of nodes that are there.
            x: features, of shape [num_nodes, num_features].
        """
        positions = self._distinct(ids)
        table = self.features
        rows = checked_rows(x, len(positions), table.width, table.sparse)
        if self.folder is not None:
            with self._reserving("new features"):
                table.make_room(rows, replacing=True)
        self._adjacency.keep_versions()
        table.replace(positions, rows)
        self._adjacency.touch(positions)
        self.version += 1

    @_locked
    def remove(self, ids: ArrayLike) -> None:
        """Remove nodes with their edges, and erase their features.

        Args:
            ids: distinct ids of nodes that are there.
        """
        wanted, positions = _ids_of(ids), self._distinct(ids)
        self._adjacency.keep_versions()
        self._adjacency.remove_nodes(positions)
        self.features.erase(positions)
        self._ids.remove(wanted)
        gone = np.zeros(self.arrived, np.bool_) if self._gone is None else self._gone
        if len(gone) < self.arrived:
            gone = np.concatenate([gone, np.zeros(max(self.arrived, 2 * len(gone)) - len(gone), np.bool_)])
        gone[positions] = True
        self._gone = gone
        self._removed += len(positions)
        self.version += 1

    def _distinct(self, ids: ArrayLike) -> PositionArray:
        """Return the positions of distinct nodes, at least one."""
        positions = self.positions(ids)
        if len(positions) == 0:
            raise EmptyBatchError("no node is given; ids is empty")
        if len(np.unique(positions)) != len(positions):
            raise DuplicateNodeError("a node id occurs twice in one call; give each node once")
        return positions

    def _ordered_ends(self, ends: IntArray) -> tuple[PositionArray, PositionArray]:
        """Return positions of the (later, earlier) ends of edges between nodes that are there, sorted, each once."""
        found = self.positions(ends.ravel())
        return self._simple(ends, found.reshape(2, -1))

    def _simple(self, ends: IntArray, positions: PositionArray) -> tuple[PositionArray, PositionArray]:
        """Return (later, earlier) ends sorted, each edge once; an edge of a node to itself raises `SelfLoopError`."""
        later, earlier = np.maximum(*positions), np.minimum(*positions)
        if (later == earlier).any():
            raise SelfLoopError(f"node {ends[0][later == earlier][0]!r} has an edge to itself")
        later, earlier = in_order(later, earlier)
        first = np.ones(len(later), np.bool_)
        first[1:] = (later[1:] != later[:-1]) | (earlier[1:] != earlier[:-1])
        return later[first], earlier[first]

    def arrive(self, arrival: Arrival) -> None:
        """Add the nodes of one arrival."""
        self.add(arrival.ids, arrival.rows, arrival.edges, arrival.times)

    @property
    def adjacency(self) -> tuple[IntArray, PositionArray]:
        """Heads (row start and degree, of shape [num_nodes, 2]) and the pool of neighbours, for kernels."""
        return self._adjacency.arrays

    def positions(self, ids: ArrayLike) -> PositionArray:
        """Return the positions of arrival of these ids."""
        wanted = _ids_of(ids)
        found = self._ids.find(wanted)
        if (found < 0).any():
            raise UnknownNodeError(f"node {int(wanted[found < 0][0])} has not arrived, or was removed")
        return found

    def degrees(self, ids: ArrayLike) -> PositionArray:
        """Return the current degrees of nodes."""
        return self._adjacency.degrees(self.positions(ids))

    def neighbors(self, node: int) -> IntArray:
        """Return the ids of a node's current neighbours, in order of arrival."""
        found: IntArray = self._order.rows[self._adjacency.neighbors(int(self.positions([node])[0]))]
        return found

    def ids_at(self, positions: PositionArray | IntArray) -> IntArray:
        """Return the ids of the nodes at these positions of arrival."""
        found: IntArray = self._order.rows[positions]
        return found

    def is_present(self, positions: PositionArray | IntArray) -> BoolArray:
        """Return for each position of arrival whether its node has arrived and was not removed."""
        arrived: BoolArray = (positions >= 0) & (positions < self.arrived)
        return arrived & ~self.was_removed(positions)

    def was_removed(self, positions: PositionArray | IntArray) -> BoolArray:
        """Return for each position of arrival whether its node was removed."""
        found: BoolArray = np.zeros(len(positions), np.bool_)
        if self._gone is not None:
            known = (positions >= 0) & (positions < len(self._gone))
            found[known] = self._gone[positions[known]]
        return found

    @property
    def row_versions(self) -> PositionArray:
        """Number of changes around each node: of its row, of its features and of its neighbours' features."""
        return self._adjacency.versions

    @property
    def changes(self) -> PositionArray:
        """The same for kernels; empty while rows only grow, when degrees serve as versions."""
        return self._adjacency.changes

    @_locked
    def subgraph(self, position: int, budget: tuple[int, int], key: int) -> Sparsified:
        """Return a small random subgraph around a node, with all edges among its nodes.

        Args:
            position: position of arrival of the centre.
            budget: most first-hop and second-hop nodes.
            key: key of the random draws.
        """
        return sparsify(self._adjacency.arrays, position, budget, key)

    @_locked
    def sample(self, ids: ArrayLike, sampling: NeighborSampling, key: int) -> Neighborhood:
        """Sample the neighbourhood of distinct nodes. The same key, nodes and graph return the same sample.

        Args:
            ids: ids of nodes that have arrived.
            sampling: hops, fan-outs and weights.
            key: key of the random draws.
        """
        seeds = self.positions(ids)
        if len(seeds) == 0:
            raise EmptyBatchError("no node to sample; ids is empty")
        fanouts = np.array(sampling.fanouts, np.int64)
        nodes, sizes, indptr, indices = sample(*self._adjacency.arrays, seeds, fanouts, np.uint64(key))
        if sizes[0] != len(seeds):
            raise DuplicateNodeError("a node id occurs twice; sample each node once")
        degrees = self._adjacency.degrees(nodes) if sampling.degrees == "store" else None
        weights = weigh(sampling, sizes, indptr, indices, degrees)
        cost = touched(self.features, nodes, indptr)
        shape = tuple(sizes.tolist())
        return Neighborhood(shape, indptr, indices, *weights, nodes, self.features, cost, sampling.norm, self.ids_at)

    def _checked_edges(self, new: IntArray, ends: IntArray) -> tuple[PositionArray, PositionArray]:
        """Return the positions of the (later, earlier) ends of valid edges, sorted."""
        if ends.shape[1] == 0:
            none = np.empty(0, np.int32)
            return none, none
        found = self._ids.find(np.ascontiguousarray(ends.ravel()))
        positions = _positions_in(new, self.arrived, ends.ravel(), found)
        if (positions < 0).any():
            unknown = int(ends.ravel()[positions < 0][0])
            raise UnknownNodeError(f"an edge refers to node {unknown}, which has not arrived, or was removed")
        later, earlier = self._simple(ends, positions.reshape(2, -1))
        if later[0] < self.arrived:  # sorted: the edges of old nodes come first
            old = self.ids_at(np.array([later[0], earlier[0]])).tolist()
            raise OldEdgeError(f"the edge {old} connects two nodes that arrived earlier; use add_edges for it")
        return later, earlier


@kernel
def _match(ids: IntArray, order: IntArray, first: int, wanted: IntArray, found: PositionArray) -> PositionArray:
    for i in range(len(wanted)):
        if found[i] < 0:
            at = np.searchsorted(ids, wanted[i])
            if at < len(ids) and ids[at] == wanted[i]:
                found[i] = first + order[at]
    return found


def _positions_in(new: IntArray, first: int, wanted: IntArray, found: PositionArray) -> PositionArray:
    """Fill the missing positions of `found` with those that the new ids will get."""
    order = np.argsort(new)
    return _match(new[order], order, first, np.ascontiguousarray(wanted), found)


def _ends_of(edges: ArrayLike) -> IntArray:
    given = integers(edges)
    if given is not None and given.size == 0:
        return np.empty((2, 0), np.int64)
    if given is None or given.ndim != 2 or len(given) != 2:
        raise GraphError(f"edges must be integers of shape (2, E), not {_description(edges)}")
    return given


def _ids_of(ids: ArrayLike) -> IntArray:
    given = integers(ids)
    if given is not None and given.size == 0:
        return np.empty(0, np.int64)
    if given is None or given.ndim != 1:
        raise GraphError(f"node ids must be a one-dimensional array of integers, not {_description(ids)}")
    return given


def _description(given: ArrayLike) -> str:
    try:
        array = np.asarray(given)
    except ValueError:
        return "rows of different lengths"
    return f"{array.dtype} of shape {array.shape}"
