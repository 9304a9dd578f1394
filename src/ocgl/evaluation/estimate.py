"""Anytime scores from a part of the validation nodes, and how far they may be off."""

import numpy as np

from ocgl.evaluation.metrics import Metric, anytime
from ocgl.rng import generator
from ocgl.state import State
from ocgl.types import AnyArray, BoolArray, DoubleArray, FloatArray, IntArray

REPLICATES = 200
COVERAGE = 0.95
FEWEST = 2


def stratified(task: IntArray, truth: IntArray, cap: int, seed: int) -> tuple[IntArray, DoubleArray]:
    """Choose about `cap` nodes of each task, class by class in proportion, at least two of each class.

    Gives their indices, in order, and for each how many nodes it stands for.

    >>> chosen, weight = stratified(np.zeros(100, int), np.arange(100) % 2, 10, seed=0)
    >>> len(chosen), float(weight.sum())
    (10, 100.0)
    """
    rng = generator(seed, "eval_cap")
    weight = np.zeros(len(task))
    for j in np.unique(task):
        inside = task == j
        for label in np.unique(truth[inside]):
            stratum = np.nonzero(inside & (truth == label))[0]
            wanted = max(round(cap * len(stratum) / int(inside.sum())), FEWEST)
            taken = rng.choice(stratum, min(wanted, len(stratum)), replace=False)
            weight[taken] = len(stratum) / len(taken)
    chosen = np.nonzero(weight)[0]
    return chosen, weight[chosen]


class Bootstrap:
    """Resamples the chosen nodes, stratum by stratum, and carries the AAP of every resample along.

    Strata that were taken whole are not resampled. No correction is made for the share of a stratum that was taken:
    the interval is rather too wide than too narrow.
    """

    def __init__(self, task: IntArray, truth: IntArray, weight: DoubleArray, tasks: int, seed: int) -> None:
        rng = generator(seed, "bootstrap")
        drawn: FloatArray = np.ones((REPLICATES, len(task)), np.float32)
        strata = np.unique(np.stack([task, truth]), axis=1, return_inverse=True)[1].ravel()
        for stratum in np.unique(strata[weight > 1]):
            members = np.nonzero(strata == stratum)[0]
            shares = np.full(len(members), 1 / len(members))
            drawn[:, members] = rng.multinomial(len(members), shares, size=REPLICATES)
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
