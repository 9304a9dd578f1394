"""The protocol over many methods: tune each on the prefix, then run the chosen configuration with every seed."""

import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ocgl.code import code_name
from ocgl.datasets import load_dataset
from ocgl.errors import OcglError, UnknownNameError, WriteError
from ocgl.experiments.config import RunConfig, configure, defaults_of
from ocgl.experiments.identity import digest_of, run_id
from ocgl.experiments.result_store import ResultStore, revision
from ocgl.experiments.results import ChoiceResult, RunResult, Selection, TrialResult, same_code
from ocgl.experiments.run_directory import curves_of
from ocgl.experiments.runner import make_experiment
from ocgl.experiments.tuning import (
    GRIDS,
    Configuration,
    Selector,
    configurations,
    score,
    tune_tasks,
)
from ocgl.files import make_folder, remove_leftovers, write_whole
from ocgl.strategies import find
from ocgl.strategies._core.registry import keys
from ocgl.strategies._core.user_files import located
from ocgl.streams import Stream, StreamConfig
from ocgl.streams.build import build
from ocgl.types import Json

FAILURES = "failures"
"""Folder of the tracebacks of failed trials and runs, in the folder of the results."""

SETTINGS: dict[str, Json] = {
    "main": {},
    "larger-batch": {"batch_size": 5},  # times the dataset's own
    "full-neighborhood": {"fanout": "all"},
    "hidden-512": {"hidden": 512},
    "hidden-128": {"hidden": 128},
    "layers-3": {"layers": 3},
    "layers-1": {"layers": 1},
}
"""The ablations of the paper's appendix."""


@dataclass(frozen=True)
class Group:
    """Trials that select one configuration: a method in a setting, with a buffer."""

    strategy: str
    setting: str
    buffer: str


@dataclass
class GroupStatus:
    """How far one group is."""

    trials: int
    tried: int = 0
    best: float = float("-inf")
    configuration: Json = field(default_factory=dict)
    seeds: int = 0
    runs: list[RunResult] = field(default_factory=list)


@dataclass
class SweepStatus:
    """How far a sweep is."""

    done: int = 0
    reused: int = 0
    running: int = 0
    failed: list[str] = field(default_factory=list)
    planned: int = 0
    groups: dict[Group, GroupStatus] = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """What to run on one dataset; everything finished is kept in `out` and never computed again.

    Args:
        dataset: name or path of the dataset.
        strategies: names of the methods.
        out: folder of the results.
        stream: kind of stream.
        settings: `main` and ablations.
        profile: `paper` or `textbook`.
        seeds: runs of each chosen configuration.
        buffers: buffer sizes; the dataset's own if empty.
        eval_every: evaluate runs after every K-th batch.
        overrides: values by key for every run.
        data_root: folder of the datasets.
        select_at: use for every buffer size the configuration selected with this one.
        halving: drop hopeless configurations after a part of the prefix.
        grids: `paper`, or `coarse` for a quick overview.
    """

    dataset: str
    strategies: tuple[str, ...]
    out: Path
    stream: str = "class"
    settings: tuple[str, ...] = ("main",)
    profile: str = "paper"
    seeds: int = 5
    buffers: tuple[str, ...] = ()
    eval_every: int = 1
    overrides: Mapping[str, Any] = field(default_factory=dict)
    data_root: Path | None = None
    select_at: str | None = None
    halving: bool = False
    grids: str = "paper"

    def groups(self) -> list[Group]:
        """List what is tuned separately; a setting that a method does not have is left out."""
        found = []
        for name in self.strategies:
            known = {*keys(find(name)), "batch_size"}
            buffers = self.buffers if "buffer_size" in known else ()
            for setting in self.settings:
                if setting not in SETTINGS:
                    raise UnknownNameError("setting", setting, SETTINGS)
                if SETTINGS[setting].keys() <= known:
                    usual = defaults_of(self.dataset).buffer
                    found += [Group(name, setting, buffer) for buffer in buffers or (usual,)]
        return found

    def config(self, group: Group, configuration: Json, seed: int = 0) -> RunConfig:
        """Return the config of one run."""
        special = dict(SETTINGS[group.setting])
        if "batch_size" in special:
            special["batch_size"] *= defaults_of(self.dataset).batch_size
        values = special | configuration | {"buffer": group.buffer} | dict(self.overrides)
        values = {"eval_every": self.eval_every} | values
        return configure(self.dataset, group.strategy, self.stream, self.profile, seed, values)

    def grid(self, group: Group) -> list[Json]:
        """List the configurations of a group, in the order in which ties are broken; what is set is not searched."""
        if self.grids not in GRIDS:
            raise UnknownNameError("grid", self.grids, GRIDS)
        grid = {key: values for key, values in find(group.strategy).grid.items() if key not in self.overrides}
        return configurations(GRIDS[self.grids](grid))


@lru_cache(maxsize=2)
def _shared(dataset: str, stream: str, data_root: Path | None, prefix: bool, download: bool) -> Stream:
    """Make a stream once per process, for all trials that run on it."""
    graph = load_dataset(dataset, data_root, download=download)
    whole = build(graph, StreamConfig.model_validate_json(stream))
    return whole.prefix(tune_tasks(whole.tasks)) if prefix else whole


def shared(config: RunConfig, data_root: Path | None, prefix: bool = False, download: bool = True) -> Stream:
    """Return the stream of a config, or the part of it that tuning may see."""
    return _shared(config.dataset, config.stream.model_dump_json(), data_root, prefix, download)


def for_tuning(config: RunConfig) -> RunConfig:
    """Leave out what a trial does not use: how often to evaluate, estimates, and an offline bound's curve."""
    offline = {"curve": False} if find(config.strategy).offline else {}
    values = {"eval_every": 1, "eval_cap": None, "prequential": "evaluated"}
    return config.model_copy(update=values | {"hyperparameters": config.hyperparameters | offline})


def name_of(config: RunConfig, share: float | None, data_root: Path | None) -> str:
    """Return the id of a run, or of a trial over a share of the prefix."""
    stream = shared(config, data_root)
    resolved = config.resolved(stream.base)
    if share is None:
        return run_id(config, resolved, stream.content_hash)
    return run_id(config, resolved, stream.content_hash, tune_tasks(stream.tasks), share)


def stamped(name: str, setting: str, config: RunConfig) -> Json:
    """Return what every stored result says of itself."""
    stamp = {"id": name, "setting": setting, "buffer": config.buffer, "revision": revision()}
    return stamp | {"code": code_name(config.strategy), "config": config}


def trial(
    config: RunConfig,
    setting: str,
    share: float | None,
    selection: Selection | None,
    out: Path,
    data_root: Path | None,
) -> str:
    """Run one trial over a share of the prefix, or (share None) one whole run, unless it is there; return its id."""
    name = name_of(config, share, data_root)
    results = ResultStore(out)
    if name in results:
        return name
    if share is not None:
        value = tuning_score(config, data_root, share)
        finite = value if value > float("-inf") else None
        results.put(TrialResult(**stamped(name, setting, config), score=finite, share=share))
    else:
        experiment = make_experiment(config, shared(config, data_root))
        result = experiment.finish().model_copy(update=stamped(name, setting, config) | {"selection": selection})
        results.put(result, curves_of(experiment))
    return name


def tuning_score(config: RunConfig, data_root: Path | None, share: float = 1.0, download: bool = True) -> float:
    """Score a configuration on the prefix, and an offline bound on its validation nodes."""
    if find(config.strategy).offline:
        stream = shared(config, data_root, download=download)
        value = make_experiment(config, stream, test=False).finish().AP_validation
        return float("-inf") if value is None else float(value)
    return score(config, shared(config, data_root, prefix=True, download=download), share)


class _SweepRunner:
    """Submits, waits, and follows up: when all trials of a group are in, its runs begin."""

    def __init__(self, sweep: Sweep, pool: Executor, watch: Callable[[SweepStatus], None], until: float) -> None:
        self.sweep, self.pool, self.watch, self.until = sweep, pool, watch, until
        self.results = ResultStore(sweep.out)
        self.status = SweepStatus()
        self.open: dict[Future[str], tuple[Group, Configuration | None]] = {}
        self.selectors: dict[Group, Selector] = {}

    def begin(self) -> None:
        groups = sorted(self.sweep.groups(), key=lambda group: not find(group.strategy).offline)  # the longest first
        for group in groups:
            selector = self.selectors[group] = Selector(
                find(group.strategy), self.sweep.grid(group), self.sweep.halving
            )
            self.status.groups[group] = GroupStatus(selector.planned, seeds=self.sweep.seeds)
            self.status.planned += selector.planned + self.sweep.seeds
            self._try_all(group)

    def _try_all(self, group: Group) -> None:
        selector = self.selectors[group]
        at = group if self.sweep.select_at is None else replace(group, buffer=self.sweep.select_at)
        for configuration in selector.left:
            config = for_tuning(self.sweep.config(at, dict(configuration)))
            self._submit(group, config, configuration, selector.rungs[0])

    def _submit(
        self,
        group: Group,
        config: RunConfig,
        configuration: Configuration | None,
        share: float | None,
        selection: Selection | None = None,
    ) -> None:
        name = name_of(config, share, self.sweep.data_root)
        job: Future[str] = Future()
        if name in self.results:
            self.status.reused += 1
            job.set_result(name)
        else:
            job = self.pool.submit(trial, config, group.setting, share, selection, self.sweep.out, self.sweep.data_root)
        self.open[job] = (group, configuration)

    def follow(self) -> None:
        while self.open and time.monotonic() < self.until:
            ready, _ = wait(self.open, timeout=1.0, return_when=FIRST_COMPLETED)
            for job in ready:
                self._finished(job, *self.open.pop(job))
            self.status.running = sum(job.running() for job in self.open)
            self.watch(self.status)

    def _finished(self, job: Future[str], group: Group, configuration: Configuration | None) -> None:
        error = job.exception()
        if error is not None:
            self.status.failed.append(self._keep_failure(group, configuration, error))
            return
        result, status = self.results.get(job.result()), self.status.groups[group]
        self.status.done += 1
        if isinstance(result, RunResult):
            status.runs.append(result)
        elif isinstance(result, TrialResult) and configuration is not None:
            self._tried(group, configuration, result, status)

    def _keep_failure(self, group: Group, configuration: Configuration | None, error: BaseException) -> str:
        """Write the traceback of a failed trial or run to a file; return a line that names it."""
        if isinstance(error, OcglError):
            return f"{group.strategy} ({group.setting}, {group.buffer}): {type(error).__name__}: {error}"
        folder = self.sweep.out / FAILURES
        name = digest_of([group.strategy, group.setting, group.buffer, configuration, repr(error)])
        text = "".join(traceback.format_exception(error))
        line = f"{group.strategy} ({group.setting}, {group.buffer}): {located(error)}"
        try:
            make_folder(folder)
            write_whole(folder / f"{name}.txt", f"{group} {configuration}\n\n{text}".encode())
        except WriteError as failed:
            return f"{line}; its traceback is lost: {failed}"
        return f"{line}; traceback: {folder / f'{name}.txt'}"

    def _tried(self, group: Group, configuration: Configuration, result: TrialResult, status: GroupStatus) -> None:
        value = float("-inf") if result.score is None else result.score
        status.tried += 1
        selector = self.selectors[group]
        if value > status.best and selector.rungs[0] == 1.0:
            status.best, status.configuration = value, dict(configuration)
        if selector.take(configuration, value, result.id):
            if selector.climb():
                self._try_all(group)
            else:
                self._choose(group, selector)

    def _choose(self, group: Group, selector: Selector) -> None:
        configuration, value = selector.chosen()
        selection = Selection(
            configurations=len(selector.grid),
            trials=len(selector.names),
            tasks=self._tuned_on(group),
            score=value if value > float("-inf") else None,
            buffer=self.sweep.select_at or group.buffer,
            halving=self.sweep.halving,
            grid=None if self.sweep.grids == "paper" else self.sweep.grids,
        )
        config = self.sweep.config(group, configuration)
        name = digest_of([config.model_dump(mode="json"), selection.model_dump(), sorted(selector.names)])
        if name not in self.results:
            table = [(c, v if v > float("-inf") else None, share) for c, v, share in selector.table()]
            stamp = stamped(name, group.setting, config)
            self.results.put(ChoiceResult(**stamp, settings=configuration, selection=selection, table=table))
        for seed in range(self.sweep.seeds):
            self._submit(group, self.sweep.config(group, configuration, seed), None, None, selection)

    def _tuned_on(self, group: Group) -> int | None:
        """Return how many tasks the trials saw; an offline bound is selected on the validation nodes of all."""
        if find(group.strategy).offline:
            return None
        return tune_tasks(shared(self.sweep.config(group, {}), self.sweep.data_root).tasks)


def run_sweep(
    sweep: Sweep,
    pool: Executor,
    watch: Callable[[SweepStatus], None] = lambda _: None,
    budget_minutes: float | None = None,
) -> SweepStatus:
    """Run a sweep, or as much of it as the budget allows; call it again to continue."""
    make_folder(sweep.out)
    remove_leftovers(sweep.out)
    until = float("inf") if budget_minutes is None else time.monotonic() + 60 * budget_minutes
    runner = _SweepRunner(sweep, pool, watch, until)
    try:
        runner.begin()
        runner.follow()
    finally:
        for job in runner.open:
            job.cancel()
    return runner.status


def finished(sweep: Sweep, store: ResultStore | None = None) -> list[RunResult]:
    """Return the whole runs of a sweep that are on disk, those of one method by one version of the code.

    Args:
        sweep: the sweep.
        store: reads the results and lists what is damaged; one of the sweep's folder if None.
    """
    wanted = {(g.strategy, g.setting, g.buffer): sweep.config(g, {}) for g in sweep.groups()}
    runs = [
        run
        for run in (store or ResultStore(sweep.out)).runs
        if (run.strategy, run.setting, run.buffer) in wanted
        and (run.dataset, run.stream, run.profile) == (sweep.dataset, sweep.stream, sweep.profile)
        and run.seed < sweep.seeds
        and _is_of(run, wanted[run.strategy, run.setting, run.buffer])
    ]
    return same_code(runs, {name: code_name(name) for name in sweep.strategies})


def _is_of(run: RunResult, config: RunConfig) -> bool:
    """Return whether a run has the options of a sweep; what is selected, and the seed, may differ."""
    given, wanted = run.config.model_dump(mode="json"), config.model_dump(mode="json")
    chosen, fixed = given.pop("hyperparameters"), wanted.pop("hyperparameters")
    same = all(chosen.get(key) == value for key, value in fixed.items())
    return same and given | {"seed": 0} == wanted | {"seed": 0}
