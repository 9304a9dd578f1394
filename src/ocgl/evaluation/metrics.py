"""Metrics of predictions, and AP, AF and AAP computed from them. Scores are fractions; nan means undefined."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ocgl.errors import ConfigError
from ocgl.types import AnyArray, BoolArray, DoubleArray, IntArray


@dataclass(frozen=True)
class Metric:
    """Accuracy, or the F1 of one class.

    F1 = 2TP / (2TP + FP + FN). It is undefined, and left out of averages, where the class is neither present nor
    predicted.

    Args:
        name: `accuracy` or `f1:CLASS`.
        positive: the class of the F1; None for accuracy.

    >>> Metric.parse("f1:1").of(np.array([1, 0, 1]), np.array([1, 1, 1]))
    0.8
    """

    name: str
    positive: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Metric":
        """Return the metric that `accuracy` or `f1:CLASS` names."""
        if text == "accuracy":
            return cls(text)
        match = re.fullmatch(r"f1:(\d+)", text)
        if match is None:
            raise ConfigError(f"unknown metric {text!r}; choose accuracy or f1:CLASS (such as f1:1)")
        return cls(text, int(match[1]))

    def of(self, predicted: IntArray, truth: IntArray) -> float:
        """Return the score of all predictions together."""
        return float(self.per_task(predicted, truth, np.zeros(len(truth), np.int64), 1)[0])

    def per_task(
        self, predicted: IntArray, truth: IntArray, task: IntArray, tasks: int, weight: DoubleArray | None = None
    ) -> DoubleArray:
        """Return the score of each task, nan where it is undefined.

        Args:
            predicted: the predicted class of each node.
            truth: the class of each node.
            task: the task of each node.
            tasks: number of tasks.
            weight: how many nodes each node represents; one each if None.
        """

        def count_by_task(chosen: BoolArray) -> AnyArray:
            return np.bincount(task[chosen], None if weight is None else weight[chosen], minlength=tasks)

        with np.errstate(invalid="ignore"):
            return self.ratio(count_by_task, predicted, truth)

    def ratio(self, count: Callable[[BoolArray], AnyArray], predicted: IntArray, truth: IntArray) -> DoubleArray:
        """Return the score as a ratio of node counts; nan for 0 / 0.

        Args:
            count: returns the (weighted) number of the nodes in a mask, by task.
            predicted: the predicted class of each node.
            truth: the class of each node.
        """
        if self.positive is None:
            accuracy: DoubleArray = count(predicted == truth) / count(np.ones(len(truth), np.bool_))
            return accuracy
        is_predicted, is_true = predicted == self.positive, truth == self.positive
        f1: DoubleArray = 2 * count(is_predicted & is_true) / (count(is_predicted) + count(is_true))
        return f1


def average_performance(matrix: DoubleArray) -> float:
    """Return AP: the mean of the last row of the performance matrix."""
    return _mean(matrix[-1])


def average_forgetting(matrix: DoubleArray, over: int) -> float:
    """Return AF: the mean of M[T, i] - M[i, i] over the first `over` tasks.

    Tasks with an undefined score are left out.

    Args:
        matrix: the performance matrix M (tasks x tasks).
        over: T - 1 for the paper's formula; T for its printed numbers, where the last task adds a difference of 0.

    >>> average_forgetting(np.array([[0.9, np.nan], [0.5, 0.8]]), over=1)
    -0.4
    """
    changes = (matrix[-1] - matrix.diagonal())[:over]
    defined = changes[~np.isnan(changes)]
    return float(defined.sum()) / len(defined) if len(defined) else float("nan")


def anytime(scores: DoubleArray) -> DoubleArray:
    """Return AP_t: for each evaluated step (row), the mean over the tasks so far (columns that are not nan)."""
    return np.array([_mean(row) for row in scores])


def average_anytime(scores: DoubleArray) -> float:
    """Return AAP: the mean of AP_t over the evaluated steps."""
    return _mean(anytime(scores)) if len(scores) else float("nan")


def _mean(values: DoubleArray) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")
