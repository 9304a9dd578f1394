"""Accuracy of answers given at arrival, scored when the labels come."""

from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from ocgl.graph.growable import Growable
from ocgl.state import State
from ocgl.types import AnyArray, BoolArray, IntArray, Json

DELAYS = (0, 10, 100, 1_000, 10_000, 100_000)
"""Lower ends of the classes of delays, in nodes that have arrived between a node and its label."""
UNASKED, SCORED = -2, -3
DRIFTS = 100
"""Drifts that are remembered."""
LONGEST_WATCH = 100_000
"""Outcomes after which the detector of drift begins anew, with the last quarter of them."""


class Prequential:
    """What a strategy has answered about each node at its arrival, and how often it was right.

    Args:
        window: answers that the recent accuracy is taken over.
    """

    def __init__(self, window: int) -> None:
        self._answers = Growable(np.int64)
        self._window: deque[bool] = deque(maxlen=window)
        self._window_right = 0
        self.right, self.scored = 0, 0
        self.by_class: dict[int, list[int]] = {}
        self.by_delay = [[0, 0] for _ in DELAYS]
        self._outcomes = bytearray()  # since the detector of drift was begun
        self._drift = _detector()
        self.drift_count = 0
        self.drifts: deque[int] = deque(maxlen=DRIFTS)

    def answered(self, first: int, answers: IntArray) -> None:
        """Remember the answers about nodes at positions from `first` on."""
        missing = first - len(self._answers)
        if missing > 0:
            self._answers.extend(np.full(missing, UNASKED, np.int64))
        self._answers.extend(answers)

    def answer_at(self, position: int) -> int:
        """Return the class that was answered about a node at its arrival; negative for none."""
        return int(self._answers.rows[position]) if position < len(self._answers) else UNASKED

    def score(self, positions: IntArray, labels: IntArray, arrived: int, sequence: int) -> None:
        """Score the answers about nodes whose labels have come; each node is scored once."""
        _, once = np.unique(positions[positions < len(self._answers)], return_index=True)
        once = np.sort(once)
        positions, labels = positions[once], labels[once]
        answers = self._answers.rows[positions]
        chosen = (answers != UNASKED) & (answers != SCORED)
        positions, labels = positions[chosen], labels[chosen]
        if len(positions) == 0:
            return
        self._answers.rows[positions] = SCORED
        outcomes = answers[chosen] == labels
        self.scored += len(outcomes)
        self.right += int(outcomes.sum())
        self._count(np.searchsorted(DELAYS, arrived - 1 - positions, side="right") - 1, outcomes)
        for label, right in zip(labels.tolist(), outcomes.tolist(), strict=True):
            counts = self.by_class.setdefault(label, [0, 0])
            counts[0] += right
            counts[1] += 1
            self._watch(right, sequence)

    def _count(self, delays: IntArray, outcomes: BoolArray) -> None:
        for place in np.unique(delays).tolist():
            those = outcomes[delays == place]
            self.by_delay[place][0] += int(those.sum())
            self.by_delay[place][1] += len(those)

    def _watch(self, right: bool, sequence: int) -> None:
        """Let the recent accuracy and the detector of drift see an outcome.

        The detector begins anew with the last outcomes after some time, so that it and what a start has to read stay
        bounded.
        """
        if len(self._window) == self._window.maxlen:
            self._window_right -= self._window[0]
        self._window.append(right)
        self._window_right += right
        self._outcomes.append(right)
        self._drift.update(int(right))
        if self._drift.drift_detected:
            self.drifts.append(sequence)
            self.drift_count += 1
        if len(self._outcomes) >= LONGEST_WATCH:
            del self._outcomes[: -LONGEST_WATCH // 4]
            self._drift = _detector(self._outcomes)

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
            "drifts": list(self.drifts),
            "drift_count": self.drift_count,
        }

    def state(self) -> State:
        """Return a copy of everything. The detector of drift is rebuilt from the outcomes."""
        arrays: dict[str, AnyArray] = {
            "answers": self._answers.rows.copy(),
            "outcomes": np.frombuffer(bytes(self._outcomes), np.uint8),
            "window": np.array(self._window, np.uint8),
            "by_delay": np.array(self.by_delay, np.int64),
            "classes": np.array(list(self.by_class), np.int64),
            "by_class": np.array(list(self.by_class.values()), np.int64).reshape(-1, 2),
            "drifts": np.array(self.drifts, np.int64),
        }
        return State(arrays, {"right": self.right, "scored": self.scored, "drifts": self.drift_count})

    def load_state(self, state: State) -> None:
        """Take a saved state."""
        arrays = state.arrays
        facts = state.facts
        self.right, self.scored, self.drift_count = facts["right"], facts["scored"], facts["drifts"]
        self._answers = Growable(np.int64)
        self._answers.extend(arrays["answers"])
        self._outcomes = bytearray(arrays["outcomes"].tobytes())
        self._window.clear()
        self._window.extend(bool(value) for value in arrays["window"].tolist())
        self._window_right = sum(self._window)
        self.by_delay = arrays["by_delay"].tolist()
        self.by_class = dict(zip(arrays["classes"].tolist(), arrays["by_class"].tolist(), strict=True))
        self.drifts = deque(arrays["drifts"].tolist(), maxlen=DRIFTS)
        self._drift = _detector(self._outcomes)


def _detector(outcomes: Iterable[int] = ()) -> Any:
    """Return a detector of drift that has seen some outcomes."""
    from river.drift import ADWIN

    found: Any = ADWIN()  # type: ignore[no-untyped-call]
    for outcome in outcomes:
        found.update(outcome)
    return found
