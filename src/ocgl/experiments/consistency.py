"""Whether the parts of a stored result fit each other: scores, matrix, curve, config, and the table of a choice."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ocgl.experiments.results import ChoiceResult, RunResult, Score, TrialResult
from ocgl.types import Json

if TYPE_CHECKING:
    import polars as pl

TOLERANCE = 1e-6
"""Largest difference, in points, between a score and the same score computed from the parts it is made of."""


def contradictions_of(result: RunResult | TrialResult | ChoiceResult) -> list[str]:
    """List where the parts of a result contradict each other."""
    if isinstance(result, TrialResult):
        return _outside({"score": result.score})
    if isinstance(result, ChoiceResult):
        return _of_choice(result)
    scores = _outside({name: result.score(name) for name in ("AP", "AAP", "AP_validation", "prequential")})
    return scores + _outside({"AF": result.AF, "AF_T": result.AF_T}, -100.0) + _of_config(result) + _of_matrix(result)


def contradictions_of_curve(run: RunResult, curves: "pl.DataFrame") -> list[str]:
    """List where the curve of a run contradicts its scores."""
    lacking = {"step", "task", "AP_t"} - set(curves.columns)
    if lacking:
        return [f"it has no column {', '.join(sorted(lacking))}"]
    if run.offline:
        return []
    anytime = curves["AP_t"].drop_nulls().drop_nans()
    mean = float(anytime.to_numpy().mean()) if len(anytime) else None
    return _differing("the AAP of the result", run.AAP, mean)


def _of_choice(choice: ChoiceResult) -> list[str]:
    best = [row.mean for row in choice.table if row.configuration == choice.settings and row.share == 1.0]
    wrong = _differing("the score of the selection", choice.selection.score, best[0]) if best else []
    for row in choice.table:
        mean = None if None in row.scores else _mean(row.scores)
        wrong += _differing("the mean of a configuration", row.mean, mean)
    return wrong + _outside({"the score of the selection": choice.selection.score})


def _of_config(run: RunResult) -> list[str]:
    config = run.config
    own: Json = {"dataset": config.dataset, "strategy": config.strategy, "stream": config.stream.kind}
    own |= {"seed": config.seed, "profile": config.profile}
    return [
        f"{name} {getattr(run, name)!r} is not that of its config, {value!r}"
        for name, value in own.items()
        if getattr(run, name) != value
    ]


def _of_matrix(run: RunResult) -> list[str]:
    matrix, tasks = run.matrix, run.statistics.tasks
    if tasks and (any(len(row) != tasks for row in matrix) or len(matrix) not in (0, 1, tasks)):
        return [f"its matrix is not of {tasks} tasks"]
    if not matrix:
        return []
    found = _differing("AP", run.AP, _mean(matrix[-1]))
    if len(matrix) == len(matrix[-1]):
        pairs = [(last, matrix[i][i]) for i, last in enumerate(matrix[-1])]
        changes = [None if last is None or first is None else last - first for last, first in pairs]
        for name, stored, computed in (("AF_T", run.AF_T, _mean(changes)), ("AF", run.AF, _mean(changes[:-1]))):
            if stored is not None:
                found += _differing(name, stored, computed)
    return found


def _outside(scores: Mapping[str, Score], low: float = 0.0) -> list[str]:
    given = {name: score for name, score in scores.items() if score is not None}
    return [f"{name} is {score}" for name, score in given.items() if not low - TOLERANCE <= score <= 100 + TOLERANCE]


def _differing(name: str, stored: Score, computed: Score) -> list[str]:
    both = stored is not None and computed is not None
    same = abs(stored - computed) <= TOLERANCE if both else stored is computed  # type: ignore[operator]
    return [] if same else [f"{name} is {stored}, but its parts give {computed}"]


def _mean(values: Iterable[Score]) -> Score:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None
