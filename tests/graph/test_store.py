from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from ocgl import errors
from ocgl.graph import GraphStore, NeighborSampling


def small() -> GraphStore:
    store = GraphStore()
    store.add([10, 20, 30], np.eye(3), [[20, 30], [10, 20]], [1.0, 2.0, 3.0])
    return store


def fingerprint(store: GraphStore) -> tuple[object, ...]:
    rows = [store.neighbors(v).tolist() for v in store.ids.tolist()]
    neighborhood = store.sample(store.ids, NeighborSampling(2, 2), 5)
    return (
        len(store),
        store.edges,
        store.nbytes,
        store.ids.tolist(),
        store.times.tolist(),
        rows,
        neighborhood.nodes.tolist(),
    )


ROW = np.zeros((1, 3))
BAD: dict[str, tuple[type[Exception], Callable[[GraphStore], object]]] = {
    "unknown neighbour": (errors.UnknownNodeError, lambda s: s.add([40], ROW, [[40], [99]])),
    "added twice": (errors.DuplicateNodeError, lambda s: s.add([10], ROW)),
    "twice in one arrival": (errors.DuplicateNodeError, lambda s: s.add([40, 40], np.zeros((2, 3)))),
    "self loop": (errors.SelfLoopError, lambda s: s.add([40], ROW, [[40], [40]])),
    "edge between old nodes": (errors.OldEdgeError, lambda s: s.add([40], ROW, [[10], [30]])),
    "nan": (errors.NotFiniteError, lambda s: s.add([40], np.full((1, 3), np.nan))),
    "sparse infinity": (errors.NotFiniteError, lambda s: s.add([40], csr_array([[0.0, np.inf, 0.0]]))),
    "nan time": (errors.NotFiniteError, lambda s: s.add([40], ROW, times=[np.nan])),
    "wrong width": (errors.WrongWidthError, lambda s: s.add([40], np.zeros((1, 4)))),
    "too few rows": (errors.WrongWidthError, lambda s: s.add([40, 50], ROW)),
    "no nodes": (errors.EmptyBatchError, lambda s: s.add([], np.zeros((0, 3)))),
    "edges of wrong shape": (errors.GraphError, lambda s: s.add([40], ROW, [[40, 10], [40, 20], [40, 30]])),
    "fractional edges": (errors.GraphError, lambda s: s.add([40], ROW, [[40.0], [10.5]])),
    "negative id": (errors.UnknownNodeError, lambda s: s.add([-5], ROW)),
    "fractional id": (errors.GraphError, lambda s: s.add([0.5], ROW)),
    "times of other length": (errors.GraphError, lambda s: s.add([40], ROW, times=[1.0, 2.0])),
    "words for features": (errors.NotANumberError, lambda s: s.add([40], [["a", "b", "c"]])),
    "ragged features": (errors.NotANumberError, lambda s: s.add([40, 50], [[1.0, 2.0, 3.0], [1.0]])),
    "complex features": (errors.NotANumberError, lambda s: s.add([40], np.full((1, 3), 1j))),
    "complex sparse features": (errors.NotANumberError, lambda s: s.add([40], csr_array([[0, 1j, 0]]))),
    "words for times": (errors.NotANumberError, lambda s: s.add([40], ROW, times=["noon"])),
    "ragged edges": (errors.GraphError, lambda s: s.add([40], ROW, [[40, 10], [10]])),
    "words for ids": (errors.GraphError, lambda s: s.positions(["a"])),
    "look at unknown": (errors.UnknownNodeError, lambda s: s.sample([77], NeighborSampling(1, 2), 0)),
    "look at nothing": (errors.EmptyBatchError, lambda s: s.sample([], NeighborSampling(1, 2), 0)),
    "look at one twice": (errors.DuplicateNodeError, lambda s: s.sample([10, 10], NeighborSampling(1, 2), 0)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_has_a_name_and_leaves_the_store_as_it_was(name: str) -> None:
    error, act = BAD[name]
    store = small()
    before = fingerprint(store)
    with pytest.raises(error):
        act(store)
    assert fingerprint(store) == before


def test_entries_given_twice_are_added_up_and_the_bound_holds() -> None:
    repeated = csr_array((np.ones(40), np.zeros(40, np.int32), [0, 20, 40]), shape=(2, 2))
    store = GraphStore()
    store.add([0, 1], repeated, [[0], [1]])
    neighborhood = store.sample([0], NeighborSampling(1, 10), 0)
    assert neighborhood.cost.within(NeighborSampling(1, 10).bound(1, store.features.row_bound))
    assert neighborhood.aggregated.tolist() == [[40, 0]] and repeated.nnz == 40


def test_a_folder_that_cannot_be_written_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(errors.StoreFolderError, match="file"):
        GraphStore(tmp_path / "file")


def test_edges_inside_an_arrival_and_to_the_past_are_visible_at_once() -> None:
    store = small()
    store.add([5, 6], np.zeros((2, 3)), [[5, 6, 5], [10, 5, 30]])
    assert store.neighbors(5).tolist() == [10, 30, 6]
    assert store.neighbors(10).tolist() == [20, 5]
    assert store.degrees([5, 6, 10]).tolist() == [3, 1, 2]


def test_ids_may_be_any_integers() -> None:
    store = GraphStore()
    ids = np.random.default_rng(0).integers(2**62, size=5000)
    store.add(ids, np.zeros((5000, 1)))
    assert store.positions(ids).tolist() == list(range(5000))


def test_dense_and_sparse_rows_can_be_mixed() -> None:
    store = small()
    store.add([40], csr_array([[0.0, 7.0, 0.0]]))
    assert store.sample([40], NeighborSampling(0), 0).rows().tolist() == [[0, 7, 0]]
    sparse = GraphStore()
    sparse.add([1], csr_array([[0.0, 7.0]]))
    sparse.add([2], np.array([[1.0, 0.0]]), [[2], [1]])
    assert sparse.sample([2], NeighborSampling(1), 0).aggregated.tolist() == [[1, 7]]


def test_sparse_columns_out_of_range_and_empty_features_are_refused() -> None:
    broken = csr_array((np.ones(1), np.array([7]), np.array([0, 1])), shape=(1, 9))
    broken._shape = (1, 3)
    with pytest.raises(errors.WrongWidthError):
        GraphStore().add([0], broken)
    with pytest.raises(errors.WrongWidthError):
        GraphStore().add([0], np.zeros((1, 0)))


@pytest.mark.parametrize("portion", [1, 7, 500])
def test_bytes_held_do_not_depend_on_the_portions(portion: int) -> None:
    store = GraphStore()
    for begin in range(0, 1200, portion):
        ids = np.arange(begin, min(1200, begin + portion))
        store.add(ids, np.zeros((len(ids), 2)))
    whole = GraphStore()
    whole.add(np.arange(1200), np.zeros((1200, 2)))
    assert store.nbytes == whole.nbytes


def test_no_node_yet() -> None:
    with pytest.raises(errors.UnknownNodeError):
        GraphStore().sample([1], NeighborSampling(), 0)
    assert len(GraphStore()) == 0
