"""Optional loggers of runs: TensorBoard, MLflow, and Weights & Biases."""

from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from ocgl.errors import MissingExtraError, UnknownNameError
from ocgl.experiments.config import RunConfig
from ocgl.experiments.experiment import Progress
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import RunResult
from ocgl.types import Json

FIGURES = ("AAP", "AP", "AF", "AF_T", "prequential")
"""Scores that are logged at the end of a run."""


class Logger(Protocol):
    """Logs one run at a time."""

    def begin(self, name: str, options: Json) -> None:
        """Start a run.

        Args:
            name: name of the run.
            options: config of the run, without nested values.
        """
        ...

    def log(self, step: int, figures: dict[str, float]) -> None:
        """Log scores after a step."""
        ...

    def end(self, figures: dict[str, float]) -> None:
        """Log the final scores and close the run."""
        ...


class TensorBoard:
    """Writes TensorBoard event files, one folder per run.

    Args:
        target: parent folder of the runs; `tensorboard` if empty.
    """

    def __init__(self, target: str) -> None:
        self._folder = Path(target or "tensorboard")
        self._module = _import_extra("torch.utils.tensorboard", "tensorboard")

    def begin(self, name: str, options: Json) -> None:
        """Create the folder of the run and write its config."""
        self._writer = self._module.SummaryWriter(str(self._folder / name))
        self._writer.add_text("options", "\n".join(f"    {key}: {value}" for key, value in options.items()))

    def log(self, step: int, figures: dict[str, float]) -> None:
        """Write scores as scalars."""
        for key, value in figures.items():
            self._writer.add_scalar(key, value, step)

    def end(self, figures: dict[str, float]) -> None:
        """Write the final scores and close the event file."""
        self.log(0, {f"final/{key}": value for key, value in figures.items()})
        self._writer.close()


class MLflow:
    """Logs runs of the MLflow experiment `ocgl`.

    Args:
        target: tracking URI; MLflow's default if empty.
    """

    def __init__(self, target: str) -> None:
        self._module = _import_extra("mlflow", "mlflow")
        if target:
            self._module.set_tracking_uri(target)
        self._module.set_experiment("ocgl")

    def begin(self, name: str, options: Json) -> None:
        """Start a run and log its config as parameters."""
        self._module.start_run(run_name=name)
        self._module.log_params(options)

    def log(self, step: int, figures: dict[str, float]) -> None:
        """Log scores as metrics."""
        self._module.log_metrics(figures, step=step)

    def end(self, figures: dict[str, float]) -> None:
        """Log the final scores and end the run."""
        self._module.log_metrics({f"final_{key}": value for key, value in figures.items()})
        self._module.end_run()


class WandB:
    """Logs runs of a Weights & Biases project; WANDB_MODE and WANDB_DIR apply.

    Args:
        target: name of the project; `ocgl` if empty.
    """

    def __init__(self, target: str) -> None:
        self._module = _import_extra("wandb", "wandb")
        self._project = target or "ocgl"

    def begin(self, name: str, options: Json) -> None:
        """Start a run with its config."""
        self._run = self._module.init(project=self._project, name=name, config=options)

    def log(self, step: int, figures: dict[str, float]) -> None:
        """Log scores of one step."""
        self._run.log(figures, step=step)

    def end(self, figures: dict[str, float]) -> None:
        """Write the final scores to the summary and finish the run."""
        self._run.summary.update(figures)
        self._run.finish()


LOGGERS: dict[str, type[Any]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}
"""Loggers by name."""


def make_logger(text: str) -> Logger:
    """Return the logger that a text names.

    Args:
        text: `tensorboard:FOLDER`, `mlflow:ADDRESS` or `wandb:PROJECT`; the part after the name is optional.
    """
    kind, _, target = text.partition(":")
    if kind not in LOGGERS:
        raise UnknownNameError("logger", kind, LOGGERS)
    logger: Logger = LOGGERS[kind](target)
    return logger


def options_of(config: RunConfig) -> Json:
    """Return the config of a run without nested values; hyperparameters are at the top level."""
    values = config.model_dump(mode="json")
    flat = {key: value for key, value in values.items() if not isinstance(value, dict)}
    flat |= {f"stream.{key}": value for key, value in values["stream"].items()}
    return flat | config.hyperparameters


def title_of(config: RunConfig, name: str = "") -> str:
    """Return a readable name of a run; `name` is appended if given."""
    dataset = Path(config.dataset).stem.replace(":", "-").replace(",", "-").replace("=", "")
    parts = (dataset, config.stream.kind, Path(config.strategy).stem, config.profile, f"seed{config.seed}")
    return "-".join((*parts, name) if name else parts)


def final(result: RunResult) -> dict[str, float]:
    """Return the defined scores of a result; for an estimated AAP also a flag and the ends of its interval."""
    figures = {key: value for key in FIGURES if (value := result.score(key)) is not None}
    if not result.estimated:
        return figures
    ends = result.AAP_interval
    return figures | {"AAP_is_estimate": 1.0} | ({} if ends is None else {"AAP_low": ends[0], "AAP_high": ends[1]})


def follow(logger: Logger, progress: Progress) -> None:
    """Log AP_t of a run in progress after every evaluated step."""
    if progress.anytime is not None and progress.evaluated:
        logger.log(progress.step, {"AP_t": 100 * progress.anytime})


def log_stored(logger: Logger, results: ResultStore, result: RunResult) -> None:
    """Log a finished run from its stored result and curves."""
    logger.begin(title_of(result.config, result.id[:8]), options_of(result.config))
    for row in results.curves(result.id).select("step", "AP_t").drop_nans().iter_rows():
        logger.log(row[0] + 1, {"AP_t": row[1]})
    logger.end(final(result))


def _import_extra(module: str, extra: str) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"the logger {extra}", extra) from error
