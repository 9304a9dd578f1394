"""Anytime scores estimated from a sample of the validation nodes, with a bootstrap interval."""

import numpy as np

from ocgl.evaluation.metrics import Metric, anytime
from ocgl.rng import generator
from ocgl.state import State
from ocgl.types import AnyArray, BoolArray, DoubleArray, FloatArray, IntArray

REPLICATES = 200
"""Bootstrap resamples."""
COVERAGE = 0.95
"""Coverage of the bootstrap interval."""
FEWEST = 2
"""Fewest nodes to sample per class of a task."""
FIRST = 20
"""First validation nodes of each task that are always evaluated."""


def stratified(task: IntArray, truth: IntArray, cap: int, seed: int) -> tuple[IntArray, DoubleArray]:
    """Sample about `cap` nodes of each task, stratified by class.

    The first 20 nodes of a task are always included, so that its score is defined from its first steps on. The other
    nodes are sampled in proportion to the size of each class, at least two per class, at equal distances along the
    stream from a random start.

    Args:
        task: the task of each node; nodes are in order of arrival.
        truth: the class of each node.
        cap: nodes to sample per task, including the first 20.
        seed: seed of the random starts.

    Returns:
        The indices of the sampled nodes in ascending order, and the weight of each: how many nodes it represents.

    >>> chosen, weight = stratified(np.zeros(120, int), np.arange(120) % 2, 30, seed=0)
    >>> len(chosen), float(weight.sum())
    (30, 120.0)
    """
    rng = generator(seed, "eval_cap")
    weight = np.zeros(len(task))
    for j in np.unique(task):
        members = np.nonzero(task == j)[0]
        first, rest = members[:FIRST], members[FIRST:]
        weight[first] = 1
        for label in np.unique(truth[rest]):
            stratum = rest[truth[rest] == label]
            proportional = max(cap - FIRST, 1) * len(stratum) / len(rest)
            count = min(max(round(proportional), FEWEST), len(stratum))
            sampled = stratum[((np.arange(count) + rng.random()) * len(stratum) / count).astype(np.int64)]
            weight[sampled] = len(stratum) / count
    chosen = np.nonzero(weight)[0]
    return chosen, weight[chosen]


class Bootstrap:
    """Bootstrap interval of an estimated AAP, updated after each evaluation.

    A stratum is a class within a task. Each resample draws n - 1 of the n nodes of a stratum with replacement and
    weights them by n / (n - 1) (Rao and Wu), so that small strata have their full variance. Nodes of weight 1
    represent only themselves and are not resampled. There is no finite-population correction, and no correction for
    the systematic sampling.

    Args:
        task: the task of each sampled node.
        truth: the class of each sampled node.
        weight: how many nodes each sampled node represents.
        tasks: number of tasks.
        seed: seed of the resamples.
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

    def add(self, metric: Metric, evaluated: IntArray, predicted: IntArray, truth: IntArray) -> None:
        """Add the AP_t of one evaluation to every resample.

        Args:
            metric: the metric to score with.
            evaluated: indices of the evaluated nodes among the sampled nodes.
            predicted: the predicted class of each evaluated node.
            truth: the class of each evaluated node.
        """
        weights, task_of = self._weights[:, evaluated], self._task_of[evaluated]

        def count_by_task(chosen: BoolArray) -> AnyArray:
            return weights[:, chosen] @ task_of[chosen]

        with np.errstate(invalid="ignore", divide="ignore"):
            values = anytime(metric.ratio(count_by_task, predicted, truth))
        defined = ~np.isnan(values)
        self._sum[defined] += values[defined]
        self._count += defined

    def interval(self) -> tuple[float, float] | None:
        """Return the central 95 % of the AAP over resamples; None if a resample has no defined score."""
        if not self._count.all():
            return None
        tail = 50 * (1 - COVERAGE)
        low, high = np.percentile(self._sum / self._count, [tail, 100 - tail])
        return float(low), float(high)

    def state(self) -> State:
        """Return the sums over evaluations so far."""
        return State({"sum": self._sum.copy(), "count": self._count.copy()})

    def load_state(self, state: State) -> None:
        """Replace the sums by those of a saved state."""
        self._sum, self._count = np.array(state.arrays["sum"]), np.array(state.arrays["count"])
