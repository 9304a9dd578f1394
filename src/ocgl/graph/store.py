"""The Past Information Store: the graph so far, and bounded looks at it."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ocgl.errors import (
    DiskFullError,
    DuplicateEdgeError,
    DuplicateNodeError,
    EmptyBatchError,
    GraphError,
    NotFiniteError,
    OldEdgeError,
    SelfLoopError,
    StoreFolderError,
    UnknownNodeError,
)
from ocgl.graph.adjacency import Adjacency, in_order
from ocgl.graph.events import Arrival
from ocgl.graph.features import Table, checked_rows, integers, make_table, numbers
from ocgl.graph.growable import Growable
from ocgl.graph.hashing import IdTable
from ocgl.graph.look import Look
from ocgl.graph.neighborhood import Neighborhood, touched, weigh
from ocgl.graph.sampling import sample
from ocgl.graph.sparsify import Sparsified, sparsify
from ocgl.kernels import kernel
from ocgl.types import DoubleArray, IntArray, PositionArray, Rows

_MAX_NODES = 2**31 - 1
_LET_GO = 1 << 28


class Store:
    """Append-only. Nodes are added once, with edges to nodes that have arrived; no labels are held.

    Everything lies in memory, or, with a `folder`, features and neighbours lie in files there, mapped, that are gone
    with the store. What a look sees is the same to the bit.

    >>> store = Store()
    >>> store.add([7, 8], np.eye(2), edges=[[8], [7]])
    >>> look = store.look([8], Look(hops=1, norm="mean"), key=0)
    >>> look.aggregated.tolist()
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
            raise StoreFolderError(f"no store can be kept in {folder}: {error}") from error
        self._table: Table | None = None
        self._let_go_at = _LET_GO

    def __len__(self) -> int:
        return len(self._adjacency)

    @property
    def edges(self) -> int:
        """How many undirected edges have arrived."""
        return self._adjacency.edges

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        table = 0 if self._table is None else self._table.nbytes
        ids = self._ids.nbytes + self._order.nbytes + self._times.nbytes
        return table + ids + self._adjacency.nbytes

    @property
    def features(self) -> Table:
        """The rows of all nodes, by position of arrival."""
        if self._table is None:
            raise GraphError("no node has arrived yet")
        return self._table

    @property
    def ids(self) -> IntArray:
        """Ids in order of arrival."""
        rows: IntArray = self._order.rows
        return rows.copy()

    @property
    def times(self) -> DoubleArray:
        """Times in order of arrival."""
        rows: DoubleArray = self._times.rows
        return rows.copy()

    def add(self, ids: ArrayLike, x: Any, edges: ArrayLike = ((), ()), times: ArrayLike | None = None) -> None:
        """Add nodes with their edges (2 x E ids), all or nothing.

        `times` defaults to the position of arrival.
        """
        new = _ids_of(ids)
        known = self._ids.find(new)
        if len(new) == 0:
            raise EmptyBatchError("no node to add")
        if new.min() < 0:
            raise UnknownNodeError(f"node ids are integers from 0; got {int(new.min())}")
        if (known >= 0).any():
            raise DuplicateNodeError(f"node {int(new[known >= 0][0])} has arrived before; a node is added once")
        if len(np.unique(new)) != len(new):
            raise DuplicateNodeError("a node is named twice in one arrival")
        if len(self) + len(new) > _MAX_NODES:
            raise GraphError(f"a store holds at most {_MAX_NODES} nodes")
        width, sparse = (None, None) if self._table is None else (self._table.width, self._table.sparse)
        rows = checked_rows(x, len(new), width, sparse)
        later, earlier = self._checked_edges(new, _ends_of(edges))
        first = len(self)
        stamps = np.arange(first, first + len(new), dtype=np.float64) if times is None else numbers(times, "times")
        if stamps.shape != new.shape:
            raise GraphError(f"{stamps.size} times given for {len(new)} nodes")
        if not np.isfinite(stamps).all():
            raise NotFiniteError("an arrival time is NaN or infinite")

        table = self._table
        if self.folder is not None:
            table = self._with_room(rows, later, earlier)
        elif table is None:
            table = make_table(rows.shape[1], not isinstance(rows, np.ndarray))
        self._table = table
        table.append(rows)
        self._ids.append(new)
        self._order.extend(new)
        self._times.extend(stamps)
        self._adjacency.add_nodes(len(new))
        self._adjacency.add_edges(later, earlier)
        if self.folder is not None and self.nbytes > self._let_go_at:
            table.let_go()
            self._adjacency.let_go()
            self._let_go_at = self.nbytes + _LET_GO

    def _with_room(self, rows: Rows, later: PositionArray, earlier: PositionArray) -> Table:
        """Give the table, with room on disk for an arrival, or say that there is none."""
        try:
            table = self._table or make_table(rows.shape[1], not isinstance(rows, np.ndarray), self.folder)
            table.make_room(rows)
            self._adjacency.make_room(later, earlier)
        except OSError as error:
            raise DiskFullError(f"no room for {rows.shape[0]} more nodes in {self.folder}: {error}") from error
        return table

    def arrive(self, arrival: Arrival) -> None:
        """Add the nodes of one arrival."""
        self.add(arrival.ids, arrival.rows, arrival.edges, arrival.times)

    @property
    def adjacency(self) -> tuple[IntArray, PositionArray]:
        """Where each node's neighbours start and how many they are, and the pool they lie in; as kernels read them."""
        return self._adjacency.arrays

    def positions(self, ids: ArrayLike) -> PositionArray:
        """Give the positions of arrival of these ids."""
        wanted = _ids_of(ids)
        found = self._ids.find(wanted)
        if (found < 0).any():
            raise UnknownNodeError(f"node {int(wanted[found < 0][0])} has not arrived")
        return found

    def degrees(self, ids: ArrayLike) -> PositionArray:
        """Give the visible degrees of nodes."""
        return self._adjacency.degrees(self.positions(ids))

    def neighbors(self, node: int) -> IntArray:
        """Give the ids of a node's visible neighbours, in order of arrival."""
        found: IntArray = self._order.rows[self._adjacency.neighbors(int(self.positions([node])[0]))]
        return found

    def sparsified(self, position: int, budget: tuple[int, int], key: int) -> Sparsified:
        """Give a small subgraph around a node (by position), at most `budget` first- and second-hop nodes."""
        return sparsify(self._adjacency.arrays, position, budget, key)

    def look(self, ids: ArrayLike, look: Look, key: int) -> Neighborhood:
        """Look at distinct nodes. The same key, nodes and graph give the same look."""
        seeds = self.positions(ids)
        if len(seeds) == 0:
            raise EmptyBatchError("no node to look at")
        fanouts = np.array(look.fanouts, np.int64)
        nodes, sizes, indptr, indices = sample(*self._adjacency.arrays, seeds, fanouts, np.uint64(key))
        if sizes[0] != len(seeds):
            raise DuplicateNodeError("a node is named twice in one look")
        degrees = self._adjacency.degrees(nodes) if look.degrees == "store" else None
        edge, own = weigh(look, sizes, indptr, indices, degrees)
        cost = touched(self.features, nodes, indptr)
        return Neighborhood(tuple(sizes.tolist()), indptr, indices, edge, own, nodes, self.features, cost, look.norm)

    def _checked_edges(self, new: IntArray, ends: IntArray) -> tuple[PositionArray, PositionArray]:
        """Give positions (later, earlier), sorted, of edges that are allowed."""
        if ends.shape[1] == 0:
            none = np.empty(0, np.int32)
            return none, none
        found = self._ids.find(np.ascontiguousarray(ends.ravel()))
        mine = _positions_in(new, len(self), ends.ravel(), found)
        if (mine < 0).any():
            raise UnknownNodeError(f"an edge names node {int(ends.ravel()[mine < 0][0])}, which has not arrived")
        later = np.maximum(*mine.reshape(2, -1))
        earlier = np.minimum(*mine.reshape(2, -1))
        if (later == earlier).any():
            raise SelfLoopError(f"node {int(ends[0][later == earlier][0])} has an edge to itself")
        if later.min() < len(self):
            old = ends[:, later < len(self)][:, 0].tolist()
            raise OldEdgeError(f"the edge {old} joins two nodes that had arrived before; edges come with a node")
        later, earlier = in_order(later, earlier)
        if ((later[1:] == later[:-1]) & (earlier[1:] == earlier[:-1])).any():
            raise DuplicateEdgeError("an edge is given twice in one arrival")
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
    """Fill the positions that the new ids will have where the table knows none."""
    order = np.argsort(new)
    return _match(new[order], order, first, np.ascontiguousarray(wanted), found)


def _ends_of(edges: ArrayLike) -> IntArray:
    given = integers(edges)
    if given is not None and given.size == 0:
        return np.empty((2, 0), np.int64)
    if given is None or given.ndim != 2 or len(given) != 2:
        raise GraphError(f"edges are integers of shape (2, E), not {_shown(edges)}")
    return given


def _ids_of(ids: ArrayLike) -> IntArray:
    given = integers(ids)
    if given is not None and given.size == 0:
        return np.empty(0, np.int64)
    if given is None or given.ndim != 1:
        raise GraphError(f"node ids are a flat array of integers, not {_shown(ids)}")
    return given


def _shown(given: ArrayLike) -> str:
    try:
        array = np.asarray(given)
    except ValueError:
        return "rows of different lengths"
    return f"{array.dtype} of shape {array.shape}"
