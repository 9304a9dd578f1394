"""Hyperparameter selection: every configuration streamed over the prefix, the best validation AP at its end wins."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ocgl.benchmark.config import RunConfig
from ocgl.benchmark.run import Run
from ocgl.strategies import find
from ocgl.streams import Stream
from ocgl.types import Json

RUNGS = (0.25, 0.5, 1.0)
"""Shares of the prefix after which successive halving keeps the best third."""

Grid = Mapping[str, Sequence[Any]]


def configurations(grid: Grid) -> list[Json]:
    """List all combinations, in the order in which ties are broken: the first key varies slowest.

    >>> configurations({"lr": (0.1, 0.01), "passes": (1, 5)})[1]
    {'lr': 0.1, 'passes': 5}
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def tune_tasks(tasks: int) -> int:
    """How many tasks tuning may see: about 20 %, at least two.

    >>> [tune_tasks(t) for t in (5, 9, 10, 20, 23, 35)]
    [2, 2, 2, 4, 5, 7]
    """
    return min(tasks, max(2, round(0.2 * tasks)))


class Trial(Run):
    """A run that is judged at its end only."""

    def _prequential(self, step: Any, batch: Any) -> float:
        return 0.0


def score(config: RunConfig, prefix: Stream, share: float = 1.0) -> float:
    """Stream one configuration over the prefix; gives AP on validation nodes at its end, -inf if it diverged.

    With a smaller share, only that part of the prefix's steps (to drop hopeless configurations early).
    """
    steps = math.ceil(share * len(prefix))
    run = Trial(config.model_copy(update={"eval_every": steps}), prefix, test=False)
    for _ in range(steps):
        run.step()
    value = 100 * float(run.judge.anytime[-1])
    diverged = getattr(run.learner.strategy, "nonfinite_losses", 0) or math.isnan(value)
    return float("-inf") if diverged else value


def kept(scores: Mapping[str, float]) -> list[str]:
    """Give the third of the configurations that goes on, at least one; among equals the first.

    >>> kept({"a": 1.0, "b": 3.0, "c": 3.0, "d": 2.0})
    ['b', 'c']
    """
    ranked = sorted(scores, key=lambda name: -scores[name])[: math.ceil(len(scores) / 3)]
    return [name for name in scores if name in ranked]


def best(scores: Sequence[tuple[Json, float]]) -> tuple[Json, float]:
    """Give the best configuration; among equals the first."""
    return max(scores, key=lambda pair: pair[1])


def coarse(grid: Grid) -> Grid:
    """Thin a search space out for a quick look: two learning rates, every number of passes, the middle of the rest.

    >>> coarse({"lr": (1e-2, 1e-3, 1e-4), "passes": (1, 5), "temperature": (0.2, 2.0, 20.0)})
    {'lr': (0.01, 0.001), 'passes': (1, 5), 'temperature': (2.0,)}
    """
    whole = {"lr": 2, "passes": None}
    return {k: v[: whole[k]] if k in whole else (v[len(v) // 2],) for k, v in grid.items()}


GRIDS: dict[str, Callable[[Grid], Grid]] = {"paper": lambda grid: grid, "coarse": coarse}
"""Search spaces by name: as in the paper, or thinned out."""


def grid_of(strategy: str) -> Grid:
    """Give the paper's search space of a method."""
    return find(strategy).grid
