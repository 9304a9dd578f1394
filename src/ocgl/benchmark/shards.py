"""One model learned by several machines: each learns its share of the batches, and the sums are added."""

from concurrent.futures import Executor
from functools import reduce
from pathlib import Path

from threadpoolctl import threadpool_limits

from ocgl.benchmark.config import RunConfig
from ocgl.benchmark.keep import stream_of
from ocgl.benchmark.placing import folder_of
from ocgl.errors import ConfigError
from ocgl.graph import Store
from ocgl.state import State
from ocgl.strategies import Learner, make
from ocgl.streams import Stream


def learn_share(config: RunConfig, share: int, shares: int, data_root: Path | None = None) -> State:
    """Let the whole stream arrive and learn every `shares`-th batch; gives the learner's state.

    Batches that others learn are looked at all the same, so that each is looked at as in one pass.
    """
    threadpool_limits(1)
    stream = stream_of(config, data_root)
    learner = _empty(config, stream)
    for step in stream:
        learner.arrive(step.arrival)
        labels = step.labels
        if labels is not None:
            batch = learner.batch(labels)
            if step.index % shares == share:
                learner.learn(batch)
    return learner.state()


def learn_in_shares(config: RunConfig, pool: Executor, shares: int, data_root: Path | None = None) -> Learner:
    """Learn a stream in shares, on the processes of this machine or of a cluster, and put them together.

    Only methods that can be merged do this, and none that looks again at nodes it has learned. The learner given back
    has the classifier of one pass over the stream, and the whole graph in its store.
    """
    if shares < 1:
        raise ConfigError(f"there must be at least one share, not {shares}")
    stream = stream_of(config, data_root)
    strategy = _empty(config, stream).strategy
    if not hasattr(strategy, "merge"):
        raise ConfigError(f"{config.strategy} cannot be merged: what it learns is no sum")
    if strategy.needs_store:
        raise ConfigError(f"{config.strategy} looks again at what it has learned; in shares that is not one pass")
    parts = []
    for state in pool.map(learn_share, [config] * shares, range(shares), [shares] * shares, [data_root] * shares):
        part = _empty(config, stream)
        part.load_state(state)
        parts.append(part)
    whole = reduce(_merged, parts)
    for step in stream:
        whole.arrive(step.arrival)
    return whole


def _empty(config: RunConfig, stream: Stream) -> Learner:
    strategy = make(config.strategy, seed=config.seed, **config.strategy_settings(stream.base))
    return Learner(strategy, config.eval_fanout, config.eval_chunk, Store(folder_of("auto", stream.graph)))


def _merged(first: Learner, second: Learner) -> Learner:
    first.merge(second)
    return first
