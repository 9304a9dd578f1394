"""Accuracy of answers given at arrival, scored when the labels come."""

from collections import deque
from typing import Any

import numpy as np

from ocgl.graph.growable import Growable
from ocgl.state import State
from ocgl.types import AnyArray, IntArray, Json

DELAYS = (0, 10, 100, 1_000, 10_000, 100_000)
"""Lower ends of the classes of delays, in nodes that have arrived between a node and its label."""
UNASKED, SCORED = -2, -3


class Prequential:
    """What a strategy has answered about each node at its arrival, and how often it was right.

    Args:
        window: answers that the recent accuracy is taken over.
    """

    def __init__(self, window: int) -> None:
        self._answers = Growable(np.int32)
        self._window: deque[bool] = deque(maxlen=window)
        self._window_right = 0
        self.right, self.scored = 0, 0
        self.by_class: dict[int, list[int]] = {}
        self.by_delay = [[0, 0] for _ in DELAYS]
        self.outcomes = bytearray()
        self._drift = _detector()
        self.drifts: list[int] = []

    def answered(self, first: int, answers: IntArray) -> None:
        """Remember the answers about nodes at positions from `first` on."""
        missing = first - len(self._answers)
        if missing > 0:
            self._answers.extend(np.full(missing, UNASKED, np.int32))
        self._answers.extend(answers)

    def answer_at(self, position: int) -> int:
        """Return the class that was answered about a node at its arrival; negative for none."""
        return int(self._answers.rows[position]) if position < len(self._answers) else UNASKED

    def score(self, positions: IntArray, labels: IntArray, arrived: int, sequence: int) -> None:
        """Score the answers about nodes whose labels have come; each node is scored once."""
        for position, label in zip(positions.tolist(), labels.tolist(), strict=True):
            answer = self.answer_at(position)
            if answer in (UNASKED, SCORED):
                continue
            self._answers.rows[position] = SCORED
            right = answer == label
            self.scored += 1
            self.right += right
            self._window_right += right - (self._window[0] if len(self._window) == self._window.maxlen else 0)
            self._window.append(right)
            counts = self.by_class.setdefault(label, [0, 0])
            counts[0] += right
            counts[1] += 1
            place = int(np.searchsorted(DELAYS, arrived - 1 - position, side="right")) - 1
            self.by_delay[place][0] += right
            self.by_delay[place][1] += 1
            self.outcomes.append(right)
            self._drift.update(int(right))
            if self._drift.drift_detected:
                self.drifts.append(sequence)

    @property
    def accuracy(self) -> float | None:
        """Accuracy over all scored answers."""
        return self.right / self.scored if self.scored else None

    @property
    def recent(self) -> float | None:
        """Accuracy over the last scored answers."""
        return self._window_right / len(self._window) if self._window else None

    def summary(self, names: dict[int, object]) -> Json:
        """Return the figures; classes under the names that the user knows."""
        classes = {str(names.get(label, label)): counts for label, counts in self.by_class.items()}
        return {
            "accuracy": self.accuracy,
            "recent": self.recent,
            "window": len(self._window),
            "scored": self.scored,
            "by_class": {name: {"right": a, "scored": b} for name, (a, b) in classes.items()},
            "by_delay": [
                {"from": low, "right": a, "scored": b} for low, (a, b) in zip(DELAYS, self.by_delay, strict=True)
            ],
            "drifts": self.drifts[-100:],
        }

    def state(self) -> State:
        """Return a copy of everything. The detector of drift is rebuilt from the outcomes."""
        arrays: dict[str, AnyArray] = {
            "answers": self._answers.rows.copy(),
            "outcomes": np.packbits(np.frombuffer(bytes(self.outcomes), np.uint8)),
            "window": np.array(self._window, np.uint8),
            "by_delay": np.array(self.by_delay, np.int64),
            "classes": np.array(list(self.by_class), np.int64),
            "by_class": np.array(list(self.by_class.values()), np.int64).reshape(-1, 2),
            "drifts": np.array(self.drifts, np.int64),
        }
        return State(arrays, {"right": self.right, "scored": self.scored})

    def load_state(self, state: State) -> None:
        """Take a saved state."""
        arrays = state.arrays
        self.right, self.scored = state.facts["right"], state.facts["scored"]
        self._answers = Growable(np.int32)
        self._answers.extend(arrays["answers"])
        self.outcomes = bytearray(np.unpackbits(arrays["outcomes"], count=self.scored).tobytes())
        self._window.clear()
        self._window.extend(bool(value) for value in arrays["window"].tolist())
        self._window_right = sum(self._window)
        self.by_delay = arrays["by_delay"].tolist()
        self.by_class = dict(zip(arrays["classes"].tolist(), arrays["by_class"].tolist(), strict=True))
        self.drifts = arrays["drifts"].tolist()
        self._drift = _detector()
        for outcome in self.outcomes:
            self._drift.update(outcome)


def _detector() -> Any:
    from river.drift import ADWIN

    return ADWIN()  # type: ignore[no-untyped-call]
