"""Selects one configuration of a method by trials on the prefix, with one seed or in two stages with several."""

import math
from dataclasses import dataclass

from ocgl.experiments.tuning import RUNGS, Configuration, best_third
from ocgl.strategies import Strategy
from ocgl.types import Json

FINALISTS = 6
"""Fewest configurations of the second stage; more if a quarter of all is more."""

MOST_TIES = 4
"""Most tied configurations that are run on the whole stream beside the selected one."""


@dataclass(frozen=True)
class Wanted:
    """A trial that the selection waits for: a configuration with a seed over a share of the prefix."""

    configuration: Configuration
    seed: int
    share: float


@dataclass(frozen=True)
class Tried:
    """What the trials of one configuration gave.

    Attributes:
        configuration: the configuration.
        scores: score of each seed, seed 0 first; -inf where it diverged.
        share: share of the prefix that the trials were run over.
    """

    configuration: Json
    scores: tuple[float, ...]
    share: float

    @property
    def mean(self) -> float:
        """Mean over the seeds; the order of the seeds does not matter."""
        return math.fsum(self.scores) / len(self.scores) if all(map(math.isfinite, self.scores)) else -math.inf

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None with one seed, or where a trial diverged."""
        count = len(self.scores)
        if count < 2 or not math.isfinite(self.mean):
            return None
        return math.sqrt(math.fsum((score - self.mean) ** 2 for score in self.scores) / (count - 1) / count)


class Selector:
    """Selects one configuration.

    Stage one runs all configurations with seed 0: over the whole prefix, or, with halving, ever fewer over more of it.
    Stage two, with several seeds, runs the best quarter of those that were run over the whole prefix, at least six,
    with the other seeds as well. The best mean over all seeds wins, among equals the first. Configurations whose mean
    is within one standard error of the best are tied with it.

    Args:
        kind: class of the strategy.
        grid: the configurations, in the order in which ties are broken.
        halving: drop two thirds of the configurations after a part of the prefix. An offline bound has no prefix.
        seeds: seeds to select with; 1 for stage one alone.

    >>> from ocgl.strategies import find
    >>> selector = Selector(find("bare"), [{"lr": 0.1}, {"lr": 0.01}], halving=False, seeds=3)
    >>> selector.planned
    6
    """

    def __init__(self, kind: type[Strategy], grid: list[Json], halving: bool, seeds: int = 1) -> None:
        self.kind, self.grid, self.seeds = kind, grid, seeds
        self.names: list[str] = []
        self.done = False
        self._left = list(dict.fromkeys(map(self._canonical, self.grid)))
        self._rungs = list(RUNGS) if halving and not self.kind.offline else [1.0]
        self._scores: dict[Configuration, dict[int, float]] = {}
        self._reached: dict[Configuration, float] = {}
        self._waiting: set[Wanted] = set()
        self.planned = self._planned()
        """Number of trials in all."""

    def _canonical(self, configuration: Json) -> Configuration:
        return tuple(self.kind.canonical_config(configuration).items())

    def _planned(self) -> int:
        total, count, last = 0, len(self._left), len(self._left)
        for _ in self._rungs:
            total, last, count = total + count, count, -(-count // 3)
        return total + _finalists(last) * (self.seeds - 1)

    def begin(self) -> list[Wanted]:
        """Return the first trials."""
        return self._want([Wanted(configuration, 0, self._rungs[0]) for configuration in self._left])

    def take(self, trial: Wanted, value: float, name: str) -> list[Wanted]:
        """Record the score of a trial; return the trials that it makes possible. `done` says whether all are in.

        Args:
            trial: the trial.
            value: its score, -inf if it diverged.
            name: id of its result.
        """
        self._waiting.discard(trial)
        before = {} if trial.share > self._reached.get(trial.configuration, 0.0) else self._scores[trial.configuration]
        self._scores[trial.configuration] = before | {trial.seed: value}
        self._reached[trial.configuration] = trial.share
        self.names.append(name)
        if self._waiting:
            return []
        wanted = self._want(self._next())
        self.done = not wanted
        return wanted

    def _want(self, trials: list[Wanted]) -> list[Wanted]:
        self._waiting = set(trials)
        return trials

    def _next(self) -> list[Wanted]:
        """Return the trials of the next rung, or of the second stage."""
        first = {configuration: self._scores[configuration][0] for configuration in self._left}
        if len(self._rungs) > 1:
            self._rungs, self._left = self._rungs[1:], best_third(first)
            return [Wanted(configuration, 0, self._rungs[0]) for configuration in self._left]
        if self.seeds == 1 or any(len(self._scores[configuration]) > 1 for configuration in self._left):
            return []
        alive = [configuration for configuration in self._left if math.isfinite(first[configuration])]
        ranked = sorted(alive, key=lambda configuration: -first[configuration])[: _finalists(len(self._left))]
        return [Wanted(configuration, seed, 1.0) for configuration in ranked for seed in range(1, self.seeds)]

    def tried(self, configuration: Json) -> Tried:
        """Return what the trials of a configuration of the grid gave."""
        canonical = self._canonical(configuration)
        scores = self._scores[canonical]
        return Tried(configuration, tuple(scores[seed] for seed in sorted(scores)), self._reached[canonical])

    def table(self) -> list[Tried]:
        """List every configuration of the grid with what its trials gave."""
        return [self.tried(configuration) for configuration in self.grid]

    def _finals(self) -> list[Tried]:
        """List the configurations that were run with all seeds over the whole prefix, in order of the grid."""
        whole = [tried for tried in self.table() if tried.share == 1.0]
        most = max(len(tried.scores) for tried in whole)
        return [tried for tried in whole if len(tried.scores) == most]

    def chosen(self) -> Tried:
        """Return the best configuration."""
        return max(self._finals(), key=lambda tried: tried.mean)

    def tied(self) -> list[Tried]:
        """List the configurations that are tied with the best one and give other runs, best first."""
        best = self.chosen()
        if best.error is None:
            return []
        distinct: dict[Configuration, Tried] = {}
        for tried in self._finals():
            if tried.mean >= best.mean - best.error:
                distinct.setdefault(self._canonical(tried.configuration), tried)
        distinct.pop(self._canonical(best.configuration))
        return sorted(distinct.values(), key=lambda tried: -tried.mean)


def _finalists(count: int) -> int:
    """Return how many of `count` configurations go on to the second stage."""
    return min(count, max(FINALISTS, -(-count // 4)))
