"""Typed results: what a run, a tuning trial and a choice of hyperparameters say of themselves.

`schema_version` 2 is written, with a checksum; version 1 (results without that key) is read. A result without a
checksum is read too and is called unchecked.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from ocgl.errors import DamagedFileError, ResultError
from ocgl.experiments.config import RunConfig, buffer_nodes
from ocgl.files import parse_json, sealed, unsealed
from ocgl.graph import Cost
from ocgl.types import Json
from ocgl.validation import explained

SCHEMA_VERSION = 2
Score = float | None
"""A score in percent; None where it is undefined, or where the method has none."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, arbitrary_types_allowed=True)


class Evaluation(_Model):
    """How the anytime scores and the prequential accuracy were measured.

    Attributes:
        anytime: `exact` if all validation nodes were asked, `estimate` if a sample of them was.
        nodes: validation nodes asked.
        of: validation nodes in all.
        AAP_interval: bootstrap interval of an estimated AAP.
        coverage: coverage of that interval.
        prequential_labels: labels predicted before they were learned; None where that was not counted.
    """

    anytime: Literal["exact", "estimate"] = "exact"
    nodes: int = 0
    of: int = 0
    AAP_interval: tuple[float, float] | None = None
    coverage: float | None = None
    prequential_labels: int | None = None


class UpdateCost(_Model):
    """The most that an update read, and what it may read at most (None without a bound)."""

    most: Cost
    bound: Cost | None = None


class Statistics(_Model):
    """What a stream holds."""

    steps: int = 0
    tasks: int = 0
    nodes: int = 0
    train: int = 0
    validation: int = 0
    test: int = 0
    labels: int = 0


class Selection(_Model):
    """How hyperparameters were selected.

    Attributes:
        configurations: size of the grid.
        trials: trials that were run.
        tasks: tasks that the trials saw; None for an offline bound, which is selected on all validation nodes.
        score: validation AP of the selected configuration; None if all diverged.
        buffer: buffer size at which it was selected.
        halving: whether configurations were dropped early.
        grid: name of the grid, None for the method's own.
    """

    configurations: int
    trials: int
    tasks: int | None = None
    score: Score
    buffer: str
    halving: bool = False
    grid: str | None = None


class Origin(_Model):
    """The code that a result was computed by, where that is not the code it is valid for."""

    code: str | None = None
    revision: str | None = None


class _Result(_Model):
    schema_version: int = SCHEMA_VERSION
    id: str = ""
    setting: str = Field(default="main", max_length=100)
    buffer: str = Field(default="", max_length=100)
    config: RunConfig
    revision: str | None = None
    code: str | None = None
    computed_by: Origin | None = None
    compared: tuple[str, ...] | None = None
    adopted_unchecked: bool = False
    """Whether the result had no checksum when it was adopted."""
    checked: bool = Field(default=True, exclude=True)
    """Whether the result was computed now, or read with its checksum; older ones have none."""

    @field_validator("buffer")
    @classmethod
    def _is_a_size(cls, value: str) -> str:
        if value:
            buffer_nodes(value, 1000)
        return value

    def dump(self) -> Json:
        """Return the result as JSON values."""
        return self.model_dump(mode="json")

    def sealed(self, files: Mapping[str, str] | None = None) -> Json:
        """Return the result as it is written: JSON values with their checksum.

        Args:
            files: checksums of the files that belong to the result, by name.
        """
        return sealed(self.dump() | ({"files": dict(files)} if files else {}))


class RunResult(_Result):
    """One run, in percent where it is a score.

    Attributes:
        AP: mean over tasks of the performance on test nodes after the last batch.
        AF: mean over the T - 1 earlier tasks of the performance at the end minus that right after the task; negative
            means forgotten. `AF_T` divides the same sum by T, as the published tables do.
        AAP: mean over batches of the mean over tasks of the performance on validation nodes so far.
        prequential: accuracy on training nodes, predicted before they were learned.
        matrix: row i has the performance on the test nodes of each task after task i.
        curve: for an offline bound, (step, AP) at the end of each task; None for an online method.
    """

    kind: Literal["run"] = "run"
    dataset: str
    stream: str
    strategy: str
    title: str = Field(default="", max_length=200)
    profile: str
    seed: int
    hyperparameters: Json
    AP: Score
    AF: Score = None
    AF_T: Score = None
    AAP: Score = None
    AP_validation: Score = None
    prequential: Score = None
    evaluation: Evaluation = Evaluation()
    matrix: list[list[Score]] = Field(default_factory=list)
    updates: int = 0
    undefined_scores: int = 0
    nonfinite_losses: int = 0
    learn_seconds: float = 0.0
    evaluate_seconds: float = 0.0
    peak_rss_bytes: int = 0
    memory_bytes: int = 0
    memory_nodes: int = 0
    store: str = "memory"
    store_bytes: int = 0
    cost_per_update: UpdateCost = UpdateCost(most=Cost())
    statistics: Statistics = Statistics()
    stream_hash: str = ""
    graph_hash: str = ""
    protocol: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    curve: list[tuple[int, Score]] | None = None
    selection: Selection | None = None

    @property
    def offline(self) -> bool:
        """Whether the method is an offline bound."""
        return self.curve is not None

    @property
    def estimated(self) -> bool:
        """Whether AAP is an estimate."""
        return self.evaluation.anytime == "estimate" and self.AAP is not None

    @property
    def AAP_interval(self) -> tuple[float, float] | None:
        """Bootstrap interval of an estimated AAP."""
        return self.evaluation.AAP_interval if self.estimated else None

    def score(self, metric: str) -> Score:
        """Return a score by its name."""
        found: Score = getattr(self, metric)
        return found


class TrialResult(_Result):
    """One tuning trial: a configuration over a part (`share`) of the prefix. A diverged one has no score."""

    kind: Literal["trial"] = "trial"
    score: Score
    share: float = 1.0


class ChoiceResult(_Result):
    """The configuration selected for a method, with the score of every configuration and the share it was run over."""

    kind: Literal["choice"] = "choice"
    settings: Json
    selection: Selection
    table: list[tuple[Json, Score, float]]


Result = Annotated[RunResult | TrialResult | ChoiceResult, Field(discriminator="kind")]
_ADAPTER: TypeAdapter[RunResult | TrialResult | ChoiceResult] = TypeAdapter(Result)


def _upgraded(values: Json) -> Json:
    """Bring the values of a stored result to the present schema.

    Version 1 predicted every batch before learning it. Where a run was not evaluated after every batch, the default
    now asks fewer labels: that old figure is dropped, because the config would claim what was not measured.
    """
    version = values.get("schema_version", 1)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise ResultError(f"it has schema version {version}; this version of ocgl reads up to {SCHEMA_VERSION}")
    if version == 1 and values.get("kind", "run") == "run" and values["config"].get("eval_every", 1) > 1:
        values = values | {"prequential": None}
    return {"kind": "run"} | values | {"schema_version": SCHEMA_VERSION}


def parse_result(values: Json | str | bytes, where: object = "a result") -> RunResult | TrialResult | ChoiceResult:
    """Read a stored result of any schema version.

    One that is damaged, was changed since it was written, or contradicts itself raises `ResultError`.
    """
    try:
        given = values if isinstance(values, dict) else parse_json(values, where)
        rest, checked = unsealed(given, where)
        found = _ADAPTER.validate_json(json.dumps(_upgraded(rest)), strict=True)
    except ResultError as error:
        raise ResultError(where, str(error)) from error
    except ValidationError as error:
        raise ResultError(where, f"it is no result: {explained(error)}") from error
    except DamagedFileError as error:
        raise ResultError(where, error.why) from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ResultError(where, f"it is no result ({error!r})") from error
    contradictions = contradictions_of(found)
    if contradictions:
        raise ResultError(where, f"it contradicts itself: {contradictions[0]}")
    return found.model_copy(update={"checked": checked and not found.adopted_unchecked})


def parse_run(values: Json | str | bytes, where: object = "a result") -> RunResult:
    """Read the stored result of a run."""
    found = parse_result(values, where)
    if not isinstance(found, RunResult):
        raise ResultError(where, f"it is a {found.kind}, not a run")
    return found


TOLERANCE = 1e-6
"""Largest difference, in points, between a score and the same score computed from the parts it is made of."""


def contradictions_of(result: RunResult | TrialResult | ChoiceResult) -> list[str]:
    """List where the parts of a result contradict each other: scores against the matrix, a choice against its table."""
    if isinstance(result, TrialResult):
        return _outside({"score": result.score})
    if isinstance(result, ChoiceResult):
        best = [score for settings, score, share in result.table if settings == result.settings and share == 1.0]
        wrong = _differing("the score of the selection", result.selection.score, best[0]) if best else []
        return wrong + _outside({"the score of the selection": result.selection.score})
    found = _outside({name: result.score(name) for name in ("AP", "AAP", "AP_validation", "prequential")})
    found += _outside({"AF": result.AF, "AF_T": result.AF_T}, -100.0)
    config = result.config
    for name, own in (("dataset", config.dataset), ("strategy", config.strategy), ("stream", config.stream.kind)):
        if getattr(result, name) != own:
            found.append(f"{name} {getattr(result, name)!r} is not that of its config, {own!r}")
    if (result.seed, result.profile) != (config.seed, config.profile):
        found.append("seed or profile is not that of its config")
    matrix, tasks = result.matrix, result.statistics.tasks
    if tasks and (any(len(row) != tasks for row in matrix) or len(matrix) not in (0, 1, tasks)):
        found.append(f"its matrix is not of {tasks} tasks")
    if matrix:
        found += _differing("AP", result.AP, _mean(matrix[-1]))
    if len(matrix) > 1 and all(len(row) == len(matrix) for row in matrix):
        pairs = [(last, matrix[i][i]) for i, last in enumerate(matrix[-1])]
        changes = [a - b for a, b in pairs if a is not None and b is not None]
        earlier = [a - b for a, b in pairs[:-1] if a is not None and b is not None]
        if result.AF_T is not None and changes:
            found += _differing("AF_T", result.AF_T, sum(changes) / len(changes))
        if result.AF is not None and earlier:
            found += _differing("AF", result.AF, sum(earlier) / len(earlier))
    return found


def _outside(scores: Mapping[str, Score], low: float = 0.0) -> list[str]:
    given = {name: score for name, score in scores.items() if score is not None}
    slack = TOLERANCE
    return [f"{name} is {s}" for name, s in given.items() if not low - slack <= s <= 100 + slack]


def _differing(name: str, stored: Score, computed: Score) -> list[str]:
    if (stored is None) != (computed is None) or (
        stored is not None and computed is not None and not _close(stored, computed)
    ):
        return [f"{name} is {stored}, but its parts give {computed}"]
    return []


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE


def _mean(values: Iterable[Score]) -> Score:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


UNCOMPARED = frozenset(
    {"schema_version", "id", "kind", "setting", "buffer", "revision", "code", "computed_by", "compared", "title",
     "versions", "selection", "protocol", "checked", "adopted_unchecked",
     "learn_seconds", "evaluate_seconds", "peak_rss_bytes", "store"}
)  # fmt: skip
"""Keys that may differ between results that are otherwise bit-equal: names, clocks, memory, words."""


def differences(first: RunResult, second: RunResult) -> dict[str, tuple[Any, Any]]:
    """Return the scores, costs and options in which two runs differ, to the bit, each with both values.

    A figure that one of them has not measured (prequential accuracy of an older result) is not compared.
    """
    pair = [result.model_dump(exclude=set(UNCOMPARED)) for result in (first, second)]
    labels = [dumped["evaluation"].pop("prequential_labels") for dumped in pair]
    if None in [dumped["prequential"] for dumped in pair] or (None not in labels and labels[0] != labels[1]):
        for dumped in pair:
            dumped.pop("prequential")
    return {name: (pair[0][name], pair[1][name]) for name in pair[0] if pair[0][name] != pair[1][name]}


def bit_equal(first: RunResult, second: RunResult) -> bool:
    """Return whether two runs have equal scores, costs and configs, to the bit."""
    return not differences(first, second)


def same_code(results: Iterable[RunResult], current: Json) -> list[RunResult]:
    """Keep, of each method's runs, those of one version of the code: the current one's, or those most in number.

    Args:
        results: runs of any methods.
        current: the current code of each strategy, by its name.
    """
    groups: dict[tuple[str, ...], dict[str | None, list[RunResult]]] = {}
    for run in results:
        group: tuple[str, ...] = (run.dataset, run.stream, run.profile, run.strategy, run.setting, run.buffer)
        groups.setdefault(group, {}).setdefault(run.code, []).append(run)
    found: list[RunResult] = []
    for (_, _, _, strategy, *_), by_code in groups.items():
        found += by_code.get(current.get(strategy)) or max(by_code.values(), key=len)
    return found
