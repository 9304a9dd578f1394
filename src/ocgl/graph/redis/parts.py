"""Parts of a store whose content is on servers: ids, neighbours and features, as `GraphStore` uses them.

What changes them is written down by the store before these parts hear of it; they count, remember and ask.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from ocgl.errors import GraphError
from ocgl.graph._kernels.aggregation import Block, dense_rows
from ocgl.graph._kernels.hashing import insert, lookup, remove
from ocgl.graph._kernels.sparse_rows import SparseRows
from ocgl.graph.features import DenseTable, SparseTable, table_of
from ocgl.graph.ids import Kind, as_objects
from ocgl.graph.redis.cache import LastRows, RowCache
from ocgl.graph.redis.reading import dense, sparse
from ocgl.graph.redis.servers import Values
from ocgl.types import AnyArray, BoolArray, FloatArray, IntArray, PositionArray, Rows

if TYPE_CHECKING:
    from ocgl.graph.redis.store import RedisStore

_KNOWN = 1 << 18
"""Ids that a client remembers, about: integers twice as many."""
_LEAST = 1 << 10


class KnownIntegers:
    """Positions of ids that are integers, in two halves: when the new one is full it becomes the old one.

    Args:
        room: most ids of a half.

    >>> known = KnownIntegers(4)
    >>> known.put(np.array([70, 5]), np.array([0, 1], np.int32))
    >>> known.find(np.array([5, 6, 70])).tolist()
    [1, -1, 0]
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._new, self._old, self._count = _table(_LEAST), _table(_LEAST), 0

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return sum(part.nbytes for half in (self._new, self._old) for part in half)

    def find(self, ids: IntArray) -> PositionArray:
        """Return the position of each id, -1 for an unknown id."""
        found = lookup(*self._new, ids)
        return np.where(found < 0, lookup(*self._old, ids), found)

    def put(self, ids: IntArray, places: PositionArray) -> None:
        """Remember distinct ids that are not known."""
        if self._count and self._count + len(ids) > self._room:
            self._old, self._new, self._count = self._new, _table(_LEAST), 0
        while 2 * (self._count + len(ids)) > len(self._new[0]):
            keys, values = self._new
            there = keys >= 0
            self._new = _table(2 * len(keys))
            insert(*self._new, keys[there], values[there])
        insert(*self._new, ids, places)
        self._count += len(ids)

    def forget(self, ids: IntArray) -> None:
        """Forget distinct ids."""
        for half in (self._new, self._old):
            remove(half[0], ids[lookup(*half, ids) >= 0])


def _table(capacity: int) -> tuple[IntArray, PositionArray]:
    return np.full(capacity, -1, np.int64), np.empty(capacity, np.int32)


class KnownTexts:
    """Positions of ids that are text; of many, the older half is forgotten.

    Args:
        room: most ids.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._position: dict[str, int] = {}

    @property
    def nbytes(self) -> int:
        """Memory in bytes, about."""
        return 100 * len(self._position)

    def clear(self) -> None:
        """Forget everything."""
        self._position.clear()

    def find(self, ids: AnyArray) -> PositionArray:
        """Return the position of each id, -1 for an unknown id."""
        return np.array([self._position.get(id, -1) for id in ids.tolist()], np.int32)

    def put(self, ids: AnyArray, places: PositionArray) -> None:
        """Remember ids."""
        self._position |= zip(ids.tolist(), places.tolist(), strict=True)
        if len(self._position) > self._room:
            for id in list(self._position)[: self._room // 2]:
                del self._position[id]

    def forget(self, ids: AnyArray) -> None:
        """Forget ids."""
        for id in ids.tolist():
            self._position.pop(id, None)


class RemoteIds:
    """Ids of nodes and their positions of arrival.

    Args:
        store: the store.
        kind: kind of the ids.
    """

    def __init__(self, store: "RedisStore", kind: Kind) -> None:
        self.kind: Kind = kind
        self._store = store
        self._known: KnownIntegers | KnownTexts = self._nothing(_KNOWN)
        self._id: dict[int, int | str] = {}

    def _nothing(self, room: int) -> KnownIntegers | KnownTexts:
        return KnownIntegers(room) if self.kind == "integer" else KnownTexts(room)

    @property
    def nbytes(self) -> int:
        """Memory in bytes, about."""
        return self._known.nbytes + 100 * len(self._id)

    def find(self, ids: AnyArray) -> PositionArray:
        """Return the position of each id, -1 for an unknown id."""
        if (ids.dtype == object) != (self.kind == "text"):
            return np.full(len(ids), -1, np.int32)
        found = self._known.find(ids)
        lacking = found < 0
        if lacking.any():
            missing, inverse = np.unique(ids[lacking], return_inverse=True)
            with self._store.reading():
                asked = self._store.reader.positions(missing)
            if self._store.then is not None:  # what has arrived later is not there yet
                asked[asked >= self._store.then] = -1
            found[lacking] = asked[inverse]
            self._known.put(missing[asked >= 0], asked[asked >= 0])
        return found

    def find_with(self, new: AnyArray, first: int, wanted: AnyArray) -> PositionArray:
        """Return positions as `find` does, of ids that are about to arrive at positions from `first` on as well."""
        coming = self._nothing(len(new))
        coming.put(new, np.arange(first, first + len(new), dtype=np.int32))
        found = coming.find(wanted)
        there = found < 0
        if there.any():
            found[there] = self.find(wanted[there])
        return found

    def append(self, ids: AnyArray) -> None:
        """Remember ids that were added."""
        first = self._store.arrived
        self._known.put(ids, np.arange(first, first + len(ids), dtype=np.int32))

    def remove(self, ids: AnyArray) -> None:
        """Forget ids that were removed."""
        self._known.forget(ids)
        self._id.clear()

    def skip(self, count: int) -> None:
        """Positions of removed nodes cannot be added."""
        raise GraphError("a store on Redis is not written down and read again; its log is")

    def at(self, positions: AnyArray) -> AnyArray:
        """Return the ids at these positions."""
        wanted = np.asarray(positions).tolist()
        missing = list(dict.fromkeys(place for place in wanted if place not in self._id))
        if missing:
            if len(self._id) > _KNOWN:
                self._id.clear()
                missing = list(dict.fromkeys(wanted))
            asked = dict(zip(missing, self._ids(missing), strict=True))
            found = self._array([self._id[place] if place in self._id else asked[place] for place in wanted])
            self._id |= {place: id for place, id in asked.items() if id not in ("", -1)}
            return found
        return self._array([self._id[place] for place in wanted])

    @property
    def every(self) -> AnyArray:
        """The ids of all positions."""
        return self._array(self._ids(list(range(self._store.arrived))))

    def forget(self) -> None:
        """Forget everything: another process has removed nodes."""
        self._known.clear()
        self._id.clear()

    def _ids(self, positions: list[int]) -> list[Any]:
        with self._store.reading():
            return self._store.reader.ids(np.array(positions, np.int32), self.kind)

    def _array(self, ids: list[Any]) -> AnyArray:
        return as_objects(ids) if self.kind == "text" else np.array(ids, np.int64)


class RemoteAdjacency:
    """Neighbours of nodes.

    Args:
        store: the store.
    """

    def __init__(self, store: "RedisStore") -> None:
        self._store = store
        self._arrived = 0
        self.edges = 0

    def __len__(self) -> int:
        return self._arrived

    def set(self, arrived: int, edges: int) -> None:
        """Take the numbers of nodes and edges that the servers have."""
        self._arrived, self.edges = arrived, edges

    @property
    def nbytes(self) -> int:
        """Bytes of degrees, versions and neighbours on the servers."""
        return 8 * self._arrived + 8 * self.edges

    @property
    def arrays(self) -> tuple[IntArray, PositionArray]:
        """The rows are not here."""
        raise GraphError("the rows of this graph are on servers; sample it")

    versions = changes = arrays

    def keep_versions(self) -> None:
        """Versions are kept on the servers."""

    def touch(self, nodes: PositionArray) -> None:
        """New features were written down."""

    def release_pages(self) -> None:
        """Nothing is here."""

    def add_nodes(self, count: int) -> None:
        """Count nodes that were added."""
        self._arrived += count

    def add_edges(self, later: PositionArray, earlier: PositionArray) -> None:
        """Count edges that were added."""
        self.edges += len(later)

    def remove_edges(self, first: PositionArray, second: PositionArray) -> None:
        """Count edges that were removed."""
        self.edges -= len(first)

    def remove_nodes(self, nodes: PositionArray) -> None:
        """The store has counted the edges of removed nodes."""

    def have_edge(self, first: PositionArray, second: PositionArray) -> BoolArray:
        """Return for each pair of nodes whether they have an edge."""
        with self._store.reading():
            return self._store.reader.searched(first, second)[0]

    def degrees(self, nodes: PositionArray | IntArray) -> PositionArray:
        """Return the degrees of nodes."""
        with self._store.reading():
            return self._store.reader.degrees(np.asarray(nodes, np.int32), self._store.then)

    def neighbors(self, node: int) -> PositionArray:
        """Return the neighbours of a node."""
        return self._store.rows_at(np.array([node], np.int32))[0]


class RemoteTimes:
    """Times of arrival are on the servers only."""

    nbytes = 0

    def extend(self, times: Any) -> None:
        """They were written down."""


class _OnServers:
    """What tables have in common whose rows are written down by the store, and lie on servers."""

    _store: "RedisStore"

    def __len__(self) -> int:
        return self._store.arrived

    def make_room(self, rows: Rows, replacing: bool = False) -> None:
        """The servers have room, or refuse the change."""

    def append(self, rows: Rows) -> None:
        """They were written down."""

    def release_pages(self) -> None:
        """Nothing is mapped."""


class RemoteTable(_OnServers, DenseTable):
    """Dense features; what was fetched is remembered.

    Args:
        store: the store.
        width: number of features.
        cache: bytes to remember.
    """

    def __init__(self, store: "RedisStore", width: int, cache: int) -> None:
        super().__init__(width)
        self._store = store
        room = cache // (4 * width)
        self.cache = RowCache(width, room) if room else LastRows(width)

    @property
    def nbytes(self) -> int:
        """Bytes of the features on the servers."""
        return len(self) * self.row_bound

    def replace(self, nodes: PositionArray, rows: Rows) -> None:
        """They were written down; what is remembered is old."""
        self.cache.forget(nodes)

    def erase(self, nodes: PositionArray) -> None:
        """They were erased on the servers."""
        self.cache.forget(nodes)

    def forget(self) -> None:
        """Forget everything: another process has changed features."""
        self.cache.clear()

    def fetch(self, nodes: PositionArray) -> None:
        """Bring rows here, those that are not."""
        self._slots(nodes)

    def fetch_with_degrees(self, nodes: PositionArray, then: int | None) -> PositionArray:
        """Bring rows here, and return the degrees of their nodes, in one round trip."""
        missing = self.cache.lacking(nodes)
        stored, degrees = self._store.reader.features_and_degrees(missing, nodes, then)
        rows = dense(stored, self.width)
        self.cache.slots(nodes, lambda some: rows if len(some) == len(rows) else self._fetched(some))
        return degrees

    def take(self, nodes: PositionArray) -> Rows:
        """Return a copy of rows."""
        with self._store.reading():
            slots = self._slots(nodes)
            rows: FloatArray = self.cache.rows[slots]
            return rows

    def aggregate(self, nodes: PositionArray, block: Block) -> FloatArray:
        """Return weighted sums of neighbours' rows."""
        with self._store.reading():
            slots = self._slots(nodes)
            return dense_rows(
                self.cache.rows, slots, block.indptr, block.indices, block.edge_weight, block.self_weight, block.rows
            )

    def _slots(self, nodes: PositionArray) -> PositionArray:
        return self.cache.slots(np.asarray(nodes, np.int32), self._fetched)

    def _fetched(self, nodes: PositionArray) -> FloatArray:
        return dense(self._store.reader.features(nodes), self.width)


class RemoteSparseTable(_OnServers, SparseTable):
    """Sparse features; what was fetched is remembered, up to some bytes.

    Args:
        store: the store.
        width: number of features.
        cache: bytes to remember.
    """

    def __init__(self, store: "RedisStore", width: int, cache: int) -> None:
        super().__init__(width)
        self._store, self._most = store, cache
        self.forget()

    def forget(self) -> None:
        """Forget everything: another process has changed features."""
        self._held: dict[int, tuple[PositionArray, FloatArray]] = {}
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes that are remembered."""
        return self._bytes

    def replace(self, nodes: PositionArray, rows: Rows) -> None:
        """They were written down; what is remembered is old."""
        self.erase(nodes)

    def erase(self, nodes: PositionArray) -> None:
        """They have changed on the servers."""
        for node in nodes.tolist():
            old = self._held.pop(node, None)
            self._bytes -= 0 if old is None else 8 * len(old[0]) + 8

    def fetch(self, nodes: PositionArray) -> None:
        """Bring rows here, those that are not."""
        missing = self._lacking(nodes)
        self._take_in(missing, self._store.reader.features(missing))

    def fetch_with_degrees(self, nodes: PositionArray, then: int | None) -> PositionArray:
        """Bring rows here, and return the degrees of their nodes, in one round trip."""
        missing = self._lacking(nodes)
        stored, degrees = self._store.reader.features_and_degrees(missing, nodes, then)
        self._take_in(missing, stored)
        return degrees

    def _lacking(self, nodes: PositionArray) -> PositionArray:
        if self._bytes > self._most:
            self.forget()
        return np.array([node for node in dict.fromkeys(nodes.tolist()) if node not in self._held], np.int32)

    def _take_in(self, nodes: PositionArray, stored: Values) -> None:
        for node, row in zip(nodes.tolist(), sparse(stored), strict=True):
            self._held[node] = row
            self._bytes += 8 * len(row[0]) + 8

    def bytes_of(self, nodes: PositionArray) -> int:
        """Return the number of bytes of these rows."""
        with self._store.reading():
            self.fetch(nodes)
            return sum(8 * len(self._held[node][0]) + 8 for node in nodes.tolist())

    def take(self, nodes: PositionArray) -> Rows:
        """Return a copy of rows."""
        with self._store.reading():
            self.fetch(nodes)
            parts = [self._held[node] for node in nodes.tolist()]
        none: tuple[PositionArray, FloatArray] = (np.empty(0, np.int32), np.empty(0, np.float32))
        columns, values = (np.concatenate([part[i] for part in [none, *parts]]) for i in (0, 1))
        starts = np.cumsum([0, *(len(part[0]) for part in parts)])
        return csr_array((values, columns, starts), shape=(len(nodes), self.width))

    def aggregate(self, nodes: PositionArray, block: Block) -> FloatArray:
        """Return weighted sums of neighbours' rows, as dense rows."""
        return table_of(self.take(nodes)).aggregate(np.arange(len(nodes), dtype=np.int32), block)

    def chosen(self, nodes: PositionArray) -> SparseRows:
        """Return selected rows for matrix products."""
        local = table_of(self.take(nodes))
        assert isinstance(local, SparseTable)
        return local.chosen(np.arange(len(nodes), dtype=np.int32))
