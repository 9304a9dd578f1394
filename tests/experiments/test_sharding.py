import numpy as np
import pytest

from ocgl.errors import ConfigError
from ocgl.experiments import configure, make_experiment, stream_of
from ocgl.experiments.executors import LocalExecutor, cluster_executor
from ocgl.experiments.sharding import train_sharded
from ocgl.strategies import ClosedForm
from tests.helpers import options


@pytest.mark.parametrize("strategy", ["slda", "ridge"])
def test_shares_learned_on_a_dask_cluster_equal_one_pass(strategy: str) -> None:
    from distributed import LocalCluster

    config = configure("digits", strategy, overrides=options("fanout=3"))
    run = make_experiment(config, stream_of(config))
    run.finish()
    whole = run.learner.strategy
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        cluster_executor(cluster.scheduler_address) as pool,
    ):
        learner = train_sharded(config, pool, shards=3)
    merged = learner.strategy
    assert isinstance(whole, ClosedForm) and isinstance(merged, ClosedForm)
    order, there = np.argsort(merged.labels), np.argsort(whole.labels)
    for ours, theirs in zip(merged.classifier(), whole.classifier(), strict=True):
        np.testing.assert_allclose(ours[..., order], theirs[..., there], rtol=1e-8, atol=1e-10)
    ids = learner.store.ids
    assert np.array_equal(learner.predict(ids), run.learner.predict(ids))
    assert merged.updates == whole.updates


def test_what_is_no_sum_cannot_be_merged() -> None:
    config = configure("digits", "linear", overrides=options("batch_size=200"))
    with LocalExecutor(1) as pool, pytest.raises(ConfigError, match="cannot be merged"):
        train_sharded(config, pool, shards=2)
    with LocalExecutor(1) as pool, pytest.raises(ConfigError, match="at least one shard"):
        train_sharded(configure("digits", "ridge"), pool, shards=0)
    config = configure("digits", "ridge", overrides=options("revisit=5"))
    with LocalExecutor(1) as pool, pytest.raises(ConfigError, match="samples again"):
        train_sharded(config, pool, shards=2)
