import sys
import time
from functools import partial
from pathlib import Path

import pytest

from ocgl.errors import MissingExtraError, UnknownNameError
from ocgl.experiments import configure, make_experiment, stream_of
from ocgl.experiments.loggers import FIGURES, Logger, final, follow, log_stored, make_logger, options_of, title_of
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import RunResult
from ocgl.experiments.run_directory import curves_of
from ocgl.types import Json
from tests.helpers import options

CONFIG = configure("digits", "linear", overrides=options("batch_size=120", "lr=0.01"))
NAME = "digits-class-linear-paper-seed0"


def logged(logger: Logger) -> RunResult:
    """Follow a small run with a logger; return its result."""
    run = make_experiment(CONFIG, stream_of(CONFIG))
    logger.begin(title_of(CONFIG), options_of(CONFIG))
    result = run.finish([partial(follow, logger)])
    logger.end(final(result))
    return result


def test_tensorboard_holds_the_curve_and_the_figures(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = logged(make_logger(f"tensorboard:{tmp_path}"))
    events = EventAccumulator(str(tmp_path / NAME))
    events.Reload()
    curve = events.Scalars("AP_t")
    assert [event.step for event in curve] == list(range(1, 11))
    assert events.Scalars("final/AP")[0].value == pytest.approx(result.AP)


def test_mlflow_holds_the_curve_the_options_and_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more than mlflow-skinny brings
    result = logged(make_logger(f"mlflow:file://{tmp_path / 'store'}"))
    client = mlflow.MlflowClient(f"file://{tmp_path / 'store'}")
    experiment = client.get_experiment_by_name("ocgl")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == NAME and run.data.params["lr"] == "0.01"
    assert run.data.metrics["final_AAP"] == pytest.approx(result.AAP)
    assert len(client.get_metric_history(run.info.run_id, "AP_t")) == 10


def test_wandb_keeps_an_offline_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    logged(make_logger("wandb:trial"))
    wandb.teardown()  # the process that writes the file ends with all of it written
    (written,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    deadline = time.monotonic() + 30  # a process of its own writes the file, and may be behind
    while b"AP_t" not in written.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert b"AP_t" in written.read_bytes() and NAME.encode() in written.read_bytes()


class Heard:
    def __init__(self) -> None:
        self.steps: list[int] = []
        self.figures: dict[str, float] = {}

    def begin(self, name: str, options: Json) -> None:
        self.name = name

    def log(self, step: int, figures: dict[str, float]) -> None:
        self.steps.append(step)

    def end(self, figures: dict[str, float]) -> None:
        self.figures = figures


def test_a_stored_run_is_logged_as_it_was(tmp_path: Path) -> None:
    run = make_experiment(CONFIG, stream_of(CONFIG))
    results = ResultStore(tmp_path)
    result = run.finish().model_copy(update={"id": "abc"})
    results.put(result, curves_of(run))
    heard = Heard()
    log_stored(heard, results, result)
    assert heard.name == f"{NAME}-abc" and heard.steps == list(range(1, 11))
    assert heard.figures["AP"] == result.AP


def test_an_estimate_is_logged_as_one_with_the_ends_of_its_interval() -> None:
    config = configure("digits", "linear", overrides=options("batch_size=120"), eval_cap=1)
    result = make_experiment(config, stream_of(config)).finish()
    figures = final(result)
    assert (figures["AAP_low"], figures["AAP_high"]) == result.evaluation.AAP_interval
    assert figures["AAP_is_estimate"] == 1.0
    evaluation = result.evaluation.model_copy(update={"AAP_interval": None})
    unsure = final(result.model_copy(update={"evaluation": evaluation}))
    assert unsure["AAP_is_estimate"] == 1.0 and "AAP_low" not in unsure
    exact = configure("digits", "linear", overrides=options("batch_size=120"), eval_cap=100_000)
    assert set(final(make_experiment(exact, stream_of(exact)).finish())) == set(FIGURES)


def test_unknown_and_missing_loggers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError):
        make_logger("tensorbored:x")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"ocgl\[wandb\]"):
        make_logger("wandb:x")
