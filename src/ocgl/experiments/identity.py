"""The name of a result: a hash of everything that can move its number.

That is the config, the resolved hyperparameters, the content of the stream, and the code (`ocgl.code`).
"""

import hashlib
import json

from ocgl.code import code_hash, is_file_spec
from ocgl.experiments.config import RunConfig
from ocgl.types import Json


def canonical(config: RunConfig) -> Json:
    """Return what of a config can move a number; a strategy from a file counts by its class, its code by itself."""
    values = config.model_dump(mode="json")
    if is_file_spec(config.strategy):
        values["strategy"] = f"file:{config.strategy.rpartition(':')[2]}"
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
    return digest_of([canonical(config), resolved, stream_hash, prefix, share, code_hash(config.strategy)])


def digest_of(what: object) -> str:
    """Return a short hash of anything that JSON can express."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
