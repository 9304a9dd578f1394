"""Hyperparameter selection: every configuration is run over the prefix, the best validation AP at its end wins."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ocgl.experiments.config import RunConfig
from ocgl.experiments.experiment import Experiment
from ocgl.streams import Stream
from ocgl.types import Json

RUNGS = (0.25, 0.5, 1.0)
"""Shares of the prefix after which successive halving keeps the best third."""

Grid = Mapping[str, Sequence[Any]]
Configuration = tuple[tuple[str, Any], ...]
"""A configuration of a grid, as pairs of name and value."""


def configurations(grid: Grid) -> list[Json]:
    """List all combinations, in the order in which ties are broken: the first key varies slowest.

    >>> configurations({"lr": (0.1, 0.01), "passes": (1, 5)})[1]
    {'lr': 0.1, 'passes': 5}
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def tune_tasks(tasks: int) -> int:
    """Return how many tasks tuning may see: about 20 %, at least two.

    >>> [tune_tasks(t) for t in (5, 9, 10, 20, 23, 35)]
    [2, 2, 2, 4, 5, 7]
    """
    return min(tasks, max(2, round(0.2 * tasks)))


def score(config: RunConfig, prefix: Stream, share: float = 1.0) -> float:
    """Run one configuration over the prefix; return the validation AP at its end, -inf if it diverged.

    With a smaller share, only that part of the prefix's steps (to drop hopeless configurations early).
    """
    steps = math.ceil(share * len(prefix))
    once = config.model_copy(update={"eval_every": steps})
    experiment = Experiment(once, prefix, test=False, prequential="never")
    for _ in range(steps):
        experiment.step()
    value = 100 * float(experiment.evaluator.anytime[-1])
    diverged = getattr(experiment.strategy, "nonfinite_losses", 0) or math.isnan(value)
    return float("-inf") if diverged else value


def best_third(scores: Mapping[Configuration, float]) -> list[Configuration]:
    """Return the third of the configurations that goes on, at least one; among equals the first.

    >>> best_third({(("a", 1),): 1.0, (("a", 2),): 3.0, (("a", 3),): 3.0, (("a", 4),): 2.0})
    [(('a', 2),), (('a', 3),)]
    """
    ranked = sorted(scores, key=lambda name: -scores[name])[: math.ceil(len(scores) / 3)]
    return [name for name in scores if name in ranked]


def coarse(grid: Grid) -> Grid:
    """Thin a search space out: two learning rates, every number of passes, the middle value of the rest.

    >>> coarse({"lr": (1e-2, 1e-3, 1e-4), "passes": (1, 5), "temperature": (0.2, 2.0, 20.0)})
    {'lr': (0.01, 0.001), 'passes': (1, 5), 'temperature': (2.0,)}
    """
    whole = {"lr": 2, "passes": None}
    return {k: v[: whole[k]] if k in whole else (v[len(v) // 2],) for k, v in grid.items()}


def half(grid: Grid) -> Grid:
    """Thin a search space out: every learning rate, passes and memory proportion, every second value of the rest.

    >>> half({"lr": (1e-2, 1e-3), "passes": (1, 5), "temperature": (0.2, 2.0, 20.0)})
    {'lr': (0.01, 0.001), 'passes': (1, 5), 'temperature': (0.2, 20.0)}
    """
    whole = ("lr", "passes", "memory_proportion")
    return {k: v if k in whole else v[::2] for k, v in grid.items()}


GRIDS: dict[str, Callable[[Grid], Grid]] = {"paper": lambda grid: grid, "half": half, "coarse": coarse}
"""Search spaces by name: as in the paper, or thinned out."""
