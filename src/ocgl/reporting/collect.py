"""Finished runs, put in order for a report: one bench per table, one entry per method in it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ocgl.errors import ConfigError
from ocgl.experiments.config import buffer_nodes, defaults_of
from ocgl.experiments.identity import code_name
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import ChoiceResult, RunResult, TrialResult
from ocgl.reporting.estimates import Estimate, estimate_of
from ocgl.reporting.methods import title_of
from ocgl.reporting.published import published
from ocgl.types import DoubleArray, IntArray

METRICS = ("AAP", "AP", "AF_T")
"""What the tables show; AF_T is what the paper prints as AF (its average is over all tasks)."""


@dataclass(frozen=True, order=True)
class Key:
    """What the numbers of one table have in common."""

    dataset: str
    stream: str
    profile: str
    setting: str

    def __str__(self) -> str:
        setting = "" if self.setting == "main" else f", {self.setting}"
        return f"{self.dataset}, {self.stream} stream, profile {self.profile}{setting}"

    @property
    def slug(self) -> str:
        """A name for files and anchors."""
        text = "-".join((Path(self.dataset).stem, self.stream, self.profile, self.setting))
        return "".join(c if c.isalnum() else "-" for c in text)


@dataclass(frozen=True, eq=False)
class Curves:
    """Anytime scores in percent: `steps`, the task of each, and over seeds the AP_t and the scores per task."""

    steps: IntArray
    task: IntArray
    anytime: DoubleArray
    per_task: DoubleArray


@dataclass(eq=False)
class MethodRuns:
    """One method with one buffer size: its runs, one per seed."""

    strategy: str
    buffer: str
    runs: list[RunResult]
    store: ResultStore
    choice: ChoiceResult | None = None
    left_out: int = 0

    @property
    def title(self) -> str:
        """The method's name as its paper writes it."""
        return title_of(self.strategy, self.runs[0].title)

    @property
    def ranked(self) -> bool:
        """Whether the method takes part in the ranking: bare and offline bounds do not, nor does one seed alone."""
        return self.strategy != "bare" and not self.offline and len(self.runs) > 1

    @property
    def offline(self) -> bool:
        """Whether it is a bound."""
        return self.runs[0].offline

    def values(self, metric: str) -> DoubleArray | None:
        """Give a metric of every seed, in order of the seeds; None where the method has none."""
        found = [run.score(metric) for run in self.runs]
        return None if None in found else np.array(found, float)

    def mean(self, metric: str) -> float:
        """Give the mean over seeds, nan where there is none."""
        values = self.values(metric)
        return float("nan") if values is None else float(values.mean())

    @property
    def estimate(self) -> Estimate | None:
        """How AAP was estimated; None where it is exact or there is none."""
        return estimate_of(self.runs)

    @property
    def milliseconds(self) -> float:
        """Learning time per update, nan where there was none."""
        spent = [1000 * run.learn_seconds / run.updates for run in self.runs if run.updates]
        return float(np.mean(spent)) if spent else float("nan")

    def bytes(self, what: str) -> float:
        """Give bytes touched per update at most, or kept between updates."""
        if what == "touched":
            return float(max(run.cost_per_update.most.bytes for run in self.runs))
        return float(np.mean([run.memory_bytes for run in self.runs]))

    @cached_property
    def curves(self) -> Curves | None:
        """The anytime scores of all seeds; an offline bound has none."""
        if self.offline:
            return None
        frames = [self.store.curves(run.id) for run in self.runs]
        tasks = [column for column in frames[0].columns if column.startswith("task_")]
        return Curves(
            frames[0]["step"].to_numpy(),
            frames[0]["task"].to_numpy(),
            np.array([frame["AP_t"].to_numpy() for frame in frames]),
            np.array([frame.select(tasks).to_numpy().T for frame in frames]),
        )


@dataclass(eq=False)
class Bench:
    """One table: every method at one buffer size, and beside it the other sizes."""

    key: Key
    entries: list[MethodRuns]
    others: list[MethodRuns] = field(default_factory=list)

    def published(self, entry: MethodRuns, metric: str) -> tuple[float, float] | None:
        """Give the published number, where there is one."""
        place = (self.key.stream, self.key.setting, entry.buffer)
        return published_for(self.key.dataset, entry.strategy, metric, *place)

    def place(self, metric: str) -> dict[str, int]:
        """Give the first, second and third of a metric; bare, bounds and single seeds have no place."""
        ranked = [e for e in self.entries if e.ranked and not np.isnan(e.mean(metric))]
        ordered = sorted(ranked, key=lambda entry: -round(entry.mean(metric), 2))
        return {entry.strategy: place + 1 for place, entry in enumerate(ordered[:3])}

    @property
    def boundaries(self) -> list[int]:
        """The first step of every task but the first."""
        curves = next((e.curves for e in self.entries if e.curves is not None), None)
        if curves is None:
            return []
        return [int(step) for step in curves.steps[1:][np.diff(curves.task) > 0]]

    def unit(self, metric: str) -> str:
        """Give the unit of a metric, and whether it is an estimate; AP_t is where AAP is."""
        estimated = metric != "AP" and any(entry.estimate for entry in (*self.entries, *self.others))
        return "percent, estimate" if estimated else "percent"

    @property
    def costed(self) -> list[MethodRuns]:
        """The methods that have an AAP and a cost per update."""
        online = [entry for entry in self.entries if not entry.offline and any(run.updates for run in entry.runs)]
        return [entry for entry in online if not np.isnan(entry.mean("AAP"))]

    @property
    def tuned(self) -> int | None:
        """How many tasks the hyperparameters were selected on, where all methods agree."""
        found = {None if e.choice is None else e.choice.selection.tasks for e in self.entries if not e.offline}
        return found.pop() if len(found) == 1 else None

    def sizes(self) -> dict[str, list[MethodRuns]]:
        """Give the methods that were run with more than one buffer size, smallest first."""
        found: dict[str, list[MethodRuns]] = {}
        for entry in (*self.others, *self.entries):
            if "buffer_size" in entry.runs[0].hyperparameters:
                found.setdefault(entry.strategy, []).append(entry)
        nodes = self.entries[0].runs[0].statistics.nodes
        for entries in found.values():
            entries.sort(key=lambda e: buffer_nodes(e.buffer, nodes))
        return {name: entries for name, entries in found.items() if len(entries) > 1}


def published_for(
    dataset: str, strategy: str, metric: str, stream: str, setting: str, buffer: str
) -> tuple[float, float] | None:
    """Give the published number of a metric as we name it; the tables of the paper are at its largest buffer only.

    >>> published_for("amazon-computer", "er", "AF_T", "class", "main", "4%")
    (-50.68, 4.99)
    >>> published_for("amazon-computer", "er", "AF_T", "class", "main", "1%")
    """
    if buffer != defaults_of(dataset).buffer:
        return None
    return published(dataset, strategy, metric.removesuffix("_T"), stream, setting)


def collect(folders: Iterable[Path]) -> list[Bench]:
    """Read everything that `ocgl bench` left in some folders."""
    tables: dict[Key, dict[tuple[str, str], dict[str, MethodRuns]]] = {}
    choices: dict[tuple[Key, str, str], ChoiceResult] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"there is no folder {folder}")
        store = ResultStore(folder)
        for result in store:
            if isinstance(result, TrialResult):
                continue
            config = result.config
            key = Key(config.dataset, config.stream.kind, config.profile, result.setting)
            method = (config.strategy, result.buffer)
            if isinstance(result, ChoiceResult):
                if (key, *method) not in choices or result.code == code_name(config.strategy):
                    choices[(key, *method)] = result
            else:
                variants = tables.setdefault(key, {}).setdefault(method, {})
                entry = variants.setdefault(_variant(result), MethodRuns(*method, [], store))
                if result.seed not in [run.seed for run in entry.runs]:
                    entry.runs.append(result)
    if not tables:
        raise ConfigError(f"no finished run in {', '.join(map(str, folders))}")
    return [
        _bench(key, {method: _main(variants) for method, variants in tables[key].items()}, choices)
        for key in sorted(tables)
    ]


def _variant(run: RunResult) -> str:
    """Name what makes runs comparable: the code and everything but the seed."""
    return json.dumps([run.code, run.config.model_dump(mode="json", exclude={"seed"})], sort_keys=True)


def _main(variants: dict[str, MethodRuns]) -> MethodRuns:
    """Take, of runs that differ in more than the seed, the present code's, with most seeds, evaluated most often."""
    entries = list(variants.values())

    def rank(entry: MethodRuns) -> tuple[bool, int, int]:
        run = entry.runs[0]
        return run.code == code_name(entry.strategy), len(entry.runs), -run.config.eval_every

    chosen = max(entries, key=rank)
    chosen.left_out = sum(len(entry.runs) for entry in entries) - len(chosen.runs)
    return chosen


def _bench(
    key: Key, found: dict[tuple[str, str], MethodRuns], choices: dict[tuple[Key, str, str], ChoiceResult]
) -> Bench:
    for (strategy, buffer), entry in found.items():
        entry.runs.sort(key=lambda run: run.seed)
        entry.choice = choices.get((key, strategy, buffer))
    usual = defaults_of(key.dataset).buffer
    methods: dict[str, list[MethodRuns]] = {}
    for entry in found.values():
        methods.setdefault(entry.strategy, []).append(entry)
    shown = [max(entries, key=lambda e: (e.buffer == usual, _size(e))) for entries in methods.values()]
    shown.sort(key=lambda e: -np.nan_to_num(e.mean("AAP"), nan=1000.0))
    return Bench(key, shown, [entry for entry in found.values() if entry not in shown])


def _size(entry: MethodRuns) -> int:
    return buffer_nodes(entry.buffer, entry.runs[0].statistics.nodes)
