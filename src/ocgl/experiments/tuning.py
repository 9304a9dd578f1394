"""Hyperparameter selection: every configuration is run over the prefix, the best validation AP at its end wins."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ocgl.experiments.config import RunConfig
from ocgl.experiments.experiment import Experiment
from ocgl.strategies import Strategy
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


def best(scores: Sequence[tuple[Json, float]]) -> tuple[Json, float]:
    """Return the best configuration with its score; among equals the first."""
    return max(scores, key=lambda pair: pair[1])


def coarse(grid: Grid) -> Grid:
    """Thin a search space out: two learning rates, every number of passes, the middle value of the rest.

    >>> coarse({"lr": (1e-2, 1e-3, 1e-4), "passes": (1, 5), "temperature": (0.2, 2.0, 20.0)})
    {'lr': (0.01, 0.001), 'passes': (1, 5), 'temperature': (2.0,)}
    """
    whole = {"lr": 2, "passes": None}
    return {k: v[: whole[k]] if k in whole else (v[len(v) // 2],) for k, v in grid.items()}


GRIDS: dict[str, Callable[[Grid], Grid]] = {"paper": lambda grid: grid, "coarse": coarse}
"""Search spaces by name: as in the paper, or thinned out."""


class Selector:
    """Selects one configuration: all run over the whole prefix, or, with halving, ever fewer over more of it.

    Args:
        kind: class of the strategy.
        grid: the configurations, in the order in which ties are broken.
        halving: drop two thirds of the configurations after a part of the prefix. An offline bound has no prefix.
    """

    def __init__(self, kind: type[Strategy], grid: list[Json], halving: bool) -> None:
        self.kind = kind
        self.grid = grid
        self.left = list(dict.fromkeys(map(self._canonical, self.grid)))
        self.rungs = list(RUNGS) if halving and not self.kind.offline else [1.0]
        self.scores: dict[Configuration, float] = {}
        self.names: list[str] = []
        self.reached: dict[Configuration, tuple[float, float]] = {}

    def _canonical(self, configuration: Json) -> Configuration:
        return tuple(self.kind.canonical_config(configuration).items())

    @property
    def planned(self) -> int:
        """Number of trials in all."""
        total, count = 0, len(self.left)
        for _ in self.rungs:
            total, count = total + count, -(-count // 3)
        return total

    def take(self, configuration: Configuration, value: float, name: str) -> bool:
        """Record a score; return whether it was the last that this rung waited for."""
        self.scores[configuration] = value
        self.reached[configuration] = (self.rungs[0], value)
        self.names.append(name)
        return len(self.scores) == len(self.left)

    def climb(self) -> bool:
        """Go to the next rung with the best third, if there is one."""
        if len(self.rungs) == 1:
            return False
        in_order = {configuration: self.scores[configuration] for configuration in self.left}
        self.rungs, self.left, self.scores = self.rungs[1:], best_third(in_order), {}
        return True

    def table(self) -> list[tuple[Json, float, float]]:
        """List every configuration of the grid with its score and the share of the prefix it was run over."""
        rows = [(configuration, *self.reached[self._canonical(configuration)]) for configuration in self.grid]
        return [(configuration, value, share) for configuration, share, value in rows]

    def chosen(self) -> tuple[Json, float]:
        """Return the best configuration of those run over the whole prefix, with its score."""
        return best([(configuration, value) for configuration, value, share in self.table() if share == 1.0])
