"""The Past Information Store: the graph so far, and bounded neighbourhood sampling from it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from ocgl.errors import (
    DiskFullError,
    DuplicateNodeError,
    EmptyBatchError,
    GraphError,
    IdKindError,
    NotFiniteError,
    OldEdgeError,
    SelfLoopError,
    StoreFolderError,
    UnknownEdgeError,
    UnknownNodeError,
)
from ocgl.graph._kernels.sampling import sample
from ocgl.graph._kernels.sparsify import Sparsified, sparsify
from ocgl.graph.adjacency import Adjacency, in_order
from ocgl.graph.events import Arrival
from ocgl.graph.features import Table, checked_rows, make_table, numbers
from ocgl.graph.growable import Growable
from ocgl.graph.ids import Ids, IntegerIds, Kind, ends_of, ids_of, kind_of, make_ids
from ocgl.graph.neighbor_sampling import NeighborSampling
from ocgl.graph.neighborhood import Neighborhood, touched, weigh
from ocgl.types import AnyArray, BoolArray, DoubleArray, IntArray, PositionArray, Rows

if TYPE_CHECKING:
    from ocgl.graph.durable import DurableStore

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
            store; None for memory. `GraphStore.open` returns a store that lasts.
        sparse: whether features are stored as sparse rows; None for as the first ones are given.

    >>> store = GraphStore()
    >>> store.add([7, 8], np.eye(2), edges=[[8], [7]])
    >>> neighborhood = store.sample([8], NeighborSampling(hops=1, norm="mean"), key=0)
    >>> neighborhood.aggregated.tolist()
    [[0.5, 0.5]]
    """

    def __init__(self, folder: Path | None = None, sparse: bool | None = None) -> None:
        self.folder = folder
        self.sparse = sparse
        self._ids: Ids = IntegerIds()
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

    @classmethod
    def open(cls, folder: str | Path, *, sparse: bool | None = None, in_memory: bool = False) -> "DurableStore":
        """Open the durable store of a folder, or begin a new one there.

        It holds everything up to the last `flush()` or `close()`; its `recovery` says what came after that and is not
        there. One process at a time can have it open.

        Args:
            folder: where the store lies.
            sparse: whether features are stored as sparse rows; a store that is there must agree. None for as it is, or
                as the first ones are given.
            in_memory: keep the arrays in memory; otherwise they are mapped from temporary files in the folder.
        """
        from ocgl.graph.durable import DurableStore

        return DurableStore(Path(folder), sparse=sparse, in_memory=in_memory)

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
        ids = self._ids.nbytes + self._times.nbytes
        return table + ids + self._adjacency.nbytes

    @property
    def features(self) -> Table:
        """Features of all nodes, by position of arrival."""
        if self._table is None:
            raise GraphError("no node has arrived yet; add nodes first")
        return self._table

    @property
    def ids(self) -> AnyArray:
        """Ids of the nodes that are there, in order of arrival."""
        return self._ids.every if self._gone is None else self._ids.at(self._present)

    @property
    def id_kind(self) -> str:
        """`integer` or `text`: the kind of the first id that arrived, which all have."""
        return self._ids.kind

    @property
    def times(self) -> DoubleArray:
        """Arrival times of the nodes that are there, in order of arrival."""
        rows: DoubleArray = self._times.rows
        return rows.copy() if self._gone is None else rows[self._present]

    @property
    def all_times(self) -> DoubleArray:
        """Arrival times by position of arrival, those of removed nodes included."""
        rows: DoubleArray = self._times.rows
        return rows.copy()

    @property
    def _present(self) -> IntArray:
        """Positions of the nodes that are there."""
        return np.nonzero(~self.was_removed(np.arange(self.arrived)))[0]

    @_locked
    def add(self, ids: ArrayLike, x: Any, edges: ArrayLike = ((), ()), times: ArrayLike | None = None) -> None:
        """Add nodes with their edges. If an input is invalid, nothing changes.

        Args:
            ids: distinct ids of new nodes: integers from 0, or text. A store has one kind of ids; `3` and `"3"` are
                different ones.
            x: features, of shape [num_nodes, num_features], dense or scipy sparse.
            edges: node ids of shape [2, num_edges]; at least one end of each edge is a new node. A repeated edge
                counts once.
            times: arrival times; default: the position of arrival.
        """
        new, table_of_ids = self._new_ids(ids)
        if self.arrived + len(new) > _MAX_NODES:
            raise GraphError(f"a store holds at most {_MAX_NODES} nodes")
        width, sparse = (None, self.sparse) if self._table is None else (self._table.width, self._table.sparse)
        rows = checked_rows(x, len(new), width, sparse)
        later, earlier = self._checked_edges(table_of_ids, new, ends_of(edges))
        first = self.arrived
        stamps = np.arange(first, first + len(new), dtype=np.float64) if times is None else numbers(times, "times")
        if stamps.shape != new.shape:
            raise GraphError(f"got {stamps.size} times for {len(new)} nodes")
        if not np.isfinite(stamps).all():
            raise NotFiniteError("an arrival time is NaN or infinite")

        table = self._reserved_table(rows, later, earlier)
        self._record("add", {"ids": new, "times": stamps, "later": later, "earlier": earlier}, rows)
        self._ids, self._table = table_of_ids, table
        table.append(rows)
        self._ids.append(new)
        self._times.extend(stamps)
        self._adjacency.add_nodes(len(new))
        self._adjacency.add_edges(later, earlier)
        self.version += 1
        if self.folder is not None and self.nbytes > self._release_at:
            table.release_pages()
            self._adjacency.release_pages()
            self._release_at = self.nbytes + _RELEASE_AFTER

    def _record(self, what: str, arrays: dict[str, AnyArray], rows: Rows | None = None) -> None:
        """Called with every checked change before it is made; a durable store writes it down."""

    def _new_ids(self, ids: ArrayLike) -> tuple[AnyArray, Ids]:
        """Return ids that can be added, and the collection that they go to: the first ones set its kind."""
        new = ids_of(ids)
        if len(new) == 0:
            raise EmptyBatchError("no node to add; ids is empty")
        held = make_ids(kind_of(new)) if self.arrived == 0 else self._ids
        self._check_kind(held, new)
        if held.kind == "integer" and new.min() < 0:
            raise UnknownNodeError(f"node ids must be integers from 0, not {int(new.min())}")
        known = held.find(new)
        if (known >= 0).any():
            raise DuplicateNodeError(f"node {_first(new, known >= 0)} has already arrived; add each node once")
        if len(np.unique(new)) != len(new):
            raise DuplicateNodeError("a node id occurs twice in one arrival")
        return new, held

    def _check_kind(self, held: Ids, given: AnyArray) -> None:
        if len(given) and kind_of(given) != held.kind:
            raise IdKindError(
                f"this store has ids of kind {held.kind}; {given.ravel()[0]!r} is of kind {kind_of(given)}"
            )

    def _reserved_table(self, rows: Rows, later: PositionArray, earlier: PositionArray) -> Table:
        """Return the table, after reserving disk space for an arrival, or raise DiskFullError."""
        table = self._table
        with self._reserving(f"{rows.shape[0]} more nodes"):
            if table is None:
                table = make_table(rows.shape[1], not isinstance(rows, np.ndarray), self.folder)
            if self.folder is not None:
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
        later, earlier = self._ordered_ends(ends_of(edges))
        new = ~self._adjacency.have_edge(later, earlier)
        later, earlier = later[new], earlier[new]
        if len(later):
            if self.folder is not None:
                with self._reserving(f"{len(later)} more edges"):
                    self._adjacency.make_room(later, earlier)
            self._record("add_edges", {"later": later, "earlier": earlier})
            self._adjacency.add_edges(later, earlier)
            self.version += 1
        return len(later)

    @_locked
    def remove_edges(self, edges: ArrayLike) -> None:
        """Remove edges. One that is not there raises `UnknownEdgeError`; one that is given twice counts once.

        Args:
            edges: node ids of shape [2, num_edges].
        """
        later, earlier = self._ordered_ends(ends_of(edges))
        there = self._adjacency.have_edge(later, earlier)
        if not there.all():
            missing = self.ids_at(np.array([later[~there][0], earlier[~there][0]])).tolist()
            raise UnknownEdgeError(f"there is no edge between {missing[0]!r} and {missing[1]!r}")
        if len(later):
            self._record("remove_edges", {"later": later, "earlier": earlier})
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
        self._record("update", {"positions": positions}, rows)
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
        wanted, positions = ids_of(ids), self._distinct(ids)
        self._record("remove", {"positions": positions})
        self._adjacency.keep_versions()
        self._adjacency.remove_nodes(positions)
        self.features.erase(positions)
        self._ids.remove(wanted)
        self._mark_removed(positions)
        self.version += 1

    def _mark_removed(self, positions: PositionArray | IntArray) -> None:
        gone = np.zeros(self.arrived, np.bool_) if self._gone is None else self._gone
        if len(gone) < self.arrived:
            gone = np.concatenate([gone, np.zeros(max(self.arrived, 2 * len(gone)) - len(gone), np.bool_)])
        gone[positions] = True
        self._gone = gone
        self._removed += len(positions)

    @_locked
    def add_removed(self, count: int, width: int, sparse: bool, kind: Kind) -> None:
        """Take the positions of nodes that were removed; for a store that is written down and read again.

        Args:
            count: number of positions.
            width: number of features.
            sparse: whether features are sparse.
            kind: kind of ids.
        """
        table = self._table
        if not 0 < count <= _MAX_NODES - self.arrived or width < 1 or (table is not None and table.width != width):
            raise GraphError(f"{count} removed nodes of width {width} do not fit this store")
        rows: Rows = csr_array((count, width), dtype=np.float32) if sparse else np.zeros((count, width), np.float32)
        none = np.empty(0, np.int32)
        table = self._reserved_table(rows, none, none)
        if self.arrived == 0:
            self._ids = make_ids(kind)
        self._table = table
        table.append(rows)
        self._adjacency.keep_versions()
        self._ids.skip(count)
        self._times.extend(np.zeros(count))
        self._adjacency.add_nodes(count)
        self._mark_removed(np.arange(self.arrived - count, self.arrived))
        self.version += 1

    def _distinct(self, ids: ArrayLike) -> PositionArray:
        """Return the positions of distinct nodes, at least one."""
        positions = self.positions(ids)
        if len(positions) == 0:
            raise EmptyBatchError("no node is given; ids is empty")
        if len(np.unique(positions)) != len(positions):
            raise DuplicateNodeError("a node id occurs twice in one call; give each node once")
        return positions

    def _ordered_ends(self, ends: AnyArray) -> tuple[PositionArray, PositionArray]:
        """Return positions of the (later, earlier) ends of edges between nodes that are there, sorted, each once."""
        found = self.positions(ends.ravel())
        return self._simple(ends, found.reshape(2, -1))

    def _simple(self, ends: AnyArray, positions: PositionArray) -> tuple[PositionArray, PositionArray]:
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
        wanted = ids_of(ids)
        found = self.find(wanted)
        if (found < 0).any():
            raise UnknownNodeError(f"node {_first(wanted, found < 0)} has not arrived, or was removed")
        return found

    def find(self, ids: ArrayLike) -> PositionArray:
        """Return the positions of arrival of these ids, -1 for a node that is not there."""
        wanted = ids_of(ids)
        if not self.arrived:
            return np.full(len(wanted), -1, np.int32)
        self._check_kind(self._ids, wanted)
        return self._ids.find(wanted)

    def have_edges(self, edges: ArrayLike) -> BoolArray:
        """Return for each pair of nodes that are there whether they have an edge."""
        first, second = self.positions(ends_of(edges).ravel()).reshape(2, -1)
        return self._adjacency.have_edge(first, second)

    def degrees(self, ids: ArrayLike) -> PositionArray:
        """Return the current degrees of nodes."""
        return self._adjacency.degrees(self.positions(ids))

    def neighbors(self, node: int | str) -> AnyArray:
        """Return the ids of a node's current neighbours, in order of arrival."""
        return self._ids.at(self._adjacency.neighbors(int(self.positions([node])[0])))

    def ids_at(self, positions: PositionArray | IntArray) -> AnyArray:
        """Return the ids of the nodes at these positions of arrival."""
        return self._ids.at(positions)

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

    def _checked_edges(self, held: Ids, new: AnyArray, ends: AnyArray) -> tuple[PositionArray, PositionArray]:
        """Return the positions of the (later, earlier) ends of valid edges, sorted."""
        if ends.shape[1] == 0:
            none = np.empty(0, np.int32)
            return none, none
        self._check_kind(held, ends)
        positions = held.find_with(new, self.arrived, ends.ravel())
        if (positions < 0).any():
            unknown = _first(ends.ravel(), positions < 0)
            raise UnknownNodeError(f"an edge refers to node {unknown}, which has not arrived, or was removed")
        later, earlier = self._simple(ends, positions.reshape(2, -1))
        if later[0] < self.arrived:  # sorted: the edges of old nodes come first
            old = self.ids_at(np.array([later[0], earlier[0]])).tolist()
            raise OldEdgeError(f"the edge {old} connects two nodes that arrived earlier; use add_edges for it")
        return later, earlier


def _first(ids: AnyArray, chosen: BoolArray) -> str:
    """Return the first chosen id, as a message shows it."""
    return repr(ids[chosen].tolist()[0])
