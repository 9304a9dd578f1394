"""The protocol over many methods: tune each on the prefix, then run the chosen configuration with every seed."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from ocgl.benchmark.config import RunConfig, configure, defaults_of
from ocgl.benchmark.identity import digest_of, run_id
from ocgl.benchmark.keep import run_of
from ocgl.benchmark.results import Results, of_one_code, stamp
from ocgl.benchmark.tuning import GRIDS, RUNGS, best, configurations, grid_of, kept, score, tune_tasks
from ocgl.datasets import load
from ocgl.errors import UnknownNameError
from ocgl.strategies import find
from ocgl.strategies.registry import keys
from ocgl.streams import Stream, StreamConfig
from ocgl.streams.build import build
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
class Standing:
    """How far one group is."""

    trials: int
    tried: int = 0
    best: float = float("-inf")
    settings: str = ""
    seeds: int = 0
    runs: list[Json] = field(default_factory=list)


@dataclass
class Tally:
    """Where a sweep is."""

    done: int = 0
    reused: int = 0
    running: int = 0
    failed: list[str] = field(default_factory=list)
    planned: int = 0
    groups: dict[Group, Standing] = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """What to run on one dataset; everything finished is kept in `out` and never computed again.

    `select_at` takes for every buffer size the configuration selected with that one; `halving` drops hopeless
    configurations after a part of the prefix; `grids` is `paper`, or `coarse` for a quick look. All is said in the
    results.
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
    overrides: tuple[str, ...] = ()
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

    def config(self, group: Group, hyperparameters: Json, seed: int = 0) -> RunConfig:
        """Give the config of one run."""
        special = dict(SETTINGS[group.setting])
        if "batch_size" in special:
            special["batch_size"] *= defaults_of(self.dataset).batch_size
        values = special | hyperparameters | {"buffer": group.buffer}
        text = [f"{key}={json.dumps(value)}" for key, value in values.items()]
        every = {"eval_every": self.eval_every}
        return configure(
            self.dataset, group.strategy, self.stream, self.profile, seed, (*text, *self.overrides), **every
        )

    def grid(self, group: Group) -> list[Json]:
        """List the configurations of a group, in the order in which ties are broken."""
        if self.grids not in GRIDS:
            raise UnknownNameError("grid", self.grids, GRIDS)
        return configurations(GRIDS[self.grids](grid_of(group.strategy)))


@lru_cache(maxsize=2)
def _shared(dataset: str, stream: str, data_root: Path | None, prefix: bool) -> Stream:
    """Lay out a stream once per process, for all trials that are run on it."""
    whole = build(load(dataset, data_root), StreamConfig.model_validate_json(stream))
    return whole.prefix(tune_tasks(whole.tasks)) if prefix else whole


def shared(config: RunConfig, data_root: Path | None, prefix: bool = False) -> Stream:
    """Give the stream of a config, or the part of it that tuning may see."""
    return _shared(config.dataset, config.stream.model_dump_json(), data_root, prefix)


def for_tuning(config: RunConfig) -> RunConfig:
    """Leave out what a trial does not use: how often to evaluate, estimates, and an offline bound's curve."""
    offline = {"curve": False} if find(config.strategy).offline else {}
    settings = config.hyperparameters | offline
    return config.model_copy(update={"eval_every": 1, "eval_cap": None, "hyperparameters": settings})


def name_of(config: RunConfig, share: float | None, data_root: Path | None) -> str:
    """Give the id of a run, or of a trial over a share of the prefix."""
    stream = shared(config, data_root)
    if share is None:
        return run_id(config, stream.content_hash)
    return run_id(config, stream.content_hash, tune_tasks(stream.tasks), share)


def trial(
    config: RunConfig, setting: str, share: float | None, selection: Json | None, out: Path, data_root: Path | None
) -> str:
    """Carry out one trial over a share of the prefix, or (share None) one whole run, unless it is there."""
    name = name_of(config, share, data_root)
    results = Results(out)
    if name in results:
        return name
    if share is not None:
        value = tuning_score(config, data_root, share)
        facts: Json = {"score": value if value > float("-inf") else None, "share": share}
        facts["config"] = config.model_dump(mode="json")
        results.put(name, stamp(facts, name, "trial", setting, config))
    else:
        run = run_of(config, shared(config, data_root))
        results.put(name, stamp(run.finish(), name, "run", setting, config, selection), run)
    return name


def tuning_score(config: RunConfig, data_root: Path | None, share: float = 1.0) -> float:
    """Score a configuration on the prefix, which is all that it is given; an offline bound on its validation nodes."""
    if find(config.strategy).offline:
        value = run_of(config, shared(config, data_root), test=False).finish()["AP_validation"]
        return float("-inf") if value is None else float(value)
    return score(config, shared(config, data_root, prefix=True), share)


class _Selection:
    """The trials of one group: all configurations over the prefix, or fewer and fewer over more and more of it."""

    def __init__(self, sweep: Sweep, group: Group) -> None:
        self.kind = find(group.strategy)
        self.grid = sweep.grid(group)
        self.left = list(dict.fromkeys(map(self._standing, self.grid)))
        self.rungs = list(RUNGS) if sweep.halving and not self.kind.offline else [1.0]
        self.scores: dict[str, float] = {}
        self.names: list[str] = []
        self.reached: dict[str, tuple[float, float]] = {}

    def _standing(self, settings: Json) -> str:
        return json.dumps(self.kind.representative(settings))

    @property
    def planned(self) -> int:
        total, count = 0, len(self.left)
        for _ in self.rungs:
            total, count = total + count, -(-count // 3)
        return total

    def take(self, text: str, value: float, name: str) -> bool:
        """Note a score; tells whether it was the last that this rung waited for."""
        self.scores[text] = value
        self.reached[text] = (self.rungs[0], value)
        self.names.append(name)
        return len(self.scores) == len(self.left)

    def climb(self) -> bool:
        """Go to the next rung with the best third, if there is one."""
        if len(self.rungs) == 1:
            return False
        in_order = {text: self.scores[text] for text in self.left}
        self.rungs, self.left, self.scores = self.rungs[1:], kept(in_order), {}
        return True

    def table(self) -> list[tuple[Json, float, float]]:
        """List every configuration of the grid with its score and the share of the prefix it was streamed over."""
        rows = [(settings, *self.reached[self._standing(settings)]) for settings in self.grid]
        return [(settings, value, share) for settings, share, value in rows]

    def chosen(self) -> tuple[Json, float]:
        return best([(settings, value) for settings, value, share in self.table() if share == 1.0])


class _Progress:
    """Submits, waits, and follows up: when all trials of a group are in, its runs begin."""

    def __init__(self, sweep: Sweep, pool: Executor, watch: Callable[[Tally], None], until: float) -> None:
        self.sweep, self.pool, self.watch, self.until = sweep, pool, watch, until
        self.results = Results(sweep.out)
        self.tally = Tally()
        self.open: dict[Future[str], tuple[Group, str | None]] = {}
        self.selections: dict[Group, _Selection] = {}

    def begin(self) -> None:
        groups = sorted(self.sweep.groups(), key=lambda group: not find(group.strategy).offline)  # the longest first
        for group in groups:
            selection = self.selections[group] = _Selection(self.sweep, group)
            self.tally.groups[group] = Standing(selection.planned, seeds=self.sweep.seeds)
            self.tally.planned += selection.planned + self.sweep.seeds
            self._try_all(group)

    def _try_all(self, group: Group) -> None:
        selection = self.selections[group]
        at = group if self.sweep.select_at is None else replace(group, buffer=self.sweep.select_at)
        for text in selection.left:
            self._submit(group, for_tuning(self.sweep.config(at, json.loads(text))), text, selection.rungs[0])

    def _submit(
        self, group: Group, config: RunConfig, text: str | None, share: float | None, selection: Json | None = None
    ) -> None:
        name = name_of(config, share, self.sweep.data_root)
        job: Future[str] = Future()
        if name in self.results:
            self.tally.reused += 1
            job.set_result(name)
        else:
            job = self.pool.submit(trial, config, group.setting, share, selection, self.sweep.out, self.sweep.data_root)
        self.open[job] = (group, text)

    def follow(self) -> None:
        while self.open and time.monotonic() < self.until:
            ready, _ = wait(self.open, timeout=1.0, return_when=FIRST_COMPLETED)
            for job in ready:
                self._finished(job, *self.open.pop(job))
            self.tally.running = sum(job.running() for job in self.open)
            self.watch(self.tally)

    def _finished(self, job: Future[str], group: Group, text: str | None) -> None:
        error = job.exception()
        if error is not None:
            self.tally.failed.append(f"{group}: {error!r}")
            return
        self.tally.done += 1
        result, standing = self.results.get(job.result()), self.tally.groups[group]
        if text is None:
            standing.runs.append({key: result[key] for key in ("AAP", "AP")})
            return
        value = float("-inf") if result["score"] is None else result["score"]
        standing.tried += 1
        selection = self.selections[group]
        if value > standing.best and selection.rungs[0] == 1.0:
            standing.best, standing.settings = value, text
        if selection.take(text, value, result["id"]):
            if selection.climb():
                self._try_all(group)
            else:
                self._choose(group, selection)

    def _choose(self, group: Group, selection: _Selection) -> None:
        settings, value = selection.chosen()
        at = self.sweep.select_at or group.buffer
        how: Json = {"configurations": len(selection.grid), "trials": len(selection.names)}
        how |= {"tasks": self._tuned_on(group), "score": value, "buffer": at, "halving": self.sweep.halving}
        if self.sweep.grids != "paper":
            how["grid"] = self.sweep.grids
        config = self.sweep.config(group, settings)
        facts: Json = {"settings": settings, "selection": how, "config": config.model_dump(mode="json")}
        facts["table"] = [[s, v if v > float("-inf") else None, share] for s, v, share in selection.table()]
        name = digest_of([facts["config"], how, sorted(selection.names)])
        if name not in self.results:
            self.results.put(name, stamp(facts, name, "choice", group.setting, config))
        for seed in range(self.sweep.seeds):
            self._submit(group, self.sweep.config(group, settings, seed), None, None, how)

    def _tuned_on(self, group: Group) -> int | None:
        """Say how many tasks the trials saw; an offline bound is selected on the validation nodes of all."""
        if find(group.strategy).offline:
            return None
        return tune_tasks(shared(self.sweep.config(group, {}), self.sweep.data_root).tasks)


def carry_out(
    sweep: Sweep,
    pool: Executor,
    watch: Callable[[Tally], None] = lambda _: None,
    budget_minutes: float | None = None,
) -> Tally:
    """Carry out a sweep, or as much of it as the budget allows; call it again to continue."""
    sweep.out.mkdir(parents=True, exist_ok=True)
    until = float("inf") if budget_minutes is None else time.monotonic() + 60 * budget_minutes
    progress = _Progress(sweep, pool, watch, until)
    try:
        progress.begin()
        progress.follow()
    finally:
        for job in progress.open:
            job.cancel()
    return progress.tally


def finished(sweep: Sweep) -> list[Json]:
    """Give the whole runs of a sweep that are on disk, those of one method by one code."""
    return of_one_code(_on_disk(sweep))


def _on_disk(sweep: Sweep) -> Iterator[Json]:
    wanted = {(g.strategy, g.setting, g.buffer) for g in sweep.groups()}
    for result in Results(sweep.out):
        if result["kind"] == "run" and (result["strategy"], result["setting"], result["buffer"]) in wanted:
            same = ("dataset", "stream", "profile")
            if all(result[key] == getattr(sweep, key) for key in same) and result["seed"] < sweep.seeds:
                yield result
