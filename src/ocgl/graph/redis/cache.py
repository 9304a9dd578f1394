"""A bounded memory of feature rows."""

from collections.abc import Callable

import numpy as np

from ocgl.graph._kernels.hashing import IdTable
from ocgl.types import FloatArray, PositionArray

Fetch = Callable[[PositionArray], FloatArray]


class _Half:
    """Rows by position of arrival; there is room for a fixed number."""

    def __init__(self, width: int, room: int) -> None:
        self.table, self.rows = IdTable(), np.empty((room, width), np.float32)  # memory is taken when it is written

    def find(self, nodes: PositionArray) -> PositionArray:
        """Return the slot of each node's row, -1 for none."""
        return self.table.find(nodes.astype(np.int64))

    def put(self, nodes: PositionArray, rows: FloatArray) -> None:
        """Put in rows of distinct nodes that are not here."""
        begin = self.table.size
        self.rows[begin : begin + len(nodes)] = rows
        self.table.append(nodes.astype(np.int64))

    def forget(self, nodes: PositionArray) -> None:
        """Forget the rows of distinct nodes."""
        self.table.remove(nodes[self.find(nodes) >= 0].astype(np.int64))


class RowCache:
    """Rows by position of arrival, in two halves: when the new one is full it becomes the old one, which is dropped.

    What is used again moves to the new half. A call for more rows than a half holds makes the halves larger.

    Args:
        width: numbers of a row.
        room: most rows of both halves together.

    Attributes:
        hits: rows that were found.
        misses: rows that were fetched.

    >>> cache = RowCache(1, 4)
    >>> cache.slots(np.array([5, 6], np.int32), lambda nodes: nodes[:, None].astype(np.float32)).tolist()
    [0, 1]
    >>> cache.rows.tolist(), cache.misses
    ([[5.0], [6.0]], 2)
    """

    def __init__(self, width: int, room: int) -> None:
        self._width, self._room = width, max(room // 2, 1)
        self.hits = self.misses = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._new = _Half(self._width, self._room)
        self._old = _Half(self._width, 0)

    @property
    def rows(self) -> FloatArray:
        """The rows, by slot."""
        return self._new.rows

    @property
    def nbytes(self) -> int:
        """Most memory in bytes."""
        return 2 * 4 * self._width * self._room

    def forget(self, nodes: PositionArray) -> None:
        """Forget the rows of distinct nodes."""
        self._new.forget(nodes)
        self._old.forget(nodes)

    def lacking(self, nodes: PositionArray) -> PositionArray:
        """Return the nodes whose rows are not here, each once, sorted."""
        return np.unique(nodes[(self._new.find(nodes) < 0) & (self._old.find(nodes) < 0)])

    def slots(self, nodes: PositionArray, fetch: Fetch) -> PositionArray:
        """Return the slot of each node's row in `rows`, until the next call; rows that are not here are fetched."""
        found = self._new.find(nodes)
        missing = np.unique(nodes[found < 0])
        if len(missing) == 0:
            self.hits += len(nodes)
            return found
        if self._new.table.size + len(missing) > self._room:
            missing = np.unique(nodes)
            self._room = max(self._room, len(missing))
            self._old, self._new = self._new, _Half(self._width, self._room)
        old = self._old.find(missing)
        rows = np.empty((len(missing), self._width), np.float32)
        there = old >= 0
        rows[there] = self._old.rows[old[there]]
        if not there.all():
            rows[~there] = fetch(missing[~there])
        self.misses += int((~there).sum())
        self.hits += len(nodes) - int((~there).sum())
        self._new.put(missing, rows)
        return self._new.find(nodes)


class LastRows:
    """The rows of the last call, and no others: for a client that is to remember nothing.

    Args:
        width: numbers of a row.

    Attributes:
        rows: the rows.
        hits: rows that were asked for again.
        misses: rows that were fetched.
    """

    nbytes = 0

    def __init__(self, width: int) -> None:
        self._width = width
        self.hits = self.misses = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.rows: FloatArray = np.empty((0, self._width), np.float32)
        self._nodes: PositionArray = np.empty(0, np.int32)

    def forget(self, nodes: PositionArray) -> None:
        """Forget the rows of nodes, and with them the others."""
        self.clear()

    def lacking(self, nodes: PositionArray) -> PositionArray:
        """Return the nodes whose rows are not here: all of them, or none."""
        return nodes[:0] if self._has(nodes) else nodes

    def slots(self, nodes: PositionArray, fetch: Fetch) -> PositionArray:
        """Return the slot of each node's row in `rows`, until the next call; rows that are not here are fetched."""
        if self._has(nodes):
            self.hits += len(nodes)
        else:
            self.rows, self._nodes = fetch(nodes), nodes
            self.misses += len(nodes)
        return np.arange(len(nodes), dtype=np.int32)

    def _has(self, nodes: PositionArray) -> bool:
        return np.array_equal(nodes, self._nodes[: len(nodes)])
