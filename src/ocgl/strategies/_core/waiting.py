"""Labels that wait until a batch is full."""

import numpy as np

from ocgl.graph import UNKNOWN
from ocgl.state import State
from ocgl.types import AnyArray, IntArray


class WaitingLabels:
    """Labels by position of arrival, in the order in which they came.

    >>> waiting = WaitingLabels()
    >>> waiting.add(np.array([4, 7]), np.array([0, 1]))
    >>> waiting.add(np.array([4]), np.array([1]))
    >>> [part.tolist() for part in waiting.first(2)]
    [[4, 7], [1, 1]]
    """

    def __init__(self) -> None:
        self._labels: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def __contains__(self, position: int) -> bool:
        return position in self._labels

    def add(self, positions: AnyArray, labels: AnyArray) -> None:
        """Add labels; another label of a node that waits replaces the first, and an unknown label (-1) is left out."""
        for position, label in zip(positions.tolist(), labels.tolist(), strict=True):
            if label != UNKNOWN:
                self._labels[position] = label

    def first(self, count: int) -> tuple[IntArray, IntArray]:
        """Return positions and labels of those that have waited longest."""
        found = list(self._labels.items())[:count]
        return np.array([place for place, _ in found], np.int64), np.array([label for _, label in found], np.int64)

    def drop(self, count: int) -> None:
        """Drop those that have waited longest."""
        for position in list(self._labels)[:count]:
            del self._labels[position]

    def take(self, positions: list[int]) -> dict[int, int]:
        """Take out the labels of these positions; those that do not wait are left out."""
        return {position: self._labels.pop(position) for position in positions if position in self._labels}

    def state(self) -> State:
        """Return a copy of what waits."""
        positions, labels = self.first(len(self))
        return State({"positions": positions, "labels": labels}, {})

    def load_state(self, state: State) -> None:
        """Take what waits."""
        self._labels = dict(
            zip(state.arrays["positions"].tolist(), state.arrays["labels"].tolist(), strict=True),
        )
