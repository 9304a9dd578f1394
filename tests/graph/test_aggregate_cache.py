from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocgl.errors import DiskFullError, DuplicateNodeError, WrongSamplingError
from ocgl.graph import AggregateCache, GraphStore, Neighborhood, NeighborSampling, is_cacheable
from ocgl.nn import propagate
from ocgl.streams import class_stream
from ocgl.types import FloatArray
from tests.conftest import random_graph


def embedded(neighborhood: Neighborhood) -> FloatArray:
    """Pass messages to the seeds through all layers."""
    z = neighborhood.aggregated
    for layer in range(2, neighborhood.hops + 1):
        z = propagate(z, neighborhood.block(layer))
    return z


@given(
    st.integers(0, 9999),
    st.integers(1, 3),
    st.sampled_from([1, 3, None]),
    st.sampled_from(["sum", "mean"]),
    st.integers(0, 300),
)
def test_cached_sums_are_those_of_a_new_sample_to_the_bit(
    seed: int, hops: int, fanout: int | None, norm: str, edges: int
) -> None:
    graph = random_graph(seed, 60, edges)
    stream, store, rng = class_stream(graph, batch_size=4), GraphStore(), np.random.default_rng(seed)
    sampling = NeighborSampling(hops, fanout, norm)  # type: ignore[arg-type]
    cache = AggregateCache(store, sampling, key=7)
    for step in stream:
        store.arrive(step.arrival)
        asked = store.ids[rng.random(len(store)) < 0.4] if rng.random() < 0.5 else store.ids[::2]
        if len(asked) == 0:
            continue
        neighborhood, order = cache.sample(asked)
        fresh = store.sample(asked, sampling, key=7)
        assert np.array_equal(embedded(neighborhood)[order], embedded(fresh))
        inner = fresh.sizes[-2]
        assert neighborhood.sizes[:-1] == fresh.sizes[:-1]
        assert np.array_equal(np.sort(neighborhood.nodes), np.sort(fresh.nodes[:inner]))
        place = {node: i for i, node in enumerate(neighborhood.nodes.tolist())}
        same = [place[node] for node in fresh.nodes[:inner].tolist()]
        assert np.array_equal(neighborhood.counts(inner)[same], fresh.counts(inner))
        assert np.array_equal(neighborhood.aggregated[same], fresh.aggregated)


def test_only_what_changed_is_made_again() -> None:
    store = GraphStore()
    store.add(np.arange(100), np.random.default_rng(0).normal(size=(100, 4)), [np.arange(99), np.arange(1, 100)])
    cache = AggregateCache(store, NeighborSampling(hops=1, fanout=5), key=0)
    first, _ = cache.sample(np.arange(100))
    again, _ = cache.sample(np.arange(100))
    store.add([100], np.zeros((1, 4)), [[100], [3]])
    after, _ = cache.sample(np.arange(100))
    assert first.cost.nodes == 100 and again.cost.nodes == 0
    assert after.cost.nodes == 4  # node 3 and its three neighbours
    assert cache.nbytes == 100 * (4 * 4 + 8 + 8 + 4) + 101 * 4


def test_what_depends_on_the_company_cannot_stand() -> None:
    assert not is_cacheable(NeighborSampling(hops=2, norm="sym"))
    assert not is_cacheable(NeighborSampling(hops=2, fanout=(5, 3)))
    assert not is_cacheable(NeighborSampling(hops=0))
    with pytest.raises(WrongSamplingError):
        AggregateCache(GraphStore(), NeighborSampling(hops=2, norm="sym"), key=0)


def test_a_cached_neighbourhood_says_what_it_does_not_hold() -> None:
    store = GraphStore()
    store.add([0, 1], np.eye(2), [[0], [1]])
    cache = AggregateCache(store, NeighborSampling(hops=2), key=0)
    neighborhood, _ = cache.sample(np.array([0]))
    for ask in (neighborhood.rows, neighborhood.detached, lambda: neighborhood.block(1)):
        with pytest.raises(WrongSamplingError):
            ask()
    with pytest.raises(DuplicateNodeError):
        cache.sample(np.array([1, 1]))
    again, _ = cache.sample(np.array([0]))
    assert np.array_equal(again.aggregated, neighborhood.aggregated)


def test_sums_that_could_not_be_made_are_made_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    store = GraphStore()
    store.add(range(4), np.eye(4), [[1, 2], [0, 0]])
    cache = AggregateCache(store, NeighborSampling(1, None), key=7)
    cache.sample(store.ids)
    store.add([4], np.zeros((1, 4)) + 9, [[4, 4], [0, 3]])
    with monkeypatch.context() as broken:
        broken.setattr(store.features, "aggregate", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            cache.sample(store.ids)
    neighborhood, order = cache.sample(store.ids)
    assert np.array_equal(
        neighborhood.aggregated[order], store.sample(store.ids, NeighborSampling(1, None), 7).aggregated
    )


def test_a_full_disk_is_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = GraphStore(tmp_path)
    store.add(range(4), np.eye(4), [[1, 2], [0, 0]])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(DiskFullError, match="sums of 4 nodes"):
        AggregateCache(store, NeighborSampling(1, None), key=7).sample(store.ids)
