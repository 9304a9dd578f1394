"""A run's directory: its config, its checkpoints while it runs, and its result when it has ended."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np

from ocgl.benchmark.config import RunConfig
from ocgl.benchmark.joint import JointRun
from ocgl.benchmark.placing import folder_of
from ocgl.benchmark.run import Progress, Run
from ocgl.datasets import load
from ocgl.errors import ConfigError, ResumeError
from ocgl.state import State, write_whole
from ocgl.strategies import find
from ocgl.streams import Stream
from ocgl.streams.build import build
from ocgl.types import Json

CONFIG, PLACE, CHECKPOINT, MODEL, CURVES, RESULT = (
    "config.json", "store.json", "checkpoint.safetensors", "model.safetensors", "anytime.parquet", "result.json",
)  # fmt: skip
CHECKPOINT_SECONDS = 5.0
TIMINGS = ("learn_seconds", "evaluate_seconds", "peak_rss_bytes", "store")
"""Keys of a result that differ between runs that are otherwise bit-equal."""

Watch = Callable[[Progress], None]


def stream_of(config: RunConfig, data_root: Path | None = None) -> Stream:
    """Load the dataset and lay out the stream."""
    return build(load(config.dataset, data_root), config.stream)


def run_of(config: RunConfig, stream: Stream, test: bool = True, store: str = "auto") -> Run:
    """Make the run that a config describes: online, or offline for an upper bound.

    `test=False` reads no test node; `store` is auto, memory or disk.
    """
    kind = JointRun if find(config.strategy).offline else Run
    return kind(config, stream, test, folder_of(store, stream.graph))


def execute(
    config: RunConfig,
    data_root: Path | None = None,
    out: Path | None = None,
    watch: Watch = lambda _: None,
    checkpoint_every: int | None = None,
    store: str = "auto",
) -> Json:
    """Run to the end. With `out`, keep everything there; a run found there half done is not overwritten."""
    if out is None:
        return run_of(config, stream_of(config, data_root), store=store).finish(watch)
    if (out / CONFIG).exists():
        raise ResumeError(f"{out} holds a run already: continue it with --resume, or choose another directory")
    run = run_of(config, stream_of(config, data_root), store=store)
    make_folder(out)
    write_json(out / PLACE, {"store": store})
    write_json(out / CONFIG, config.model_dump(mode="json"))
    return _finish(run, out, watch, checkpoint_every)


def resume(
    out: Path,
    data_root: Path | None = None,
    watch: Watch = lambda _: None,
    checkpoint_every: int | None = None,
    store: str | None = None,
) -> Json:
    """Continue the run in a directory; one that has ended is only read. The store lies where it lay, or as said."""
    if not (out / CONFIG).is_file():
        raise ResumeError(f"{out} holds no run: there is no {CONFIG} in it")
    if (out / RESULT).exists():
        return cast(Json, json.loads((out / RESULT).read_text()))
    try:
        config = RunConfig.model_validate_json((out / CONFIG).read_text())
        placed = json.loads((out / PLACE).read_text())["store"] if (out / PLACE).exists() else "auto"
    except (ValueError, LookupError, TypeError) as error:
        raise ResumeError(f"what {out} says of its run cannot be read: {error}") from error
    run = run_of(config, stream_of(config, data_root), store=store or placed)
    if (out / CHECKPOINT).exists():
        run.load_state(State.load(out / CHECKPOINT))
    return _finish(run, out, watch, checkpoint_every)


def _finish(run: Run, out: Path, watch: Watch, every: int | None) -> Json:
    last = time.monotonic()

    def keep(progress: Progress) -> None:
        nonlocal last
        due = progress.step % every == 0 if every else time.monotonic() - last > CHECKPOINT_SECONDS
        if due:
            run.state().save(out / CHECKPOINT)
            last = time.monotonic()
        watch(progress)

    result = run.finish(keep)
    run.learner.state().save(out / MODEL)
    write_curves(run, out / CURVES)
    write_json(out / RESULT, result)  # last: its presence says that the rest is there
    (out / CHECKPOINT).unlink(missing_ok=True)
    return result


def write_curves(run: Run, path: Path) -> None:
    """Write the anytime scores (one row per evaluated step) with the prequential counts, in percent, as Parquet."""
    import polars as pl

    steps = run.judge.steps
    tried, right = (np.cumsum(counts)[steps] for counts in run.judge.prequential)
    columns = {
        "step": steps,
        "task": run.stream.step_task[steps],
        "nodes": run.stream.cuts[steps],
        "AP_t": 100 * run.judge.anytime,
        "prequential_tried": tried,
        "prequential_right": right,
    }
    columns |= {f"task_{j}": 100 * run.judge.scores[:, j] for j in range(run.stream.tasks)}
    temporary = path.with_suffix(".part")
    pl.DataFrame(columns).write_parquet(temporary)
    temporary.replace(path)


def make_folder(folder: Path) -> None:
    """Make a folder for results, or say that it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"nothing can be kept in {folder}: {error}") from error


def write_json(path: Path, value: Json) -> None:
    """Write a result, whole or not at all."""
    write_whole(path, (json.dumps(value, indent=1) + "\n").encode())
