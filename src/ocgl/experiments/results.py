"""Typed results: what a run, a tuning trial and a choice of hyperparameters say of themselves.

`schema_version` 2 is written; version 1 (results without that key) is read.
"""

import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ocgl.errors import ResultError
from ocgl.experiments.config import RunConfig
from ocgl.graph import Cost
from ocgl.types import Json

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
        score: validation AP of the selected configuration.
        buffer: buffer size at which it was selected.
        halving: whether configurations were dropped early.
        grid: name of the grid, None for the method's own.
    """

    configurations: int
    trials: int
    tasks: int | None = None
    score: float
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
    setting: str = "main"
    buffer: str = ""
    config: RunConfig
    revision: str | None = None
    code: str | None = None
    computed_by: Origin | None = None
    compared: tuple[str, ...] | None = None

    def dump(self) -> Json:
        """Return the result as JSON values."""
        return self.model_dump(mode="json")


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
    title: str = ""
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
    if version > SCHEMA_VERSION:
        raise ResultError(f"result has schema version {version}; this version of ocgl reads up to {SCHEMA_VERSION}")
    if version == 1 and values.get("kind", "run") == "run" and values["config"].get("eval_every", 1) > 1:
        values = values | {"prequential": None}
    return {"kind": "run"} | values | {"schema_version": SCHEMA_VERSION}


def parse_result(values: Json | str, where: str = "a result") -> RunResult | TrialResult | ChoiceResult:
    """Read a stored result of any schema version."""
    try:
        given = json.loads(values) if isinstance(values, str) else values
        return _ADAPTER.validate_python(_upgraded(given))
    except (ValidationError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ResultError(f"{where} cannot be read: {error}") from error


def parse_run(values: Json | str, where: str = "a result") -> RunResult:
    """Read the stored result of a run."""
    found = parse_result(values, where)
    if not isinstance(found, RunResult):
        raise ResultError(f"{where} is a {found.kind}, not a run")
    return found


UNCOMPARED = frozenset(
    {"schema_version", "id", "kind", "setting", "buffer", "revision", "code", "computed_by", "compared", "title",
     "versions", "selection", "protocol", "learn_seconds", "evaluate_seconds", "peak_rss_bytes", "store"}
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
