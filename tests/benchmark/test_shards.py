import numpy as np
import pytest

from ocgl.benchmark import configure, run_of, stream_of
from ocgl.benchmark.executors import LocalExecutor, cluster_executor
from ocgl.benchmark.shards import learn_in_shares
from ocgl.errors import ConfigError
from ocgl.strategies.closed_form import ClosedForm


@pytest.mark.parametrize("strategy", ["slda", "ridge"])
def test_shares_learned_on_a_dask_cluster_equal_one_pass(strategy: str) -> None:
    from distributed import LocalCluster

    config = configure("digits", strategy, settings=["fanout=3"])
    run = run_of(config, stream_of(config))
    run.finish()
    whole = run.learner.strategy
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        cluster_executor(cluster.scheduler_address) as pool,
    ):
        learner = learn_in_shares(config, pool, shares=3)
    merged = learner.strategy
    assert isinstance(whole, ClosedForm) and isinstance(merged, ClosedForm)
    order, there = np.argsort(merged.labels), np.argsort(whole.labels)
    for ours, theirs in zip(merged.classifier(), whole.classifier(), strict=True):
        np.testing.assert_allclose(ours[..., order], theirs[..., there], rtol=1e-8, atol=1e-10)
    ids = learner.store.ids
    assert np.array_equal(learner.predict(ids), run.learner.predict(ids))
    assert merged.updates == whole.updates


def test_what_is_no_sum_cannot_be_merged() -> None:
    config = configure("digits", "linear", settings=["batch_size=200"])
    with LocalExecutor(1) as pool, pytest.raises(ConfigError, match="cannot be merged"):
        learn_in_shares(config, pool, shares=2)
    with LocalExecutor(1) as pool, pytest.raises(ConfigError, match="at least one share"):
        learn_in_shares(configure("digits", "ridge"), pool, shares=0)
    config = configure("digits", "ridge", settings=["revisit=5"])
    with LocalExecutor(1) as pool, pytest.raises(ConfigError, match="looks again"):
        learn_in_shares(config, pool, shares=2)
