"""Scores of predictions, and the figures made of them. All in shares; nan stands for undefined."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ocgl.errors import ConfigError
from ocgl.types import AnyArray, BoolArray, DoubleArray, IntArray


@dataclass(frozen=True)
class Metric:
    """Accuracy, or the F1 of one class.

    F1 = 2TP / (2TP + FP + FN); undefined, and left out of averages, where the class is neither present nor
    predicted.

    >>> Metric.parse("f1:1").of(np.array([1, 0, 1]), np.array([1, 1, 1]))
    0.8
    """

    name: str
    positive: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Metric":
        """Read `accuracy` or `f1:CLASS`."""
        if text == "accuracy":
            return cls(text)
        found = re.fullmatch(r"f1:(\d+)", text)
        if found is None:
            raise ConfigError(f"unknown metric {text!r}; there are accuracy and f1:CLASS")
        return cls(text, int(found[1]))

    def of(self, predicted: IntArray, truth: IntArray) -> float:
        """Score predictions."""
        return float(self.per_task(predicted, truth, np.zeros(len(truth), np.int64), 1)[0])

    def per_task(
        self, predicted: IntArray, truth: IntArray, task: IntArray, tasks: int, weight: DoubleArray | None = None
    ) -> DoubleArray:
        """Score predictions task by task; a node may stand for several."""

        def by_task(chosen: BoolArray) -> AnyArray:
            return np.bincount(task[chosen], None if weight is None else weight[chosen], minlength=tasks)

        with np.errstate(invalid="ignore"):
            return self.ratio(by_task, predicted, truth)

    def ratio(self, count: Callable[[BoolArray], AnyArray], predicted: IntArray, truth: IntArray) -> DoubleArray:
        """Put the score together from counts of nodes: `count` gives those of some nodes by task; nan for 0 / 0."""
        if self.positive is None:
            found: DoubleArray = count(predicted == truth) / count(np.ones(len(truth), np.bool_))
            return found
        said, is_so = predicted == self.positive, truth == self.positive
        both: DoubleArray = 2 * count(said & is_so) / (count(said) + count(is_so))
        return both


def average_performance(matrix: DoubleArray) -> float:
    """AP: the mean of the last row of the performance matrix."""
    return _mean(matrix[-1])


def average_forgetting(matrix: DoubleArray, over: int) -> float:
    """AF: the mean of M[T, i] - M[i, i] over the first `over` tasks: T - 1 by the formula, T (adding 0) as printed.

    Tasks with an undefined score are left out.

    >>> average_forgetting(np.array([[0.9, np.nan], [0.5, 0.8]]), over=1)
    -0.4
    """
    lost = (matrix[-1] - matrix.diagonal())[:over]
    defined = lost[~np.isnan(lost)]
    return float(defined.sum()) / len(defined) if len(defined) else float("nan")


def anytime(scores: DoubleArray) -> DoubleArray:
    """AP_t: for each evaluated step (row), the mean over the tasks neighborhood (columns that are not nan)."""
    return np.array([_mean(row) for row in scores])


def average_anytime(scores: DoubleArray) -> float:
    """AAP: the mean of AP_t over the evaluated steps."""
    return _mean(anytime(scores)) if len(scores) else float("nan")


def _mean(values: DoubleArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
