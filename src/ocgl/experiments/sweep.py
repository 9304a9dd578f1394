"""The protocol over many methods: tune each on the prefix, then run the chosen configuration with every seed."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ocgl.errors import UnknownNameError
from ocgl.experiments.config import TUNE_SEEDS, RunConfig, configure, defaults_of
from ocgl.experiments.failures import keep_failure
from ocgl.experiments.identity import digest_of
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import ChoiceResult, RunResult, Selection, TrialResult, TriedConfiguration, same_code
from ocgl.experiments.selection import MOST_TIES, Selector, Tried, Wanted
from ocgl.experiments.trials import for_tuning, name_of, shared, stamped, trial
from ocgl.experiments.tuning import GRIDS, configurations, tune_tasks
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
    tied_runs: list[RunResult] = field(default_factory=list)


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
        profile: `paper`, `textbook` or `first-reading`.
        seeds: runs of each chosen configuration.
        buffers: buffer sizes; the dataset's own if empty.
        eval_every: evaluate runs after every K-th batch.
        overrides: values by key for every run.
        data_root: folder of the datasets.
        store: where runs have their graph: `memory`, `disk`, `auto`, or the address of a store on Redis. Trials on the
            prefix have it in memory.
        select_at: use for every buffer size the configuration selected with this one.
        halving: drop hopeless configurations after a part of the prefix.
        grids: `paper`, `half` (every second value), or `coarse` for a quick overview.
        tune_seeds: seeds to select configurations with, in two stages if more than one; None for the profile's own.
        ties: most configurations tied with the selected one that are run on the whole stream as well.
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
    store: str = "auto"
    select_at: str | None = None
    halving: bool = False
    grids: str = "paper"
    tune_seeds: int | None = None
    ties: int = MOST_TIES

    @property
    def seeds_of_tuning(self) -> int:
        """Seeds that configurations are selected with."""
        return TUNE_SEEDS.get(self.profile, 1) if self.tune_seeds is None else self.tune_seeds

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

    def tuned_as(self, group: Group) -> Group:
        """Return the group whose trials select the configuration of a group: with the buffer of `select_at`, if any."""
        return group if self.select_at is None else replace(group, buffer=self.select_at)

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
        self.open: dict[Future[str], tuple[Group, Wanted | Json]] = {}
        self.selectors: dict[Group, Selector] = {}
        self.tied: list[tuple[Group, RunConfig, Json, Selection]] = []

    def begin(self) -> None:
        groups = sorted(self.sweep.groups(), key=lambda group: not find(group.strategy).offline)  # the longest first
        for group in groups:
            selector = self.selectors[group] = Selector(
                find(group.strategy), self.sweep.grid(group), self.sweep.halving, self.sweep.seeds_of_tuning
            )
            self.status.groups[group] = GroupStatus(selector.planned, seeds=self.sweep.seeds)
            self.status.planned += selector.planned + self.sweep.seeds
            self._try(group, selector.begin())

    def _try(self, group: Group, trials: list[Wanted]) -> None:
        at = self.sweep.tuned_as(group)
        for wanted in trials:
            config = for_tuning(self.sweep.config(at, dict(wanted.configuration), wanted.seed))
            self._submit(group, config, wanted, wanted.share)

    def _submit(
        self,
        group: Group,
        config: RunConfig,
        what: Wanted | Json,
        share: float | None,
        selection: Selection | None = None,
    ) -> None:
        name = name_of(config, share, self.sweep.data_root)
        job: Future[str] = Future()
        if name in self.results:
            self.status.reused += 1
            job.set_result(name)
        else:
            sweep = self.sweep
            where = sweep.out, sweep.data_root, sweep.store
            job = self.pool.submit(trial, config, group.setting, share, selection, *where)
        self.open[job] = (group, what)

    def follow(self) -> None:
        while (self.open or self.tied) and time.monotonic() < self.until:
            if not self.open:  # tied configurations come last: the table is complete without them
                for group, config, configuration, how in self.tied:
                    self._submit(group, config, configuration, None, how)
                self.tied.clear()
            ready, _ = wait(self.open, timeout=1.0, return_when=FIRST_COMPLETED)
            for job in ready:
                self._finished(job, *self.open.pop(job))
            self.status.running = sum(job.running() for job in self.open)
            self.watch(self.status)

    def _finished(self, job: Future[str], group: Group, what: Wanted | Json) -> None:
        error = job.exception()
        if error is not None:
            where = f"{group.strategy} ({group.setting}, {group.buffer})"
            tried = what.configuration if isinstance(what, Wanted) else tuple(what.items())
            self.status.failed.append(keep_failure(self.sweep.out, where, tried, error))
            return
        result, status = self.results.get(job.result()), self.status.groups[group]
        self.status.done += 1
        if isinstance(result, RunResult):
            (status.runs if what == status.configuration else status.tied_runs).append(result)
        elif isinstance(result, TrialResult) and isinstance(what, Wanted):
            self._tried(group, what, result, status)

    def _tried(self, group: Group, wanted: Wanted, result: TrialResult, status: GroupStatus) -> None:
        value = float("-inf") if result.score is None else result.score
        status.tried += 1
        selector = self.selectors[group]
        further = selector.take(wanted, value, result.id)
        if value > status.best and wanted.share == 1.0 and wanted.seed == 0:
            status.best, status.configuration = value, dict(wanted.configuration)
        self._try(group, further)
        if selector.done:
            self._choose(group, selector, status)

    def _choose(self, group: Group, selector: Selector, status: GroupStatus) -> None:
        chosen, tied = selector.chosen(), selector.tied()
        selection = Selection(
            configurations=len(selector.grid),
            trials=len(selector.names),
            tasks=self._tuned_on(group),
            score=_finite(chosen.mean),
            buffer=self.sweep.select_at or group.buffer,
            halving=self.sweep.halving,
            grid=None if self.sweep.grids == "paper" else self.sweep.grids,
            seeds=self.sweep.seeds_of_tuning,
            error=chosen.error,
            ties=len(tied),
        )
        run_too = tied[: self.sweep.ties]
        config = self.sweep.config(group, chosen.configuration)
        name = digest_of([config.model_dump(mode="json"), selection.model_dump(), sorted(selector.names)])
        if name not in self.results:
            stamp = stamped(name, group.setting, config) | {"settings": chosen.configuration, "selection": selection}
            others = [each.configuration for each in run_too]
            near = [each.configuration for each in (chosen, *tied)]
            table = [_row(each, each.configuration in near) for each in selector.table()]
            self.results.put(ChoiceResult(**stamp, ties=others, table=table))
        status.best, status.configuration = chosen.mean, chosen.configuration
        self.status.planned += len(run_too) * self.sweep.seeds
        for each in (chosen, *run_too):
            scored = {"score": _finite(each.mean), "error": each.error, "tied": each is not chosen}
            how = selection.model_copy(update=scored)
            for seed in range(self.sweep.seeds):
                config = self.sweep.config(group, each.configuration, seed)
                if each is chosen:
                    self._submit(group, config, each.configuration, None, how)
                else:
                    self.tied.append((group, config, each.configuration, how))

    def _tuned_on(self, group: Group) -> int | None:
        """Return how many tasks the trials saw; an offline bound is selected on the validation nodes of all."""
        if find(group.strategy).offline:
            return None
        return tune_tasks(shared(self.sweep.config(group, {}), self.sweep.data_root).tasks)


def _finite(value: float) -> float | None:
    return value if value > float("-inf") else None


def _row(tried: Tried, tied: bool) -> TriedConfiguration:
    return TriedConfiguration(
        configuration=tried.configuration,
        scores=tuple(map(_finite, tried.scores)),
        mean=_finite(tried.mean),
        error=tried.error,
        share=tried.share,
        tied=tied,
    )


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
        and not (run.selection is not None and run.selection.tied)
        and _is_of(run, wanted[run.strategy, run.setting, run.buffer])
    ]
    return same_code(runs, {c.method: c.code for c in wanted.values()})


def _is_of(run: RunResult, config: RunConfig) -> bool:
    """Return whether a run has the options of a sweep; what is selected, and the seed, may differ."""
    given, wanted = run.config.model_dump(mode="json"), config.model_dump(mode="json")
    chosen, fixed = given.pop("hyperparameters"), wanted.pop("hyperparameters")
    same = run.config.method == config.method and all(chosen.get(key) == value for key, value in fixed.items())
    return same and given | {"seed": 0} == wanted | {"seed": 0}
