"""Typed results: what a run, a tuning trial and a choice of hyperparameters say of themselves.

`schema_version` 3 is written, with a checksum; versions 1 (results without that key) and 2 are read. A result without
a checksum is read too and is called unchecked.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ocgl.checked import sealed
from ocgl.experiments.config import RunConfig, buffer_nodes
from ocgl.graph import Cost
from ocgl.types import Json

SCHEMA_VERSION = 3
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
        score: validation AP of the selected configuration, the mean over the seeds; None if all diverged.
        buffer: buffer size at which it was selected.
        halving: whether configurations were dropped early.
        grid: name of the grid, None for the method's own.
        seeds: seeds that it was selected with; with several, in two stages.
        error: standard error of the score; None with one seed.
        ties: number of other configurations within one standard error of the best.
        tied: whether this is one of the tied configurations, and not the selected one.
    """

    configurations: int
    trials: int
    tasks: int | None = None
    score: Score
    buffer: str
    halving: bool = False
    grid: str | None = None
    seeds: int = 1
    error: Score = None
    ties: int = 0
    tied: bool = False

    def sentence(self) -> str:
        """Return how the configuration was selected, in words.

        >>> Selection(configurations=24, trials=24, tasks=2, score=95.0, buffer="4%").sentence()
        '24 configurations on the first 2 tasks, by validation AP'
        """
        where = "on the whole stream" if self.tasks is None else f"on the first {self.tasks} tasks"
        how = f"{self.configurations} configurations {where}, by validation AP"
        if self.grid is not None:
            how += f"; {self.grid} grid"
        if self.halving:
            how += "; weak ones dropped early (successive halving)"
        if self.seeds > 1:
            how += f": all with seed 0, the best quarter (at least 6) with {self.seeds} seeds"
        return how + ("; tied with the selected one" if self.tied else "")


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
    """One tuning trial: a configuration over a part (`share`) of the prefix. A diverged one has no score.

    `seconds` is the processor time that it took; None where that was not measured yet.
    """

    kind: Literal["trial"] = "trial"
    score: Score
    share: float = 1.0
    seconds: float | None = None


class TriedConfiguration(_Model):
    """What the trials of one configuration gave.

    Attributes:
        configuration: the configuration.
        scores: score of each seed, seed 0 first; None where it diverged.
        mean: mean over the seeds; None if one diverged.
        error: standard error of the mean; None with one seed.
        share: share of the prefix that the trials were run over.
        tied: whether it is within one standard error of the selected one.
    """

    configuration: Json
    scores: tuple[Score, ...]
    mean: Score
    error: Score = None
    share: float = 1.0
    tied: bool = False


class ChoiceResult(_Result):
    """The configuration selected for a method, the tied ones that were run too, and what all trials gave."""

    kind: Literal["choice"] = "choice"
    settings: Json
    ties: list[Json] = Field(default_factory=list)
    selection: Selection
    table: list[TriedConfiguration]


AnyResult = RunResult | TrialResult | ChoiceResult


UNCOMPARED = frozenset(
    {"schema_version", "id", "kind", "setting", "buffer", "revision", "code", "computed_by", "compared", "title",
     "versions", "selection", "protocol", "checked", "adopted_unchecked",
     "learn_seconds", "evaluate_seconds", "peak_rss_bytes", "store"}
)  # fmt: skip
"""Keys that may differ between results that are otherwise bit-equal: names, clocks, memory, words."""


def differences(first: RunResult, second: RunResult) -> dict[str, tuple[Any, Any]]:
    """Return the scores, costs and options in which two runs differ, to the bit, each with both values.

    A figure that one of them has not measured (prequential accuracy of an older result) is not compared, nor is a
    hyperparameter that did not exist yet when one of them was computed.
    """
    pair = [result.model_dump(exclude=set(UNCOMPARED)) for result in (first, second)]
    known = pair[0]["hyperparameters"].keys() & pair[1]["hyperparameters"].keys()
    for dumped in pair:
        dumped["hyperparameters"] = {name: dumped["hyperparameters"][name] for name in known}
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
        current: the current code of each method, by its name (`RunConfig.method`).
    """
    groups: dict[tuple[str, ...], dict[str | None, list[RunResult]]] = {}
    for run in results:
        group: tuple[str, ...] = (run.dataset, run.stream, run.profile, run.config.method, run.setting, run.buffer)
        groups.setdefault(group, {}).setdefault(run.code, []).append(run)
    found: list[RunResult] = []
    for (_, _, _, method, *_), by_code in groups.items():
        found += by_code.get(current.get(method)) or max(by_code.values(), key=len)
    return found
