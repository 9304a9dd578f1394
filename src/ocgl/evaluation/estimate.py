"""Anytime scores from a part of the validation nodes, and how far they may be off."""

import numpy as np

from ocgl.evaluation.metrics import Metric, anytime
from ocgl.rng import generator
from ocgl.state import State
from ocgl.types import AnyArray, BoolArray, DoubleArray, FloatArray, IntArray

REPLICATES = 200
COVERAGE = 0.95
FEWEST = 2
FIRST = 20


def stratified(task: IntArray, truth: IntArray, cap: int, seed: int) -> tuple[IntArray, DoubleArray]:
    """Choose about `cap` nodes of each task, which come in order of arrival.

    The first 20 of a task are all taken, so that it is scored from its beginning; of the rest as many of each class as
    its share, at least two, at equal distances along the stream from a random start. Gives their indices, in order, and
    for each how many nodes it stands for.

    >>> chosen, weight = stratified(np.zeros(120, int), np.arange(120) % 2, 30, seed=0)
    >>> len(chosen), float(weight.sum())
    (30, 120.0)
    """
    rng = generator(seed, "eval_cap")
    weight = np.zeros(len(task))
    for j in np.unique(task):
        inside = np.nonzero(task == j)[0]
        first, rest = inside[:FIRST], inside[FIRST:]
        weight[first] = 1
        for label in np.unique(truth[rest]):
            stratum = rest[truth[rest] == label]
            share = max(cap - FIRST, 1) * len(stratum) / len(rest)
            count = min(max(round(share), FEWEST), len(stratum))
            taken = stratum[((np.arange(count) + rng.random()) * len(stratum) / count).astype(np.int64)]
            weight[taken] = len(stratum) / count
    chosen = np.nonzero(weight)[0]
    return chosen, weight[chosen]


class Bootstrap:
    """Resamples the chosen nodes, stratum by stratum, and carries the AAP of every resample along.

    n - 1 of the n nodes of a stratum are drawn with replacement and weighted by n / (n - 1) (Rao and Wu), so that small
    strata have their whole variance. Nodes that stand for themselves are not resampled. No correction is made for the
    share of a stratum that was taken, nor for the even distances.
    """

    def __init__(self, task: IntArray, truth: IntArray, weight: DoubleArray, tasks: int, seed: int) -> None:
        rng = generator(seed, "bootstrap")
        drawn: FloatArray = np.ones((REPLICATES, len(task)), np.float32)
        strata = np.unique(np.stack([task, truth]), axis=1, return_inverse=True)[1].ravel()
        strata[weight == 1] = -1
        for stratum in np.unique(strata[strata >= 0]):
            members = np.nonzero(strata == stratum)[0]
            count = len(members)
            times = rng.multinomial(count - 1, np.full(count, 1 / count), size=REPLICATES)
            drawn[:, members] = times * (count / (count - 1))
        self._weights: FloatArray = drawn * weight.astype(np.float32)
        self._task_of: FloatArray = np.eye(tasks, dtype=np.float32)[task]
        self._sum: DoubleArray = np.zeros(REPLICATES)
        self._count: IntArray = np.zeros(REPLICATES, np.int64)

    def add(self, metric: Metric, asked: IntArray, predicted: IntArray, truth: IntArray) -> None:
        """Score one evaluation in every resample."""
        weights, task_of = self._weights[:, asked], self._task_of[asked]

        def by_task(hit: BoolArray) -> AnyArray:
            return weights[:, hit] @ task_of[hit]

        with np.errstate(invalid="ignore", divide="ignore"):
            values = anytime(metric.ratio(by_task, predicted, truth))
        known = ~np.isnan(values)
        self._sum[known] += values[known]
        self._count += known

    def interval(self) -> tuple[float, float] | None:
        """Give the middle 95 % of the resamples' AAP."""
        if not self._count.all():
            return None
        tail = 50 * (1 - COVERAGE)
        low, high = np.percentile(self._sum / self._count, [tail, 100 - tail])
        return float(low), float(high)

    def state(self) -> State:
        """Give the sums so far."""
        return State({"sum": self._sum.copy(), "count": self._count.copy()})

    def load_state(self, state: State) -> None:
        """Take sums."""
        self._sum, self._count = np.array(state.arrays["sum"]), np.array(state.arrays["count"])
