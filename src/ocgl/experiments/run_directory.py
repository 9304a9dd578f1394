"""The directory of a run: its config, its checkpoints while it runs, and its result when it has ended."""

import json
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ocgl.errors import ConfigError, ResumeError
from ocgl.experiments.config import RunConfig
from ocgl.experiments.experiment import Callback, Experiment, Progress
from ocgl.experiments.result_store import CURVES, RESULT
from ocgl.experiments.results import RunResult, parse_run
from ocgl.state import State, write_whole
from ocgl.types import Json

CONFIG, STORAGE, CHECKPOINT, MODEL = "config.json", "store.json", "checkpoint.safetensors", "model.safetensors"
CHECKPOINT_SECONDS = 5.0


class RunDirectory:
    """Keeps a run in a folder, so that it can be continued after a crash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, config: RunConfig, storage: str) -> None:
        """Write what the run is; a run that is there already is not overwritten."""
        make_folder(self.folder)
        write_json(self.folder / STORAGE, {"store": storage})
        write_json(self.folder / CONFIG, config.model_dump(mode="json"))

    def refuse_another(self) -> None:
        """Raise if the folder holds a run already."""
        if (self.folder / CONFIG).exists():
            raise ResumeError(f"{self.folder} holds a run already: continue it with --resume, or choose another folder")

    @property
    def finished(self) -> RunResult | None:
        """The result, if the run has ended."""
        path = self.folder / RESULT
        return parse_run(path.read_text(), str(path)) if path.exists() else None

    def read(self) -> tuple[RunConfig, str]:
        """Return the config of the run and where its store lies."""
        if not (self.folder / CONFIG).is_file():
            raise ResumeError(f"{self.folder} holds no run: there is no {CONFIG} in it")
        try:
            config = RunConfig.model_validate_json((self.folder / CONFIG).read_text())
            place = self.folder / STORAGE
            return config, json.loads(place.read_text())["store"] if place.exists() else "auto"
        except (ValueError, LookupError, TypeError) as error:
            raise ResumeError(f"what {self.folder} says of its run cannot be read: {error}") from error

    def restore(self, experiment: Experiment) -> None:
        """Continue from the last checkpoint, if there is one."""
        if (self.folder / CHECKPOINT).exists():
            experiment.load_state(State.load(self.folder / CHECKPOINT))

    def finish(self, experiment: Experiment, callbacks: Iterable[Callback], every: int | None) -> RunResult:
        """Run to the end with a checkpoint every so many steps (default: every 5 seconds); write the result."""
        last = time.monotonic()

        def checkpoint(progress: Progress) -> None:
            nonlocal last
            due = progress.step % every == 0 if every else time.monotonic() - last > CHECKPOINT_SECONDS
            if due:
                experiment.state().save(self.folder / CHECKPOINT)
                last = time.monotonic()

        result = experiment.finish([checkpoint, *callbacks])
        experiment.learner.state().save(self.folder / MODEL)
        write_curves(experiment, self.folder / CURVES)
        write_json(self.folder / RESULT, result.dump())  # last: its presence says that the rest is there
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        return result


def write_curves(experiment: Experiment, path: Path) -> None:
    """Write the anytime scores (one row per evaluated step) with the prequential counts, in percent, as Parquet."""
    import polars as pl

    evaluator, stream = experiment.evaluator, experiment.stream
    steps = evaluator.steps
    tried, right = (np.cumsum(counts)[steps] for counts in evaluator.prequential)
    columns = {
        "step": steps,
        "task": stream.step_task[steps],
        "nodes": stream.cuts[steps],
        "AP_t": 100 * evaluator.anytime,
        "prequential_tried": tried,
        "prequential_right": right,
    }
    columns |= {f"task_{j}": 100 * evaluator.scores[:, j] for j in range(stream.tasks)}
    temporary = path.with_suffix(".part")
    pl.DataFrame(columns).write_parquet(temporary)
    temporary.replace(path)


def make_folder(folder: Path) -> None:
    """Make a folder for results, or raise `ConfigError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"nothing can be kept in {folder}: {error}") from error


def write_json(path: Path, value: Json) -> None:
    """Write a JSON file, whole or not at all."""
    write_whole(path, (json.dumps(value, indent=1) + "\n").encode())
