"""The protocol over many methods: tune each on the prefix, then run the chosen configuration with every seed."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ocgl.code import code_name
from ocgl.errors import UnknownNameError
from ocgl.experiments.config import RunConfig, configure, defaults_of
from ocgl.experiments.failures import keep_failure
from ocgl.experiments.identity import digest_of
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import ChoiceResult, RunResult, Selection, TrialResult, same_code
from ocgl.experiments.trials import for_tuning, name_of, shared, stamped, trial
from ocgl.experiments.tuning import (
    GRIDS,
    Configuration,
    Selector,
    configurations,
    tune_tasks,
)
from ocgl.files import make_folder, remove_leftovers
from ocgl.strategies import find
from ocgl.strategies._core.registry import keys
from ocgl.types import Json

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
            where = f"{group.strategy} ({group.setting}, {group.buffer})"
            self.status.failed.append(keep_failure(self.sweep.out, where, configuration, error))
            return
        result, status = self.results.get(job.result()), self.status.groups[group]
        self.status.done += 1
        if isinstance(result, RunResult):
            status.runs.append(result)
        elif isinstance(result, TrialResult) and configuration is not None:
            self._tried(group, configuration, result, status)

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
