"""Statistics for comparing methods: bootstrap intervals, paired tests, rank tests, Pareto front."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ocgl.types import BoolArray, DoubleArray

RESAMPLES = 10_000
"""Bootstrap resamples."""
LEVEL = 0.05
"""Significance level."""


def interval(values: DoubleArray, seed: int = 0) -> tuple[float, float] | None:
    """Return the 95 % percentile bootstrap interval of a mean over seeds; None for a single value.

    >>> interval(np.array([1.0])) is None
    True
    """
    if len(values) < 2:
        return None
    rng = np.random.default_rng(seed)
    means = values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(1)
    low, high = np.quantile(means, [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)


def holm(p: Sequence[float]) -> list[float]:
    """Return p values with the Holm correction.

    The smallest p value is multiplied by n, the next by n - 1, and so on; corrected values never decrease.

    >>> [round(value, 3) for value in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    corrected = np.maximum.accumulate([min(1.0, (len(p) - i) * p[j]) for i, j in enumerate(order)])
    out = np.empty(len(p))
    out[order] = corrected
    return [float(value) for value in out]


@dataclass(frozen=True)
class Comparison:
    """Paired comparison of the best method with another one, over seeds.

    Attributes:
        other: name of the other method.
        difference: mean of best minus other.
        interval: 95 % bootstrap interval of the difference.
        p: p value of the paired t test.
        corrected: p value with the Holm correction.
    """

    other: str
    difference: float
    interval: tuple[float, float]
    p: float
    corrected: float

    @property
    def distinct(self) -> bool:
        """Whether the difference is significant at the 5 % level after correction."""
        return self.corrected < LEVEL


def against_best(values: dict[str, DoubleArray]) -> tuple[str, list[Comparison]]:
    """Compare the best method with all others, by paired t tests over seeds with the Holm correction.

    Args:
        values: by method, the score of each seed. Methods with another number of seeds than the best are left out.

    Returns:
        The method with the highest mean, and the comparisons in order of the difference.
    """
    best = max(values, key=lambda name: float(values[name].mean()))
    others = [name for name in values if name != best and len(values[name]) == len(values[best]) > 1]
    differences = [values[best] - values[name] for name in others]
    p = [_p(difference) for difference in differences]
    rows = zip(others, differences, p, holm(p), strict=True)
    compared = [Comparison(name, float(d.mean()), interval(d) or (np.nan, np.nan), raw, c) for name, d, raw, c in rows]
    return best, sorted(compared, key=lambda row: row.difference)


def _p(difference: DoubleArray) -> float:
    if np.ptp(difference) == 0:
        return 0.0 if difference[0] != 0 else 1.0
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


@dataclass(frozen=True)
class Ranks:
    """Mean ranks over blocks.

    Attributes:
        names: methods in order of their mean rank.
        ranks: mean rank of each method.
        difference: critical difference of mean ranks (Nemenyi test).
        blocks: number of blocks.
        p: p value of the Friedman test.
    """

    names: list[str]
    ranks: DoubleArray
    difference: float
    blocks: int
    p: float

    def cliques(self) -> list[tuple[int, int]]:
        """Return the first and last index of each maximal group of methods that do not differ significantly."""
        found: list[tuple[int, int]] = []
        for first in range(len(self.names)):
            last = int(np.nonzero(self.ranks - self.ranks[first] <= self.difference)[0][-1])
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return found


def mean_ranks(names: list[str], scores: DoubleArray) -> Ranks | None:
    """Return the mean ranks of methods; None with fewer than two blocks or three methods.

    Args:
        names: names of the methods.
        scores: blocks x methods; higher is better.

    >>> found = mean_ranks(["a", "b", "c"], np.array([[1.0, 2, 3], [1, 2, 3], [2, 1, 3], [1, 2, 3]]))
    >>> found.names, found.ranks.round(2).tolist(), round(found.difference, 2)
    (['c', 'b', 'a'], [1.0, 2.25, 2.75], 1.66)
    """
    blocks, count = scores.shape
    if blocks < 2 or count < 3:
        return None
    ranks = stats.rankdata(-scores, axis=1).mean(0)
    order = np.argsort(ranks, kind="stable")
    quantile = float(stats.studentized_range.ppf(1 - LEVEL, count, np.inf)) / np.sqrt(2)
    difference = quantile * np.sqrt(count * (count + 1) / (6 * blocks))
    p = float(stats.friedmanchisquare(*scores.T).pvalue)
    return Ranks([names[i] for i in order], ranks[order], float(difference), blocks, p)


def front(cost: DoubleArray, score: DoubleArray) -> BoolArray:
    """Return a mask of the Pareto front: no other point is at least as cheap and as good, and better in one of both.

    >>> front(np.array([1.0, 2.0, 3.0]), np.array([5.0, 4.0, 6.0])).tolist()
    [True, False, True]
    """
    no_worse = (cost[None] <= cost[:, None]) & (score[None] >= score[:, None])
    better_in_one = (cost[None] < cost[:, None]) | (score[None] > score[:, None])
    dominated: BoolArray = np.asarray((no_worse & better_in_one).any(1))
    return ~dominated
