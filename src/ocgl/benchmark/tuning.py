"""Hyperparameter selection: every configuration streamed over the prefix, the best validation AP at its end wins."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ocgl.benchmark.config import RunConfig
from ocgl.benchmark.run import Run
from ocgl.strategies import find
from ocgl.streams import Stream
from ocgl.types import Json

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


def score(config: RunConfig, prefix: Stream) -> float:
    """Stream one configuration over the prefix; gives AP on validation nodes at its end, -inf if it diverged."""
    rarely = config.model_copy(update={"eval_every": len(prefix)})
    run = Run(rarely, prefix, test=False)
    result = run.finish()
    return float("-inf") if result["nonfinite_losses"] or result["AP_validation"] is None else result["AP_validation"]


def best(scores: Sequence[tuple[Json, float]]) -> tuple[Json, float]:
    """Give the best configuration; among equals the first."""
    return max(scores, key=lambda pair: pair[1])


def grid_of(strategy: str) -> Grid:
    """Give the paper's search space of a method."""
    return find(strategy).grid
