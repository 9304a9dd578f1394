"""Ids of nodes whose positions of arrival are on servers; some are remembered."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ocgl.errors import GraphError
from ocgl.graph._kernels.hashing import insert, lookup, remove
from ocgl.graph.ids import Kind, as_objects
from ocgl.types import AnyArray, IntArray, PositionArray

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
