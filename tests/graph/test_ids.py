"""Ids of the user's own: integers or text, one kind per store."""

from typing import Any

import numpy as np
import pytest

from ocgl import errors
from ocgl.graph import GraphStore, MeteredStore, NeighborSampling
from ocgl.graph.ids import LONGEST


def text_store() -> GraphStore:
    store = GraphStore()
    store.add(["tx-1", "3"], np.eye(2))
    store.add(np.array(["ü"]), np.ones((1, 2)), [["ü", "tx-1"], ["tx-1", "ü"]])
    return store


def test_text_ids_do_what_integers_do() -> None:
    store = text_store()
    assert store.id_kind == "text" and store.ids.tolist() == ["tx-1", "3", "ü"] and store.edges == 1
    assert store.neighbors("ü").tolist() == ["tx-1"] and store.degrees(["3"]).tolist() == [0]
    found = store.sample(["ü"], NeighborSampling(1, 5), 0)
    assert found.ids_at is not None and found.ids_at(found.nodes).tolist() == ["ü", "tx-1"]
    assert MeteredStore(store).ids_at(np.array([1])).tolist() == ["3"]
    store.add_edges([["3"], ["ü"]])
    store.update(["3"], np.zeros((1, 2)))
    store.remove(["tx-1"])
    assert store.ids.tolist() == ["3", "ü"] and store.neighbors("3").tolist() == ["ü"]
    store.add(["tx-1"], np.zeros((1, 2)))
    assert store.positions(["tx-1"]).tolist() == [3]


def test_pyg_batches_have_the_user_s_ids() -> None:
    data = text_store().sample(["ü"], NeighborSampling(1, 5), 0).to_pyg()
    assert data.ids == ["ü", "tx-1"]


def test_samples_do_not_depend_on_the_kind_of_ids() -> None:
    numbers, texts = GraphStore(), GraphStore()
    rng = np.random.default_rng(0)
    edges = np.stack([np.arange(1, 50), rng.integers(0, np.arange(1, 50))])
    numbers.add(np.arange(50), rng.normal(size=(50, 3)), edges)
    texts.add([f"n{i}" for i in range(50)], numbers.features.take(np.arange(50, dtype=np.int32)), [
        [f"n{i}" for i in row] for row in edges.tolist()
    ])  # fmt: skip
    for key in range(20):
        a = numbers.sample([key, key + 20], NeighborSampling(2, 3), key)
        b = texts.sample([f"n{key}", f"n{key + 20}"], NeighborSampling(2, 3), key)
        assert np.array_equal(a.nodes, b.nodes) and np.array_equal(a.aggregated, b.aggregated)


def test_a_number_and_its_text_are_different_ids() -> None:
    store = text_store()
    with pytest.raises(errors.IdKindError, match="ids of kind text"):
        store.positions([3])
    with pytest.raises(errors.IdKindError, match="ids of kind text"):
        store.add([3], np.zeros((1, 2)))
    with pytest.raises(errors.IdKindError, match="ids of kind text"):
        store.add(["4"], np.zeros((1, 2)), [[4], [3]])
    numbers = GraphStore()
    numbers.add([3], np.zeros((1, 2)))
    with pytest.raises(errors.IdKindError, match="ids of kind integer; '3' is of kind text"):
        numbers.sample(["3"], NeighborSampling(1, 2), 0)
    assert len(store) == 3 and store.version == 2


@pytest.mark.parametrize(
    ("ids", "error"),
    [
        (["a", 3], errors.IdKindError),
        (np.array(["a", 3], object), errors.IdKindError),
        (["a", None], errors.IdKindError),
        (["a", ""], errors.GraphError),
        (["a", "x" * (LONGEST + 1)], errors.GraphError),
        (["a", "\ud800"], errors.GraphError),
        ([["a"], ["b"]], errors.GraphError),
        (["a", "a"], errors.DuplicateNodeError),
        ([3.5, 4.0], errors.GraphError),
        ([True, False], errors.GraphError),
        (None, errors.GraphError),
        (np.array([2**63, 1], np.uint64), errors.GraphError),
    ],
)
def test_wrong_ids_are_refused_by_name(ids: Any, error: type[Exception]) -> None:
    store = GraphStore()
    with pytest.raises(error):
        store.add(ids, np.zeros((2, 1)))
    assert len(store) == 0 and store.version == 0


def test_an_empty_store_knows_no_kind_yet() -> None:
    store = GraphStore()
    for ids in (["a"], [3]):
        with pytest.raises(errors.UnknownNodeError):
            store.positions(ids)
    assert len(store.positions([])) == 0


def test_a_whole_table_is_no_column_of_ids() -> None:
    import pandas as pd

    store = GraphStore()
    with pytest.raises(errors.GraphError, match="give its columns"):
        store.add(pd.DataFrame({"id": ["tx-1"]}), np.eye(1))
