"""Classes of the user's own: integers as they are, or names, numbered in the order in which they are first seen."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ocgl.errors import LabelError
from ocgl.graph import UNKNOWN
from ocgl.graph.ids import as_objects
from ocgl.types import AnyArray, IntArray, Json

_NEVER = -2
"""Number of a candidate class that was never seen."""


class ClassNames:
    """Numbers for names of classes. A learner has one kind of labels, integers or text, from the first label on.

    >>> classes = ClassNames()
    >>> classes.numbers(["fraud", "fine", "fraud", None]).tolist()
    [0, 1, 0, -1]
    >>> classes.named(np.array([1, -1])).tolist()
    ['fine', None]
    """

    def __init__(self) -> None:
        self._names: list[str] | None = None  # None for integers
        self._number: dict[str, int] = {}
        self._begun = False

    @property
    def are_text(self) -> bool:
        """Whether classes have names."""
        return self._names is not None

    @property
    def begun(self) -> bool:
        """Whether a label was seen."""
        return self._begun

    def numbers(self, labels: ArrayLike) -> AnyArray:
        """Return the number of each label, -1 for a missing one; a name that is new gets the next number."""
        found, self._names, self._begun = self._tried(labels)
        self._number = {name: number for number, name in enumerate(self._names or [])}
        return found

    def peek(self, labels: ArrayLike) -> AnyArray:
        """Return the numbers that `numbers` would return, and change nothing."""
        return self._tried(labels)[0]

    def _tried(self, labels: ArrayLike) -> tuple[AnyArray, list[str] | None, bool]:
        """Return numbers, and the names and whether labels were seen after that."""
        texts = _texts(labels)
        if texts is None:
            given = np.asarray(labels)
            if self.are_text and given.size:
                raise LabelError(f"this learner has names of classes, like {self._first!r}, not integers")
            return given, self._names, self._begun or given.size > 0
        if all(name is None for name in texts):
            return np.full(len(texts), UNKNOWN), self._names, self._begun
        if not self.are_text and self._begun:
            raise LabelError(f"this learner has integers as labels, not names like {_example(texts)!r}")
        names, number = self._names or [], self._number
        new = [name for name in dict.fromkeys(texts) if name is not None and name not in number]
        if new:
            names = [*names, *new]
            number = {name: place for place, name in enumerate(names)}
        return np.array([UNKNOWN if name is None else number[name] for name in texts], np.int64), names, True

    def candidates(self, candidates: Any) -> Any:
        """Return candidate classes as numbers; a name that was never seen gets one that no class has."""
        if not self.are_text:
            return candidates
        if isinstance(candidates, str) or any(isinstance(row, str) for row in candidates):
            raise LabelError("candidates are a list of classes for each node")
        return np.array([[self._number.get(name, _NEVER) for name in row] for row in candidates], np.int64)

    def named(self, numbers: IntArray) -> AnyArray:
        """Return the classes of these numbers, as the user knows them; None for -1 where classes have names."""
        if self._names is None:
            return numbers
        found: list[Any] = [None if number < 0 else self._names[number] for number in numbers.tolist()]
        return as_objects(found)

    @property
    def _first(self) -> str | None:
        return self._names[0] if self._names else None

    def facts(self) -> Json:
        """Return the names, to be saved."""
        return {"names": self._names, "begun": self._begun}

    def load(self, facts: Json) -> None:
        """Take saved names."""
        names = facts.get("names")
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise LabelError("saved names of classes must be text")
        self._names, self._begun = names, bool(facts.get("begun"))
        self._number = {name: number for number, name in enumerate(names or [])}


def as_labels(given: Any) -> AnyArray:
    """Return labels as an array; a number that stands beside names stays a number."""
    array = np.asarray(given)
    return np.array(list(given), object) if array.dtype.kind == "U" and not isinstance(given, np.ndarray) else array


def _texts(labels: ArrayLike) -> list[Any] | None:
    """Return labels as a list of names, and None for missing ones; None if they are no text."""
    array = np.asarray(labels, dtype=object) if not isinstance(labels, np.ndarray) else labels
    if array.ndim != 1 or array.dtype.kind not in "UTO":
        return None
    listed = [None if _is_missing(label) else label for label in array.tolist()]
    if listed and all(label is None for label in listed):
        return listed
    if not any(isinstance(label, str) for label in listed):
        return None
    other = [label for label in listed if label is not None and not isinstance(label, str)]
    if other:
        raise LabelError(f"labels are integers, or names, but not both: {other[0]!r} stands beside names")
    return listed


def _is_missing(label: Any) -> bool:
    """Return whether a label is missing, as tables tell it: None, NaN, or pandas' NA."""
    return label is None or type(label).__name__ == "NAType" or (isinstance(label, float) and label != label)


def _example(texts: list[Any]) -> str:
    return next(str(name) for name in texts if name is not None)
