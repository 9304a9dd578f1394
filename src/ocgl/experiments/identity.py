"""The name of a result: a hash of everything that can move its number.

That is the config, the resolved hyperparameters, the content of the stream, and the code (`ocgl.code`).
"""

import hashlib
import json

from ocgl.code import code_hash, is_file_spec
from ocgl.experiments.config import RunConfig
from ocgl.types import Json


def canonical(config: RunConfig) -> Json:
    """Return what of a config can move a number; one from a file counts by its class, its code by itself."""
    values = config.model_dump(mode="json")
    values["strategy"] = _without_folder(config.strategy)
    values["hyperparameters"] = _with_network(values["hyperparameters"])
    if config.prequential == "evaluated" or config.eval_every == 1:  # the same question is asked
        values.pop("prequential")
    return values


def run_id(config: RunConfig, resolved: Json, stream_hash: str, prefix: int | None = None, share: float = 1.0) -> str:
    """Name a run, or a tuning trial over a share of a prefix, by everything that can move its number.

    Args:
        config: the config of the run.
        resolved: the hyperparameters that the strategy is made with (`RunConfig.resolved`).
        stream_hash: content hash of the whole stream.
        prefix: tasks of the prefix that a trial sees; None for a run.
        share: part of the prefix that a trial is run over.
    """
    code = code_hash(config.strategy, config.network)
    return digest_of([canonical(config), _with_network(resolved), stream_hash, prefix, share, code])


def _without_folder(spec: str) -> str:
    return f"file:{spec.rpartition(':')[2]}" if is_file_spec(spec) else spec


def _with_network(hyperparameters: Json) -> Json:
    """Return hyperparameters with a network from a file by its class; its code counts by itself."""
    network = hyperparameters.get("backbone")
    return hyperparameters if network is None else hyperparameters | {"backbone": _without_folder(str(network))}


def digest_of(what: object) -> str:
    """Return a short hash of anything that JSON can express."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
