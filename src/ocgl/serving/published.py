"""Weights that answer: those of a network as they are, those of a closed form as they were last solved for."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ocgl.graph import UNKNOWN, Neighborhood
from ocgl.nn.moments import Moments
from ocgl.state import State
from ocgl.strategies import ClosedForm, Strategy
from ocgl.types import DoubleArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Weights:
    """A solved classifier.

    Attributes:
        sequence: record up to which it knows.
        labels: classes, one per column.
        weights: weights, of shape [num_features, num_classes].
        bias: bias of each class.
    """

    sequence: int
    labels: IntArray
    weights: DoubleArray
    bias: DoubleArray

    def state(self) -> State:
        """Return a copy."""
        arrays = {"labels": self.labels.copy(), "weights": self.weights.copy(), "bias": self.bias.copy()}
        return State(arrays, {"sequence": self.sequence})

    @classmethod
    def from_state(cls, state: State) -> "Weights":
        """Return saved weights."""
        a = state.arrays
        return cls(int(state.facts["sequence"]), a["labels"], a["weights"], a["bias"])


class Model:
    """A strategy that answers from published weights.

    Args:
        strategy: the strategy, which goes on learning.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.published: Weights | None = None
        self.solving: Weights | Callable[[], Weights] | None = None
        self.learned_at, self.abandoned_at = 0, 0

    @property
    def solves(self) -> bool:
        """Whether weights are solved for."""
        return isinstance(self.strategy, ClosedForm)

    @property
    def labels(self) -> IntArray:
        """Classes, one per column of the scores."""
        if not self.solves:
            return self.strategy.labels
        return np.empty(0, np.int64) if self.published is None else self.published.labels

    def weights_at(self, sequence: int) -> int:
        """Return the record up to which the answering weights know, given the last record."""
        if not self.solves:
            return sequence
        solved = 0 if self.published is None else self.published.sequence
        return sequence if solved >= self.learned_at else solved

    def settled_at(self, sequence: int) -> int:
        """Return the record up to which weights were solved for, or could not be, given the last record."""
        return sequence if self.solves and self.abandoned_at > self.learned_at else self.weights_at(sequence)

    def scores(self, neighborhood: Neighborhood) -> FloatArray:
        """Score every class that the weights know."""
        if not self.solves:
            return self.strategy.scores(neighborhood)
        assert self.published is not None and isinstance(self.strategy, ClosedForm)
        self.strategy.check_neighborhood(neighborhood)
        rows = self.strategy.encode(neighborhood)
        found: FloatArray = (rows @ self.published.weights + self.published.bias).astype(np.float32)
        return found

    def predict(self, neighborhood: Neighborhood, candidates: IntArray | None = None) -> IntArray:
        """Return the best class of each seed, -1 while none is known."""
        labels = self.labels
        if len(labels) == 0:
            return np.full(neighborhood.seeds, UNKNOWN, np.int64)
        return chosen(self.scores(neighborhood), labels, candidates)

    def begin_solving(self, sequence: int) -> Callable[[], Weights] | None:
        """Return a function that solves for the weights as of now, for another thread; None if there is nothing."""
        strategy = self.strategy
        if not isinstance(strategy, ClosedForm) or not len(strategy.labels):
            return None
        moments = Moments(strategy.moments.width)
        moments.load_state(strategy.moments.state())
        labels = strategy.labels

        def solve() -> Weights:
            return Weights(sequence, labels, *strategy.solve(moments))

        return solve


def chosen(scores: FloatArray, labels: IntArray, candidates: IntArray | None) -> IntArray:
    """Return the label with the best score of each row, among the candidates where they are given."""
    if candidates is None:
        best: IntArray = labels[scores.argmax(1)]
        return best
    possible = (candidates[:, :, None] == labels).any(1)
    limited = np.where(possible, scores, -np.inf)
    return np.where(possible.any(1), labels[limited.argmax(1)], UNKNOWN)
