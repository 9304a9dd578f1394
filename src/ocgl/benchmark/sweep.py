"""The protocol over many methods: tune each on the prefix, then run the chosen configuration with every seed."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ocgl.benchmark.config import RunConfig, configure, defaults_of
from ocgl.benchmark.identity import run_id
from ocgl.benchmark.keep import run_of
from ocgl.benchmark.results import Results, stamp
from ocgl.benchmark.tuning import best, configurations, grid_of, score, tune_tasks
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
class Tally:
    """Where a sweep is."""

    done: int = 0
    reused: int = 0
    failed: list[str] = field(default_factory=list)
    planned: int = 0
    best: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """What to run on one dataset; everything finished is kept in `out` and never computed again."""

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
        return configurations(grid_of(group.strategy))


@lru_cache(maxsize=2)
def _shared(dataset: str, stream: str, data_root: Path | None, prefix: bool) -> Stream:
    """Lay out a stream once per process, for all trials that are run on it."""
    whole = build(load(dataset, data_root), StreamConfig.model_validate_json(stream))
    return whole.prefix(tune_tasks(whole.tasks)) if prefix else whole


def shared(config: RunConfig, data_root: Path | None, prefix: bool = False) -> Stream:
    """Give the stream of a config, or the part of it that tuning may see."""
    return _shared(config.dataset, config.stream.model_dump_json(), data_root, prefix)


def name_of(config: RunConfig, tune: bool, data_root: Path | None) -> str:
    """Give the id of a trial or a run."""
    stream = shared(config, data_root)
    return run_id(config, stream.content_hash, tune_tasks(stream.tasks) if tune else None)


def trial(config: RunConfig, setting: str, tune: bool, out: Path, data_root: Path | None) -> str:
    """Carry out one trial, or one whole run, unless it is there; gives its id."""
    name = name_of(config, tune, data_root)
    results = Results(out)
    if name in results:
        return name
    if tune:
        value = tuning_score(config, data_root)
        facts = {"score": value if value > float("-inf") else None, "config": config.model_dump(mode="json")}
        results.put(name, stamp(facts, name, "trial", setting, config))
    else:
        run = run_of(config, shared(config, data_root))
        results.put(name, stamp(run.finish(), name, "run", setting, config), run)
    return name


def tuning_score(config: RunConfig, data_root: Path | None) -> float:
    """Score a configuration on the prefix, which is all that it is given; an offline bound on its validation nodes."""
    if find(config.strategy).offline:
        value = run_of(config, shared(config, data_root), test=False).finish()["AP_validation"]
        return float("-inf") if value is None else float(value)
    return score(config, shared(config, data_root, prefix=True))


class _Progress:
    """Submits, waits, and follows up: when all trials of a group are in, its runs begin."""

    def __init__(self, sweep: Sweep, pool: Executor, watch: Callable[[Tally], None], until: float) -> None:
        self.sweep, self.pool, self.watch, self.until = sweep, pool, watch, until
        self.results = Results(sweep.out)
        self.tally = Tally()
        self.open: dict[Future[str], tuple[Group, Json | None]] = {}
        self.scores: dict[Group, dict[str, float]] = {}
        self.names: dict[Group, dict[str, str]] = {}

    def begin(self) -> None:
        for group in self.sweep.groups():
            standing = self._standing(group)
            self.scores[group], self.names[group] = {}, {}
            self.tally.planned += len(standing) + self.sweep.seeds
            for text in standing:
                self._submit(group, json.loads(text), 0, tune=True)

    def _standing(self, group: Group) -> list[str]:
        kind = find(group.strategy)
        return list(dict.fromkeys(json.dumps(kind.representative(s)) for s in self.sweep.grid(group)))

    def _submit(self, group: Group, settings: Json, seed: int, tune: bool) -> None:
        config = self.sweep.config(group, settings, seed)
        name = name_of(config, tune, self.sweep.data_root)
        job: Future[str] = Future()
        if name in self.results:
            self.tally.reused += 1
            job.set_result(name)
            self.open[job] = (group, settings if tune else None)
            return
        job = self.pool.submit(trial, config, group.setting, tune, self.sweep.out, self.sweep.data_root)
        self.open[job] = (group, settings if tune else None)

    def follow(self) -> None:
        while self.open and time.monotonic() < self.until:
            ready, _ = wait(self.open, timeout=1.0, return_when=FIRST_COMPLETED)
            for job in ready:
                self._finished(job, *self.open.pop(job))
            self.watch(self.tally)

    def _finished(self, job: Future[str], group: Group, settings: Json | None) -> None:
        error = job.exception()
        if error is not None:
            self.tally.failed.append(f"{group}: {error!r}")
            return
        self.tally.done += 1
        if settings is None:
            return
        value = self.results.get(job.result())["score"]
        self.scores[group][json.dumps(settings)] = float("-inf") if value is None else value
        if len(self.scores[group]) == len(self._standing(group)):
            self._choose(group)

    def _choose(self, group: Group) -> None:
        kind = find(group.strategy)
        table = [(s, self.scores[group][json.dumps(kind.representative(s))]) for s in self.sweep.grid(group)]
        settings, value = best(table)
        self.tally.best[f"{group.strategy} ({group.setting}, {group.buffer})"] = f"{value:.2f} with {settings}"
        chosen = {"group": group.__dict__, "settings": settings, "score": value, "table": table}
        path = self.sweep.out / f"chosen-{group.strategy}-{group.setting}-{group.buffer.rstrip('%')}.json"
        path.write_text(json.dumps(chosen, indent=1) + "\n")
        for seed in range(self.sweep.seeds):
            self._submit(group, settings, seed, tune=False)


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


def finished(sweep: Sweep) -> Iterator[Json]:
    """Give the whole runs of a sweep that are on disk."""
    wanted = {(g.strategy, g.setting, g.buffer) for g in sweep.groups()}
    for result in Results(sweep.out):
        if result["kind"] == "run" and (result["strategy"], result["setting"], result["buffer"]) in wanted:
            yield result
