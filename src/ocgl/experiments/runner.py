"""`evaluate`: stream a graph through a strategy and score it at any time."""

from collections.abc import Iterable
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from ocgl.datasets import load_dataset
from ocgl.errors import ConfigError, DatasetError, StreamError
from ocgl.experiments.config import RunConfig, configure, validated
from ocgl.experiments.experiment import Callback, Experiment
from ocgl.experiments.offline import OfflineExperiment
from ocgl.experiments.progress import progress_bar
from ocgl.experiments.results import RunResult
from ocgl.experiments.run_directory import RunDirectory
from ocgl.experiments.storage import release, shown, store_for
from ocgl.files import make_folder
from ocgl.graph import Graph
from ocgl.strategies import Strategy, find
from ocgl.strategies._core.registry import spec_of
from ocgl.streams import Stream, StreamConfig
from ocgl.streams.build import build
from ocgl.types import Json


def evaluate(
    strategy: str | Strategy,
    data: str | PathLike[str] | Graph | Stream,
    *,
    stream: str | None = None,
    profile: str | None = None,
    seed: int | None = None,
    every: int = 1,
    out: str | PathLike[str] | None = None,
    callbacks: Iterable[Callback] = (),
    progress: bool = False,
    store: str = "auto",
    data_root: Path | None = None,
    checkpoint_every: int | None = None,
    **options: Any,
) -> RunResult:
    """Stream a graph through a strategy and return its scores, costs and protocol.

    A strategy given by name takes the defaults of the dataset and the profile, as `ocgl run` does. A strategy object
    is used as it is, with its own seed and hyperparameters, and is trained by the call.

    Args:
        strategy: name, `path/to/file.py:Class`, or a strategy object.
        data: dataset name or path, a graph, or a prepared stream.
        stream: kind of stream: `class` (default), `time`, `order`, `domain`, `task`, `blurry` or `iid`. Not for a
            prepared stream.
        profile: `paper` (default), `textbook` or `first-reading`. Not for a strategy object.
        seed: seed of everything but the stream (default 0). Not for a strategy object, which has its own.
        every: evaluate after every K-th batch.
        out: folder for config, checkpoints, curves and result.
        callbacks: called with a `Progress` after every step.
        progress: show a progress bar.
        store: `memory`, `disk`, `auto` (by the size of the graph), or `redis://HOST:PORT[,HOST:PORT...]/NAME`.
        data_root: folder of the datasets.
        checkpoint_every: batches between checkpoints in `out` (default: one every 5 seconds).
        options: hyperparameters, options of the stream and of the run, by name, as `ocgl run --set` takes them.

    >>> evaluate("slda", "digits", batch_size=60, every=10).statistics.tasks
    5
    """
    config, prepared = _config_of(strategy, data, stream, profile, seed, {"eval_every": every}, options, data_root)
    with ExitStack() as stack:
        bar = [stack.enter_context(progress_bar())] if progress else []
        return run_config(
            config,
            prepared,
            strategy if isinstance(strategy, Strategy) else None,
            out=None if out is None else Path(out),
            callbacks=[*bar, *callbacks],
            store=store,
            checkpoint_every=checkpoint_every,
        )


def run_config(
    config: RunConfig,
    stream: Stream | None = None,
    strategy: Strategy | None = None,
    *,
    out: Path | None = None,
    callbacks: Iterable[Callback] = (),
    store: str = "auto",
    data_root: Path | None = None,
    checkpoint_every: int | None = None,
) -> RunResult:
    """Run what a config describes to the end; see `evaluate` for the arguments."""
    if checkpoint_every is not None and checkpoint_every < 1:
        raise ConfigError(f"checkpoint_every must be at least 1, not {checkpoint_every}")
    directory = None if out is None else RunDirectory(out)
    if directory is not None:
        if strategy is not None and strategy.updates:
            raise ConfigError("a strategy that has learned already cannot be kept in `out`: use a new one")
        directory.refuse_another()
        make_folder(directory.folder)  # before anything is computed: this may fail
    experiment = make_experiment(config, stream or stream_of(config, data_root), strategy, store=store)
    try:
        if directory is None:
            return experiment.finish(callbacks)
        directory.begin(experiment, shown(store))
        return directory.finish(experiment, callbacks, checkpoint_every)
    finally:
        release(experiment.learner.store)


def resume(
    out: str | PathLike[str],
    *,
    callbacks: Iterable[Callback] = (),
    progress: bool = False,
    store: str | None = None,
    data_root: Path | None = None,
    checkpoint_every: int | None = None,
    trust: bool = False,
) -> RunResult:
    """Continue the run in a folder; one that has ended is only read.

    A folder whose files are damaged, or do not belong together, is refused. So is one that was begun by other code,
    with another stream, or with another strategy file.

    Args:
        out: folder of the run.
        callbacks: called with a `Progress` after every step.
        progress: show a progress bar.
        store: where the store lies from now on; where it lay, if not given.
        data_root: folder of the datasets.
        checkpoint_every: batches between checkpoints (default: one every 5 seconds).
        trust: execute the strategy file that the folder names.
    """
    if checkpoint_every is not None and checkpoint_every < 1:
        raise ConfigError(f"checkpoint_every must be at least 1, not {checkpoint_every}")
    directory = RunDirectory(Path(out))
    finished = directory.finished
    if finished is not None:
        return finished
    description = directory.read(trust)
    config = description.config
    experiment = make_experiment(config, stream_of(config, data_root), store=store or description.store)
    with ExitStack() as stack:
        stack.callback(release, experiment.learner.store)
        directory.restore(experiment, description)
        bar = [stack.enter_context(progress_bar())] if progress else []
        return directory.finish(experiment, [*bar, *callbacks], checkpoint_every)


def stream_of(config: RunConfig, data_root: Path | None = None) -> Stream:
    """Load the dataset of a config and make its stream."""
    return build(load_dataset(config.dataset, data_root), config.stream)


def make_experiment(
    config: RunConfig, stream: Stream, strategy: Strategy | None = None, test: bool = True, store: str = "auto"
) -> Experiment:
    """Make the run that a config describes: online, or offline for an upper bound."""
    offline = strategy.offline if strategy is not None else find(config.strategy).offline
    kind = OfflineExperiment if offline else Experiment
    return kind(config, stream, strategy, test, store_for(store, stream.graph))


def _config_of(
    strategy: str | Strategy,
    data: str | PathLike[str] | Graph | Stream,
    kind: str | None,
    profile: str | None,
    seed: int | None,
    run: Json,
    options: Json,
    data_root: Path | None,
) -> tuple[RunConfig, Stream]:
    """Return the config of a run and its stream."""
    if isinstance(strategy, type):
        raise ConfigError(f"evaluate takes a strategy object: write {strategy.__name__}() instead of the class")
    if not isinstance(data, str | PathLike | Graph | Stream):
        hint = "from_pyg(data) makes a graph of torch_geometric's Data"
        raise DatasetError(f"a dataset is a name, a path, a graph or a stream, not a {type(data).__name__}; {hint}")
    prepared = data if isinstance(data, Stream) else None
    if prepared is not None:
        clash = [*(["stream"] if kind is not None else []), *sorted(StreamConfig.model_fields.keys() & options.keys())]
        if clash:
            raise StreamError(f"{', '.join(clash)}: a prepared stream has its options already")
        dataset, kind = prepared.graph.name, prepared.config["kind"]
    else:
        dataset = data.name if isinstance(data, Graph) else str(data)
    kind = kind or "class"
    if isinstance(strategy, Strategy):
        fixed = {"profile": profile, "seed": seed}
        config = _config_of_object(strategy, dataset, kind, fixed, run, options)
    else:
        config = configure(dataset, strategy, kind, profile or "paper", seed or 0, options, **run)
    if prepared is not None:
        config = config.model_copy(update={"stream": StreamConfig.model_validate(prepared.config)})
        return config, prepared
    graph = data if isinstance(data, Graph) else load_dataset(dataset, data_root)
    return config, build(graph, config.stream)


def _config_of_object(strategy: Strategy, dataset: str, kind: str, fixed: Json, run: Json, options: Json) -> RunConfig:
    """Describe a run of a strategy object; its seed and its hyperparameters are its own."""
    values = strategy.hyperparameters()
    given = {name for name, value in fixed.items() if value is not None}
    given |= {*values, "buffer", "buffer_base"} & options.keys()
    if given:
        raise ConfigError(f"{', '.join(sorted(given))}: a strategy object has its seed and hyperparameters already")
    name = spec_of(strategy)
    config = configure(dataset, name, kind, "paper", strategy.seed, options, type(strategy), **run)
    buffer = {"buffer": str(values["buffer_size"])} if "buffer_size" in values else {}
    return validated(config.model_dump() | {"hyperparameters": values} | buffer)
