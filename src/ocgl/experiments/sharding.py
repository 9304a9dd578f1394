"""One model trained by several processes: each learns its shard of the batches, and the sums are added."""

from concurrent.futures import Executor
from functools import reduce
from pathlib import Path

from threadpoolctl import threadpool_limits

from ocgl.errors import ConfigError
from ocgl.experiments.config import RunConfig
from ocgl.experiments.runner import stream_of
from ocgl.experiments.stepping import arrivals
from ocgl.experiments.storage import storage_folder
from ocgl.graph import GraphStore
from ocgl.state import State
from ocgl.strategies import Learner, make_strategy
from ocgl.streams import Stream


def train_shard(config: RunConfig, shard: int, shards: int, data_root: Path | None = None) -> State:
    """Let the whole stream arrive and learn every `shards`-th batch; return the state of the learner.

    The neighbourhoods of batches that others learn are sampled all the same, so that each batch has the sample of a
    single pass.
    """
    threadpool_limits(1)
    stream = stream_of(config, data_root)
    learner = _empty(config, stream)
    for step, batch in arrivals(learner, stream):
        if step.index % shards == shard:
            learner.learn(batch)
    return learner.state()


def train_sharded(config: RunConfig, pool: Executor, shards: int, data_root: Path | None = None) -> Learner:
    """Train on a stream in shards, on the processes of this machine or of a cluster, and merge the shards.

    Only methods that can be merged do this, and none that samples again the nodes it has learned. The learner that is
    returned has the classifier of one pass over the stream, and the whole graph in its store.
    """
    if shards < 1:
        raise ConfigError(f"there must be at least one shard, not {shards}")
    stream = stream_of(config, data_root)
    strategy = _empty(config, stream).strategy
    if not hasattr(strategy, "merge"):
        raise ConfigError(f"{config.strategy} cannot be merged: what it learns is not a sum over nodes")
    if strategy.needs_store:
        raise ConfigError(f"{config.strategy} samples again what it has learned; in shards that is not one pass")
    parts = []
    for state in pool.map(train_shard, [config] * shards, range(shards), [shards] * shards, [data_root] * shards):
        part = _empty(config, stream)
        part.load_state(state)
        parts.append(part)
    whole = reduce(_merged, parts)
    stream.replay(whole, len(stream))
    return whole


def _empty(config: RunConfig, stream: Stream) -> Learner:
    strategy = make_strategy(config.strategy, seed=config.seed, **config.resolved(stream.base))
    store = GraphStore(storage_folder("auto", stream.graph))
    return Learner(strategy, config.eval_fanout, config.eval_chunk, store)


def _merged(first: Learner, second: Learner) -> Learner:
    first.merge(second)
    return first
