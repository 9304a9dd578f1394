"""One model trained by several processes: each learns its shard of the batches, and the sums are added.

Each process has the graph for itself, or all of them sample one graph on Redis.
"""

from concurrent.futures import Executor
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, cast

from threadpoolctl import threadpool_limits

from ocgl.errors import ConfigError
from ocgl.experiments.config import RunConfig
from ocgl.experiments.runner import stream_of
from ocgl.experiments.stepping import arrivals
from ocgl.experiments.storage import storage_folder, store_for
from ocgl.graph import GraphStore
from ocgl.graph.redis.address import is_address
from ocgl.rng import key
from ocgl.state import State
from ocgl.strategies import Learner, make_strategy
from ocgl.streams import Stream

if TYPE_CHECKING:
    from ocgl.graph.redis import RedisStore


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


def train_shard_on(config: RunConfig, shard: int, shards: int, data_root: Path | None, address: str) -> State:
    """Learn every `shards`-th batch from a graph on Redis, as it was at the batch's own step."""
    from ocgl.graph.redis import RedisStore

    threadpool_limits(1)
    stream = stream_of(config, data_root)
    store = RedisStore.attach(address)
    learner = _empty(config, stream, store)
    for index in range(len(stream)):
        labels = stream.labels_at(index)
        if labels is None:
            continue
        if index % shards == shard:
            store.moment = index + 1
            learner.learn(learner.batch(labels))
        else:  # draws and class numbers of a batch that others learn
            key(learner._rng)
            learner._classes.numbers(labels.labels)
    store.close()
    return learner.state()


def train_sharded(
    config: RunConfig, pool: Executor, shards: int, data_root: Path | None = None, store: str | None = None
) -> Learner:
    """Train on a stream in shards, on the processes of this machine or of a cluster, and merge the shards.

    Only methods that can be merged do this, and none that samples again the nodes it has learned. The learner that is
    returned has the classifier of one pass over the stream, and the whole graph in its store.

    Args:
        config: what to train, on what.
        pool: the processes.
        shards: number of shards.
        data_root: folder of the datasets.
        store: address of a store on Redis: the stream goes there once, and all processes sample it as of their steps.
            Only for streams without later edges and other changes. The graph stays there until
            `learner.store.drop()`.
    """
    if shards < 1:
        raise ConfigError(f"there must be at least one shard, not {shards}")
    stream = stream_of(config, data_root)
    strategy = _empty(config, stream).strategy
    if not hasattr(strategy, "merge"):
        raise ConfigError(f"{config.strategy} cannot be merged: what it learns is not a sum over nodes")
    if strategy.needs_store:
        raise ConfigError(f"{config.strategy} samples again what it has learned; in shards that is not one pass")
    common = [config] * shards, range(shards), [shards] * shards, [data_root] * shards
    shared = None if store is None else _loaded(stream, store)
    if shared is None:
        states = pool.map(train_shard, *common)
    else:
        states = pool.map(train_shard_on, *common, [shared.address.text] * shards)
    parts = []
    for state in states:
        part = _empty(config, stream)
        part.load_state(state)
        parts.append(part)
    whole = reduce(_merged, parts)
    if shared is not None:
        whole.store = shared
    else:
        stream.replay(whole, len(stream))
    return whole


def _loaded(stream: Stream, store: str) -> "RedisStore":
    """Let a stream arrive in a store on Redis, step by step: the number of a change is that of its step, from 1."""
    if not is_address(store):
        raise ConfigError(f"{store} is no address of a store on Redis; processes cannot share another one")
    if stream.timeline is not None:
        raise ConfigError("this stream has later edges, new features or removals: a graph that is shared only grows")
    shared = cast("RedisStore", store_for(store, stream.graph))
    for index in range(len(stream)):
        shared.arrive(stream.step(index).arrival)
    shared.publish()
    return shared


def _empty(config: RunConfig, stream: Stream, store: GraphStore | None = None) -> Learner:
    strategy = make_strategy(config.strategy, seed=config.seed, **config.resolved(stream.base))
    if store is None:
        store = GraphStore(storage_folder("auto", stream.graph))
    return Learner(strategy, config.eval_fanout, config.eval_chunk, store)


def _merged(first: Learner, second: Learner) -> Learner:
    first.merge(second)
    return first
