"""Stores in memory and on disk pass the contract; broken ones do not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from ocgl.errors import OldEdgeError
from ocgl.graph import AggregateCache, GraphStore, Neighborhood, NeighborSampling
from ocgl.graph.durable import DurableStore
from ocgl.testing import STORE_CHECKS, ContractError, follows_the_reference
from ocgl.testing.stores import KINDS, MakeStore, Pair

SMALL = st.integers(0, 60)
EVENTS = st.tuples(st.sampled_from(KINDS), SMALL, SMALL, SMALL, SMALL)
REOPEN = st.tuples(st.just("reopen"), SMALL, SMALL, SMALL, SMALL)
HISTORIES = st.lists(EVENTS, min_size=1, max_size=14)
PARTS = 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_histories(part: int) -> None:
    """Each part draws 2,500 histories of its own."""

    @settings(max_examples=10_000 // PARTS, database=None)
    @given(HISTORIES, st.just(part))
    def follow(history: list[Any], _: int) -> None:
        follows_the_reference(GraphStore, [("add", part, 3, 1, 1), *history], text=part % 2 == 1)

    follow()


@given(HISTORIES)
def test_a_store_on_disk_follows_the_reference(tmp_path_factory: pytest.TempPathFactory, history: list[Any]) -> None:
    follows_the_reference(lambda: GraphStore(tmp_path_factory.getbasetemp()), history)


@given(st.lists(st.one_of(EVENTS, REOPEN), max_size=14), st.booleans())
def test_a_durable_store_that_is_reopened_follows_the_reference(
    tmp_path_factory: pytest.TempPathFactory, history: list[Any], text: bool
) -> None:
    folder = tmp_path_factory.mktemp("durable")

    def reopen(store: DurableStore) -> GraphStore:
        if len(history) % 3 == 0:
            store.compact()
        store.close()
        return GraphStore.open(folder)

    follows_the_reference(lambda: GraphStore.open(folder), history, text, reopen)


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["memory", "disk", "durable"])
def test_contract(kind: str, check: Callable[[MakeStore], None], tmp_path: Path) -> None:
    made: dict[str, MakeStore] = {
        "memory": GraphStore,
        "disk": lambda: GraphStore(tmp_path),
        "durable": lambda: GraphStore.open(tmp_path),
    }
    check(made[kind])


class SamplesRemovedNodes(GraphStore):
    def remove(self, ids: ArrayLike) -> None:
        self.features.erase(self.positions(ids))


class ForgetsToSort(GraphStore):
    def sample(self, ids: ArrayLike, sampling: NeighborSampling, key: int) -> Neighborhood:
        return super().sample(ids, sampling, key ^ (self.version & 1))


class CountsRepeatedEdges(GraphStore):
    def add_edges(self, edges: ArrayLike) -> int:
        return super().add_edges(edges) + 1


class AppliesHalf(GraphStore):
    def remove(self, ids: ArrayLike) -> None:
        for id in np.asarray(ids).tolist():
            super().remove([id])


@pytest.mark.parametrize("broken", [SamplesRemovedNodes, ForgetsToSort, CountsRepeatedEdges])
def test_broken_stores_are_caught(broken: type[GraphStore]) -> None:
    history: list[Any] = [("add", 2, 3, 1, 1), ("add", 2, 3, 2, 1), ("edges", 0, 1, 2, 3), ("remove", 0, 1, 1, 1)] * 4
    with pytest.raises(ContractError):
        follows_the_reference(broken, history)


def test_half_a_removal_is_caught() -> None:
    check = next(check for check in STORE_CHECKS if check.__name__ == "wrong_calls_change_nothing")
    with pytest.raises(ContractError):
        check(AppliesHalf)


@given(HISTORIES)
def test_cached_sums_are_never_stale(history: list[Any]) -> None:
    """Later edges, an edge removed and another added, new features, removals: sums equal those of a new sample."""
    pair = Pair(GraphStore)
    sampling = NeighborSampling(2, 2, "mean")
    cache = AggregateCache(pair.store, sampling, key=5)
    for event in history:
        pair.apply(event)
        if len(pair.store) == 0:
            continue
        ids = pair.store.ids
        cached, order = cache.sample(ids)
        fresh = pair.store.sample(ids, sampling, 5)
        assert np.array_equal(cached.aggregated[order], fresh.aggregated[: len(ids)])


def test_an_edge_between_old_nodes_comes_by_its_own_call() -> None:
    store = GraphStore()
    store.add([1, 2, 3], np.eye(3))
    with pytest.raises(OldEdgeError, match="use add_edges"):
        store.add([4], np.zeros((1, 3)), [[1], [2]])
    assert store.add_edges([[1, 2, 1], [2, 1, 3]]) == 2 and store.edges == 2
    assert store.add_edges([[2], [1]]) == 0 and store.add_edges(((), ())) == 0
    assert store.neighbors(1).tolist() == [2, 3]


def test_an_id_that_returns_is_a_new_node() -> None:
    store = GraphStore()
    store.add([1, 2], np.eye(2), [[1], [2]])
    store.remove([2])
    assert len(store) == 1 and store.arrived == 2 and store.ids.tolist() == [1] and store.edges == 0
    store.add([2], np.ones((1, 2)), [[2], [1]])
    assert store.positions([2]).tolist() == [2] and store.was_removed(np.array([1, 2])).tolist() == [True, False]
    assert store.sample([1], NeighborSampling(1, 5), 0).aggregated.tolist() == [[2.0, 1.0]]


def test_sparse_features_can_be_replaced_by_longer_and_shorter_ones() -> None:
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    store, rows = GraphStore(), np.zeros((6, 8), np.float32)
    store.add(range(6), csr_array(rows), [[1, 2], [0, 0]])
    for turn in range(40):
        node = int(rng.integers(len(rows)))
        rows[node] = rng.integers(0, 3, 8) * (rng.random(8) < turn % 5 / 4)
        store.update([node], csr_array(rows[node][None]))
        if turn % 10 == 3:
            rows = np.vstack([rows, rng.random((2, 8), np.float32)])
            store.add([len(rows) - 2, len(rows) - 1], csr_array(rows[-2:]), [[len(rows) - 1], [0]])
        every = np.arange(len(rows), dtype=np.int32)
        taken = store.features.take(every)
        assert not isinstance(taken, np.ndarray) and np.array_equal(taken.toarray(), rows)
        weight = np.eye(8, dtype=np.float32)
        assert np.array_equal(store.features.chosen(every).times(weight), rows)  # type: ignore[attr-defined]


def test_what_operations_cost() -> None:
    """A later edge, a removal and an update touch the rows of their own nodes and neighbours, and no others."""
    store = GraphStore()
    store.add(range(10), np.eye(10), [[1, 2, 3, 5, 7], [0, 0, 0, 4, 6]])
    store.update([9], np.ones((1, 10)))  # versions are counted from now on
    before = store.row_versions.copy()
    store.update([1], np.ones((1, 10)))
    store.add_edges([[5], [8]])
    store.remove_edges([[7], [6]])
    changed = np.nonzero(store.row_versions != before)[0].tolist()
    assert changed == [0, 1, 5, 6, 7, 8]
    before = store.row_versions.copy()
    store.remove([0])
    assert np.nonzero(store.row_versions != before)[0].tolist() == [0, 1, 2, 3]
