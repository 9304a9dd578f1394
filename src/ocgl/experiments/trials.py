"""One trial over a part of the tuning prefix, or one whole run, by its name: computed once and kept."""

import time
from functools import lru_cache
from pathlib import Path

from ocgl.datasets import load_dataset
from ocgl.experiments.config import RunConfig
from ocgl.experiments.identity import run_id
from ocgl.experiments.result_store import ResultStore, revision
from ocgl.experiments.results import Selection, TrialResult
from ocgl.experiments.run_directory import curves_of
from ocgl.experiments.runner import make_experiment
from ocgl.experiments.storage import release
from ocgl.experiments.tuning import score, tune_tasks
from ocgl.strategies import find
from ocgl.streams import Stream, StreamConfig
from ocgl.streams.build import build
from ocgl.types import Json


@lru_cache(maxsize=2)
def _shared(dataset: str, stream: str, data_root: Path | None, prefix: bool, download: bool) -> Stream:
    """Make a stream once per process, for all trials that run on it."""
    graph = load_dataset(dataset, data_root, download=download)
    whole = build(graph, StreamConfig.model_validate_json(stream))
    return whole.prefix(tune_tasks(whole.tasks)) if prefix else whole


def shared(config: RunConfig, data_root: Path | None, prefix: bool = False, download: bool = True) -> Stream:
    """Return the stream of a config, or the part of it that tuning may see."""
    return _shared(config.dataset, config.stream.model_dump_json(), data_root, prefix, download)


def for_tuning(config: RunConfig) -> RunConfig:
    """Leave out what a trial does not use: how often to evaluate, estimates, and an offline bound's curve."""
    offline = {"curve": False} if find(config.strategy).offline else {}
    values = {"eval_every": 1, "eval_cap": None, "prequential": "evaluated"}
    return config.model_copy(update=values | {"hyperparameters": config.hyperparameters | offline})


def name_of(config: RunConfig, share: float | None, data_root: Path | None) -> str:
    """Return the id of a run, or of a trial over a share of the prefix."""
    stream = shared(config, data_root)
    resolved = config.resolved(stream.base)
    if share is None:
        return run_id(config, resolved, stream.content_hash)
    return run_id(config, resolved, stream.content_hash, tune_tasks(stream.tasks), share)


def stamped(name: str, setting: str, config: RunConfig) -> Json:
    """Return what every stored result says of itself."""
    stamp = {"id": name, "setting": setting, "buffer": config.buffer, "revision": revision()}
    return stamp | {"code": config.code, "config": config}


def trial(
    config: RunConfig,
    setting: str,
    share: float | None,
    selection: Selection | None,
    out: Path,
    data_root: Path | None,
    store: str = "auto",
) -> str:
    """Run one trial over a share of the prefix, or (share None) one whole run, unless it is there; return its id."""
    name = name_of(config, share, data_root)
    results = ResultStore(out)
    if name in results:
        return name
    if share is not None:
        begin = time.process_time()
        value = tuning_score(config, data_root, share)
        finite = value if value > float("-inf") else None
        found: Json = {"score": finite, "share": share, "seconds": time.process_time() - begin}
        results.put(TrialResult(**stamped(name, setting, config) | found))
    else:
        experiment = make_experiment(config, shared(config, data_root), store=store)
        try:
            result = experiment.finish()
        finally:
            release(experiment.learner.store)
        how = {} if selection is None else {"selection": selection.sentence()}
        more = {"selection": selection, "protocol": result.protocol | how}
        results.put(result.model_copy(update=stamped(name, setting, config) | more), curves_of(experiment))
    return name


def tuning_score(config: RunConfig, data_root: Path | None, share: float = 1.0, download: bool = True) -> float:
    """Score a configuration on the prefix, and an offline bound on its validation nodes."""
    if find(config.strategy).offline:
        stream = shared(config, data_root, download=download)
        value = make_experiment(config, stream, test=False).finish().AP_validation
        return float("-inf") if value is None else float(value)
    return score(config, shared(config, data_root, prefix=True, download=download), share)
