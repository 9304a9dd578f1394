"""Parts of a store whose content is on servers: neighbours, times and features, as `GraphStore` uses them.

What changes them is written down by the store before these parts hear of it; they count, remember and ask.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from ocgl.errors import GraphError
from ocgl.graph._kernels.aggregation import Block, dense_rows
from ocgl.graph._kernels.sparse_rows import SparseRows
from ocgl.graph.features import DenseTable, SparseTable, table_of
from ocgl.graph.redis.cache import LastRows, RowCache
from ocgl.graph.redis.reading import dense, sparse
from ocgl.graph.redis.servers import Values
from ocgl.types import BoolArray, FloatArray, IntArray, PositionArray, Rows

if TYPE_CHECKING:
    from ocgl.graph.redis.store import RedisStore


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
