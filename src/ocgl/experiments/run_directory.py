"""The directory of a run: what it is, its checkpoints while it runs, and its result when it has ended."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from ocgl import files
from ocgl.checked import parse_json, read_bytes, read_sealed, sealed, sha256_of
from ocgl.code import code_files
from ocgl.errors import ConfigError, DamagedFileError, ResultError, ResumeError, StateError, UntrustedError
from ocgl.experiments.config import RunConfig
from ocgl.experiments.consistency import contradictions_of_curve
from ocgl.experiments.experiment import Callback, Experiment, Progress
from ocgl.experiments.parsing import parse_run
from ocgl.experiments.result_store import CURVES, RESULT, read_curves
from ocgl.experiments.results import RunResult
from ocgl.parquet import parquet_bytes
from ocgl.state import State
from ocgl.validation import explained

if TYPE_CHECKING:
    import polars as pl

CONFIG, CHECKPOINT, MODEL = "config.json", "checkpoint.safetensors", "model.safetensors"
CHECKPOINT_SECONDS = 5.0


class RunDescription(BaseModel):
    """What a run is, as its folder says; a resumed run must be the same.

    Attributes:
        config: the config.
        store: where the graph is stored.
        hyperparameters: all hyperparameters of the strategy.
        stream_hash: content hash of the stream.
        code: hash of each file that can move a number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[2] = 2
    config: RunConfig
    store: str
    hyperparameters: dict[str, Any]
    stream_hash: str
    code: dict[str, str]


class RunDirectory:
    """Keeps a run in a folder, so that it can be continued after a crash.

    Args:
        folder: the folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def refuse_another(self) -> None:
        """Raise if the folder holds a run already."""
        if (self.folder / CONFIG).exists():
            raise ResumeError(f"{self.folder} holds a run already: continue it with --resume, or choose another folder")
        left = [name for name in (CHECKPOINT, RESULT) if os.path.lexists(self.folder / name)]
        if left:
            raise ResumeError(f"{self.folder} holds {left[0]} of another run; choose another folder")

    def begin(self, experiment: Experiment, storage: str) -> None:
        """Write what the run is."""
        files.make_folder(self.folder)
        files.write_json(self.folder / CONFIG, sealed(describe(experiment, storage).model_dump(mode="json")))

    def read(self, trust: bool = False) -> RunDescription:
        """Return what the folder says of its run.

        Args:
            trust: whether a strategy file that the folder names may be executed.
        """
        path = self.folder / CONFIG
        if not path.is_file():
            raise ResumeError(f"{self.folder} holds no run: there is no {CONFIG} in it")
        values = read_sealed(path)
        try:
            found = RunDescription.model_validate(values)
        except (ValidationError, ConfigError) as error:
            text = explained(error) if isinstance(error, ValidationError) else error
            raise DamagedFileError(path, f"it describes no run: {text}") from error
        for spec in (found.config.strategy, found.config.network or ""):
            if ":" in spec and not trust:
                file = spec.rpartition(":")[0]
                raise UntrustedError(f"{self.folder} would execute the file {file}; if you trust it, add --trust")
        return found

    @property
    def finished(self) -> RunResult | None:
        """The result, if the run has ended; checked against the config and the curve of the folder."""
        path = self.folder / RESULT
        if not path.exists() and not path.is_symlink():
            return None
        result = parse_run(read_bytes(path), path)
        if result.config != self.read(trust=True).config:
            raise ResultError(path, f"it is of another run than {CONFIG} describes")
        wrong = contradictions_of_curve(result, self.curves())
        if wrong:
            raise ResultError(self.folder / CURVES, wrong[0])
        return result

    def curves(self) -> "pl.DataFrame":
        """Return the anytime scores of a finished run, after comparing their file with its checksum."""
        path = self.folder / RESULT
        return read_curves(self.folder, parse_json(read_bytes(path), path))

    def restore(self, experiment: Experiment, description: RunDescription) -> None:
        """Continue from the last checkpoint, if there is one; refuse what is not the run that was begun."""
        now = describe(experiment, description.store)
        changed = [name for name in now.code | description.code if now.code.get(name) != description.code.get(name)]
        if changed:
            own = f" ({description.config.strategy.rpartition(':')[0]})" if "strategy.py" in changed else ""
            text = f"the code has changed since the run began: {', '.join(sorted(changed)[:5])}{own}"
            raise ResumeError(f"{text}; restore it, or start the run again in another folder")
        if now.stream_hash != description.stream_hash:
            data = description.config.dataset
            raise ResumeError(f"the stream of {data} differs from the one the run began with: the data has changed")
        if now.hyperparameters != description.hyperparameters:
            raise ResumeError(f"{self.folder / CONFIG}: its hyperparameters are not those of its config")
        path = self.folder / CHECKPOINT
        if not path.exists() and not path.is_symlink():
            return
        try:
            state = State.load(path)
        except DamagedFileError as error:
            raise DamagedFileError(path, f"{error.why}; delete it to start the run from its beginning") from error
        try:
            _check_identity(state, experiment)
            experiment.load_state(state)
        except (StateError, LookupError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, ResumeError):
                raise
            raise ResumeError(f"{path} does not fit the run that {CONFIG} describes: {error}") from error

    def finish(self, experiment: Experiment, callbacks: Iterable[Callback], every: int | None) -> RunResult:
        """Run to the end with a checkpoint every so many steps (default: every 5 seconds); write the result."""
        if every is not None and every < 1:
            raise ConfigError(f"checkpoint_every must be at least 1, not {every}")
        last = time.monotonic()
        files.remove_leftovers(self.folder)

        def checkpoint(progress: Progress) -> None:
            nonlocal last
            due = progress.step % every == 0 if every else time.monotonic() - last > CHECKPOINT_SECONDS
            if due:
                experiment.state().save(self.folder / CHECKPOINT)
                last = time.monotonic()

        result = experiment.finish([checkpoint, *callbacks])
        experiment.learner.state().save(self.folder / MODEL)
        data = parquet_bytes(curves_of(experiment))
        files.write_whole(self.folder / CURVES, data)
        # last: its presence says that the rest is there
        files.write_json(self.folder / RESULT, result.sealed({CURVES: sha256_of(data)}))
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        return result


def describe(experiment: Experiment, storage: str) -> RunDescription:
    """Return what a run is."""
    strategy = experiment.strategy
    try:
        code = code_files(experiment.config.strategy, experiment.config.network)
    except (ConfigError, OSError):  # a class of no file can be run, but not found again
        code = {}
    return RunDescription(
        config=experiment.config,
        store=storage,
        hyperparameters=strategy.identity()["hyperparameters"],
        stream_hash=experiment.stream.content_hash,
        code=code,
    )


def _check_identity(state: State, experiment: Experiment) -> None:
    """Raise `ResumeError` if a checkpoint is of another strategy, other hyperparameters, another seed or other code."""
    given = state.part("learner").part("strategy").facts.get("identity", {})
    own = experiment.strategy.identity()
    different = [key for key in own if given.get(key) != own[key]]
    if different:
        shown = ", ".join(f"{key} {given.get(key)!r} instead of {own[key]!r}" for key in different)
        raise ResumeError(f"the checkpoint is of another run: {shown[:400]}")


def curves_of(experiment: Experiment) -> "pl.DataFrame":
    """Return the anytime scores (one row per evaluated step) with the prequential counts, in percent."""
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
    return pl.DataFrame(columns)
