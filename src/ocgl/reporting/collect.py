"""Group finished runs for a report: one bench per table, one entry per method of the table."""

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ocgl.errors import ConfigError, DamagedFileError, FileWarning, ResultError
from ocgl.experiments.config import buffer_nodes, defaults_of
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import ChoiceResult, RunResult, TrialResult
from ocgl.reporting.estimates import Estimate, estimate_of
from ocgl.reporting.methods import file_of, title_of
from ocgl.reporting.published import published
from ocgl.types import DoubleArray, IntArray, Json

METRICS = ("AAP", "AP", "AF_T")
"""Metrics of the tables. AF_T averages over all tasks, as the AF in the paper's tables does."""

TEXTBOOK_METRICS = ("AAP", "AP", "AF")
"""Metrics of the tables of profile `textbook`. AF averages over the tasks before the last, as its definition says."""


def metrics_of(profile: str) -> tuple[str, ...]:
    """Return the metrics of the tables of a profile."""
    return TEXTBOOK_METRICS if profile == "textbook" else METRICS


@dataclass(frozen=True, order=True)
class Key:
    """Identifies one table: dataset, kind of stream, profile and setting."""

    dataset: str
    stream: str
    profile: str
    setting: str

    def __str__(self) -> str:
        setting = "" if self.setting == "main" else f", {self.setting}"
        return f"{self.dataset}, {self.stream} stream, profile {self.profile}{setting}"

    @property
    def slug(self) -> str:
        """The key as a name for files and HTML anchors."""
        whole = "-".join((self.dataset, self.stream, self.profile, self.setting))
        text = "-".join((Path(self.dataset).stem, self.stream, self.profile, self.setting))
        safe = "".join(c if c.isascii() and c.isalnum() else "-" for c in text)
        if safe == whole and len(safe) <= 100:
            return safe
        return f"{safe[:80]}-{hashlib.sha256(whole.encode()).hexdigest()[:6]}"  # two names never share a file


@dataclass(frozen=True, eq=False)
class Curves:
    """Anytime scores of a method, in percent.

    Attributes:
        steps: indices of the evaluated steps.
        task: task of each evaluated step.
        anytime: AP_t (seeds x steps).
        per_task: scores of each task (seeds x tasks x steps).
    """

    steps: IntArray
    task: IntArray
    anytime: DoubleArray
    per_task: DoubleArray


@dataclass(eq=False)
class MethodRuns:
    """The runs of one method with one buffer size, one per seed.

    Attributes:
        strategy: name of the method, with its network where that is not the GCN.
        buffer: buffer size as text, such as `4%`.
        runs: the runs, in order of their seeds.
        store: the results folder that the runs are in.
        choice: how the hyperparameters were selected; None if they were not.
        left_out: runs of the method that are not comparable with `runs`.
        ties: the runs of each configuration that is tied with the selected one.
        shares_title: whether another method of the table has the same title, so that the file is shown as well.
    """

    strategy: str
    buffer: str
    runs: list[RunResult]
    store: ResultStore
    choice: ChoiceResult | None = None
    left_out: int = 0
    ties: "list[MethodRuns]" = field(default_factory=list)
    shares_title: bool = False

    @property
    def title(self) -> str:
        """The name of the method in tables and figures."""
        title = title_of(self.strategy, self.runs[0].title)
        return f"{title} [{file_of(self.strategy)}]" if self.shares_title else title

    @property
    def ranked(self) -> bool:
        """Whether the method is ranked: `bare`, offline bounds and methods with one seed are not."""
        return self.strategy != "bare" and not self.offline and len(self.runs) > 1

    @property
    def offline(self) -> bool:
        """Whether the method is an offline bound."""
        return self.runs[0].offline

    def values(self, metric: str) -> DoubleArray | None:
        """Return a metric for each seed; None if a run does not have it."""
        found = [run.score(metric) for run in self.runs]
        return None if None in found else np.array(found, float)

    def mean(self, metric: str) -> float:
        """Return the mean of a metric over seeds; nan if a run does not have it."""
        values = self.values(metric)
        return float("nan") if values is None else float(values.mean())

    @property
    def estimate(self) -> Estimate | None:
        """How AAP was estimated; None if it is exact, or if there is no AAP."""
        return estimate_of(self.runs)

    @property
    def milliseconds(self) -> float:
        """Mean learning time per update in milliseconds; nan without updates."""
        spent = [1000 * run.learn_seconds / run.updates for run in self.runs if run.updates]
        return float(np.mean(spent)) if spent else float("nan")

    def bytes(self, what: str) -> float:
        """Return a cost in bytes.

        Args:
            what: `touched` for the most bytes that an update reads; `held` for the memory of the method.
        """
        if what == "touched":
            return float(max(run.cost_per_update.most.bytes for run in self.runs))
        return float(np.mean([run.memory_bytes for run in self.runs]))

    @cached_property
    def curves(self) -> Curves | None:
        """The anytime scores of all seeds; None for an offline bound, or where a run has none."""
        if self.offline or not all(self.store.has_curves(run.id) for run in self.runs):
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
    """The runs of one table.

    Attributes:
        key: identifies the table.
        entries: every method with one buffer size.
        others: the same methods with other buffer sizes.
    """

    key: Key
    entries: list[MethodRuns]
    others: list[MethodRuns] = field(default_factory=list)

    def published(self, entry: MethodRuns, metric: str) -> tuple[float, float] | None:
        """Return mean and standard deviation published for a method; None if there are none."""
        where = (self.key.stream, self.key.setting, entry.buffer)
        return published_for(self.key.dataset, entry.strategy, metric, *where)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of the table."""
        return metrics_of(self.key.profile)

    def place(self, metric: str) -> dict[str, int]:
        """Return the places 1, 2 and 3 by strategy; methods that are not ranked have no place.

        Beside a published table only the methods of the paper have places, as there.
        """
        ranked = [e for e in self.entries if e.ranked and not np.isnan(e.mean(metric))]
        ranked = [e for e in ranked if self.published(e, "AAP")] or ranked
        ordered = sorted(ranked, key=lambda entry: -round(entry.mean(metric), 2))
        return {entry.strategy: place + 1 for place, entry in enumerate(ordered[:3])}

    @property
    def boundaries(self) -> list[int]:
        """The first evaluated step of every task after the first."""
        curves = next((e.curves for e in self.entries if e.curves is not None), None)
        if curves is None:
            return []
        return [int(step) for step in curves.steps[1:][np.diff(curves.task) > 0]]

    def unit(self, metric: str) -> str:
        """Return the axis label of a metric's unit, marked if the metric is an estimate (AAP and AP_t can be)."""
        estimated = metric != "AP" and any(entry.estimate for entry in (*self.entries, *self.others))
        return "percent, estimate" if estimated else "percent"

    @property
    def costed(self) -> list[MethodRuns]:
        """The methods that have both an AAP and a cost per update."""
        online = [entry for entry in self.entries if not entry.offline and any(run.updates for run in entry.runs)]
        return [entry for entry in online if not np.isnan(entry.mean("AAP"))]

    @property
    def tuned(self) -> int | None:
        """Number of tasks that hyperparameters were selected on; None if methods differ."""
        found = {None if e.choice is None else e.choice.selection.tasks for e in self.entries if not e.offline}
        return found.pop() if len(found) == 1 else None

    def sizes(self) -> dict[str, list[MethodRuns]]:
        """Return the methods that were run with several buffer sizes, each in ascending order of size."""
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
    """Return mean and standard deviation published for a metric; None if there are none.

    The paper's tables are for its largest buffer size only.

    Args:
        dataset: name of the dataset.
        strategy: name of the method.
        metric: `AAP`, `AP` or `AF_T` (printed as AF in the paper).
        stream: kind of stream.
        setting: `main` or an ablation.
        buffer: buffer size as text, such as `4%`.

    >>> published_for("amazon-computer", "er", "AF_T", "class", "main", "4%")
    (-50.68, 4.99)
    >>> published_for("amazon-computer", "er", "AF_T", "class", "main", "1%")
    """
    if buffer != defaults_of(dataset).buffer or metric == "AF":
        return None
    return published(dataset, strategy, metric.removesuffix("_T"), stream, setting)


def collect(folders: Iterable[Path], damaged: list[DamagedFileError] | None = None) -> list[Bench]:
    """Return the benches of all finished runs in some results folders of `ocgl bench`.

    Only what is stored is read: no strategy file is executed, and no dataset is loaded.

    Args:
        folders: the results folders.
        damaged: gets what is damaged and was left out; each raises a `FileWarning` if None.
    """
    tables: dict[Key, dict[tuple[str, str], dict[str, MethodRuns]]] = {}
    choices: dict[tuple[Key, str, str], ChoiceResult] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"there is no folder {folder}; give results folders of `ocgl bench`")
        store = ResultStore(folder)
        for result in store:
            if isinstance(result, TrialResult):
                continue
            config = result.config
            key = Key(config.dataset, config.stream.kind, config.profile, result.setting)
            method = (config.method, result.buffer or config.buffer)
            if isinstance(result, ChoiceResult):
                known = choices.get((key, *method))
                if known is None or _thoroughness(result) > _thoroughness(known):
                    choices[(key, *method)] = result
            else:
                variants = tables.setdefault(key, {}).setdefault(method, {})
                entry = variants.setdefault(_variant(result), MethodRuns(*method, [], store))
                if result.seed in [run.seed for run in entry.runs]:
                    continue
                if entry.runs and not _same_steps(entry.store, entry.runs[0], store, result):
                    where = folder / result.id
                    store.damaged[str(where)] = ResultError(where, "it was evaluated after other steps than its seeds")
                    continue
                entry.runs.append(result)
        for error in store.damaged.values():
            if damaged is not None:
                damaged.append(error)
            else:
                warnings.warn(f"left out: {error}", FileWarning, stacklevel=2)
    if not tables:
        raise ConfigError(f"no finished run in {', '.join(map(str, folders))}; `ocgl bench` makes some")
    return [
        _bench(key, {m: _best_variant(v, choices.get((key, *m))) for m, v in tables[key].items()}, choices)
        for key in sorted(tables)
    ]


def _same_steps(store: ResultStore, run: RunResult, other_store: ResultStore, other: RunResult) -> bool:
    """Return whether two seeds of one method were evaluated after the same steps, or have no curve."""
    if not (store.has_curves(run.id) and other_store.has_curves(other.id)):
        return True
    first, second = store.curves(run.id), other_store.curves(other.id)
    return first.columns == second.columns and first.select("step", "task").equals(second.select("step", "task"))


def _variant(run: RunResult) -> str:
    """Return a key that is equal for comparable runs: the same code and config, apart from the seed."""
    return json.dumps([run.code, run.config.model_dump(mode="json", exclude={"seed"})], sort_keys=True)


def _thoroughness(choice: ChoiceResult) -> tuple[bool, int, int]:
    """Rank the choices of one method: by the current code, with more seeds, of more configurations."""
    selection = choice.selection
    return (
        choice.code == choice.config.code,
        selection.seeds,
        selection.configurations,
    )


def _best_variant(variants: dict[str, MethodRuns], choice: ChoiceResult | None) -> MethodRuns:
    """Choose one variant: prefer the current code, then the selected one, more seeds, more frequent evaluation."""
    entries = list(variants.values())

    def rank(entry: MethodRuns) -> tuple[bool, bool, int, int]:
        run = entry.runs[0]
        selected = choice is not None and _has(run, choice.settings)
        return (
            run.code == run.config.code,
            selected,
            len(entry.runs),
            -run.config.eval_every,
        )

    chosen = max(entries, key=rank)
    if choice is not None and _has(chosen.runs[0], choice.settings):
        others = [entry for entry in entries if entry is not chosen and _alike(entry.runs[0], chosen.runs[0])]
        chosen.ties = [entry for tie in choice.ties for entry in others if _has(entry.runs[0], tie)]
    counted = [chosen, *chosen.ties]
    chosen.left_out = sum(len(entry.runs) for entry in entries) - sum(len(entry.runs) for entry in counted)
    return chosen


def _has(run: RunResult, settings: Json) -> bool:
    """Return whether a run has the values of a configuration, as they are read from JSON."""
    given = run.config.model_dump(mode="json")["hyperparameters"]
    return all(given.get(name) == value for name, value in settings.items())


def _alike(first: RunResult, second: RunResult) -> bool:
    """Return whether two runs are of the same code and options, whatever their hyperparameters and seed."""
    options = [run.config.model_dump(mode="json", exclude={"seed", "hyperparameters"}) for run in (first, second)]
    return first.code == second.code and options[0] == options[1]


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
    titles = Counter(entry.title for entry in shown)
    shared = {entry.strategy for entry in shown if titles[entry.title] > 1}
    for entry in found.values():
        entry.shares_title = entry.strategy in shared
    shown.sort(key=lambda e: -np.nan_to_num(e.mean("AAP"), nan=1000.0))
    return Bench(key, shown, [entry for entry in found.values() if entry not in shown])


def _size(entry: MethodRuns) -> int:
    return buffer_nodes(entry.buffer, entry.runs[0].statistics.nodes)
