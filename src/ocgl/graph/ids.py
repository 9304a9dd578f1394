"""Ids of nodes: integers or text of the user's own, and the positions of arrival that they stand for."""

from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ocgl.errors import GraphError, IdKindError
from ocgl.graph._kernels.hashing import IdTable
from ocgl.graph.features import detached, integers
from ocgl.graph.growable import Growable
from ocgl.kernels import kernel
from ocgl.types import AnyArray, IntArray, PositionArray

LONGEST = 1024
"""Most bytes of a text id, in UTF-8."""

Kind = Literal["integer", "text"]


class Ids(Protocol):
    """The ids of a store's nodes, by position of arrival."""

    kind: Kind

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        ...

    def find(self, ids: AnyArray) -> PositionArray:
        """Return the position of each id, -1 for an unknown id."""
        ...

    def find_with(self, new: AnyArray, first: int, wanted: AnyArray) -> PositionArray:
        """Return positions as `find` does, of ids that are about to arrive at positions from `first` on as well."""
        ...

    def append(self, ids: AnyArray) -> None:
        """Add ids, which must be new and distinct, at the next positions."""
        ...

    def remove(self, ids: AnyArray) -> None:
        """Remove distinct ids that are there; their positions are not given again."""
        ...

    def skip(self, count: int) -> None:
        """Add positions of nodes that were removed."""
        ...

    def at(self, positions: AnyArray) -> AnyArray:
        """Return the ids at these positions."""
        ...

    @property
    def every(self) -> AnyArray:
        """The ids of all positions, as a copy."""
        ...


class IntegerIds:
    """Integers from 0 to 2**63 - 1, in a hash table.

    >>> ids = IntegerIds()
    >>> ids.append(np.array([70, 5]))
    >>> ids.find(np.array([5, 6])).tolist(), ids.at(np.array([0])).tolist()
    ([1, -1], [70])
    """

    kind: Kind = "integer"

    def __init__(self) -> None:
        self._table = IdTable()
        self._order = Growable(np.int64)

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self._table.nbytes + self._order.nbytes

    def find(self, ids: AnyArray) -> PositionArray:
        """Return the position of each id, -1 for an unknown id."""
        return self._table.find(np.ascontiguousarray(ids))

    def find_with(self, new: AnyArray, first: int, wanted: AnyArray) -> PositionArray:
        """Return positions as `find` does, of ids that are about to arrive at positions from `first` on as well."""
        order = np.argsort(new)
        wanted = np.ascontiguousarray(wanted)
        return _match(new[order], order, first, wanted, self._table.find(wanted))

    def append(self, ids: AnyArray) -> None:
        """Add ids, which must be new and distinct, at the next positions."""
        self._table.append(ids)
        self._order.extend(ids)

    def remove(self, ids: AnyArray) -> None:
        """Remove distinct ids that are there; their positions are not given again."""
        self._table.remove(ids)

    def skip(self, count: int) -> None:
        """Add positions of nodes that were removed."""
        self._table.size += count
        self._order.extend(np.full(count, -1, np.int64))

    def at(self, positions: AnyArray) -> AnyArray:
        """Return the ids at these positions."""
        return self._order.rows[positions]

    @property
    def every(self) -> AnyArray:
        """The ids of all positions, as a copy."""
        return self._order.rows.copy()


class TextIds:
    """Any text, in a dictionary: about 150 bytes per node in memory. The text of a removed node is erased.

    >>> ids = TextIds()
    >>> ids.append(np.array(["tx-1", "tx-2"], object))
    >>> ids.find(np.array(["tx-2", "3"], object)).tolist(), ids.at(np.array([0])).tolist()
    ([1, -1], ['tx-1'])
    """

    kind: Kind = "text"

    def __init__(self) -> None:
        self._position: dict[str, int] = {}
        self._names: list[str] = []
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Memory in bytes: the text and, per id, 140 bytes of Python's objects."""
        return self._bytes + 140 * len(self._names)

    def find(self, ids: AnyArray) -> PositionArray:
        """Return the position of each id, -1 for an unknown id."""
        get = self._position.get
        return np.fromiter((get(id, -1) for id in ids.tolist()), np.int32, len(ids))

    def find_with(self, new: AnyArray, first: int, wanted: AnyArray) -> PositionArray:
        """Return positions as `find` does, of ids that are about to arrive at positions from `first` on as well."""
        coming = {id: first + number for number, id in enumerate(new.tolist())}
        get = self._position.get
        return np.fromiter((get(id, coming.get(id, -1)) for id in wanted.tolist()), np.int32, len(wanted))

    def append(self, ids: AnyArray) -> None:
        """Add ids, which must be new and distinct, at the next positions."""
        texts: list[str] = ids.tolist()
        self._position.update(zip(texts, range(len(self._names), len(self._names) + len(texts)), strict=True))
        self._names += texts
        self._bytes += sum(map(len, texts))

    def remove(self, ids: AnyArray) -> None:
        """Remove distinct ids that are there; their positions are not given again."""
        for id in ids.tolist():
            self._names[self._position.pop(id)] = ""
            self._bytes -= len(id)

    def skip(self, count: int) -> None:
        """Add positions of nodes that were removed."""
        self._names += [""] * count

    def at(self, positions: AnyArray) -> AnyArray:
        """Return the ids at these positions."""
        return as_objects([self._names[position] for position in positions.tolist()])

    @property
    def every(self) -> AnyArray:
        """The ids of all positions, as a copy."""
        return as_objects(self._names)


def make_ids(kind: Kind) -> Ids:
    """Return an empty collection of ids."""
    return IntegerIds() if kind == "integer" else TextIds()


def kind_of(ids: AnyArray) -> Kind:
    """Return the kind of ids that `ids_of` or `ends_of` has read."""
    return "text" if ids.dtype == object else "integer"


def as_objects(texts: list[str]) -> AnyArray:
    """Return texts as an array of Python objects, whatever their lengths."""
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


def ids_of(given: ArrayLike) -> AnyArray:
    """Return ids as a one-dimensional array: int64, or Python's text. `3` and `"3"` are different ids.

    >>> ids_of([3, 4]).dtype, ids_of(["3", "x"]).tolist()
    (dtype('int64'), ['3', 'x'])
    """
    texts = _texts(given)
    if texts is not None:
        if texts.ndim != 1:
            raise GraphError(f"node ids must be a one-dimensional array, not of shape {texts.shape}")
        return texts
    found = integers(given)
    if found is not None and found.size == 0:
        return np.empty(0, np.int64)
    if found is None or found.ndim != 1:
        raise GraphError(f"node ids must be a one-dimensional array of integers, or of text, not {_shape(given)}")
    return found


def ends_of(given: ArrayLike) -> AnyArray:
    """Return the ends of edges as an array of shape [2, num_edges]: int64, or Python's text."""
    texts = _texts(given)
    found = integers(given) if texts is None else None
    if found is not None and found.size == 0:
        return np.empty((2, 0), np.int64)
    ends: AnyArray | None = found if texts is None else texts
    if ends is None or ends.ndim != 2 or len(ends) != 2:
        raise GraphError(f"edges must be integers, or text, of shape (2, E), not {_shape(given)}")
    return ends


def _texts(given: Any) -> AnyArray | None:
    """Return an array of Python's text; None if there is no text in it. Text and numbers together are refused."""
    if given is None or hasattr(given, "columns"):
        what = "nothing" if given is None else "a whole table; give its columns, such as table['id']"
        raise GraphError(f"ids of nodes are an array or a list, not {what}")
    if isinstance(given, np.ndarray) and given.dtype.kind in "iufbc":
        return None
    try:
        array = np.asarray(detached(given))
    except (ValueError, TypeError, RuntimeError):
        return None
    if array.size == 0 or array.dtype.kind not in "UTO":
        return None
    # the given objects themselves: numpy has turned numbers beside text into text
    listed = array.astype(object) if isinstance(given, np.ndarray) else np.array(_listed(given), dtype=object)
    kinds = {type(id) for id in listed.ravel().tolist()}
    if not any(issubclass(kind, str) for kind in kinds):
        return None
    if not all(issubclass(kind, str) for kind in kinds):
        other = next(kind.__name__ for kind in kinds if not issubclass(kind, str))
        raise IdKindError(f"node ids are integers, or text, but not both: text and {other} are given together")
    for id in listed.ravel().tolist():
        _check_text(id)
    return listed


def _listed(given: Any) -> Any:
    """Return nested lists of Python objects."""
    return given.tolist() if hasattr(given, "tolist") else [list(row) if _is_row(row) else row for row in given]


def _is_row(row: Any) -> bool:
    return not isinstance(row, str) and hasattr(row, "__iter__")


def _check_text(id: str) -> None:
    try:
        size = len(id.encode())
    except UnicodeEncodeError as error:
        raise GraphError(f"the node id {id!r} is no valid text: {error.reason}") from error
    if not 0 < size <= LONGEST:
        shown = "is empty" if not size else f"{id[:20]!r}... has {size} bytes"
        raise GraphError(f"a node id {shown}; text ids have 1 to {LONGEST} bytes")


def _shape(given: ArrayLike) -> str:
    try:
        array = np.asarray(given)
    except ValueError:
        return "rows of different lengths"
    return f"{array.dtype} of shape {array.shape}"


@kernel
def _match(ids: IntArray, order: IntArray, first: int, wanted: IntArray, found: PositionArray) -> PositionArray:
    for i in range(len(wanted)):
        if found[i] < 0:
            at = np.searchsorted(ids, wanted[i])
            if at < len(ids) and ids[at] == wanted[i]:
                found[i] = first + order[at]
    return found
