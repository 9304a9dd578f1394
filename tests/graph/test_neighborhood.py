from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ocgl.errors import ConfigError, DuplicateEdgeError, EmptyBatchError, GraphError, NotANumberError, SelfLoopError
from ocgl.graph import Graph, GraphStore, NeighborSampling, from_arrays, isolated
from ocgl.graph.neighbor_sampling import Norm
from ocgl.types import DoubleArray
from tests.conftest import random_graph


def stored(graph: Graph, sparse: bool = False) -> GraphStore:
    store = GraphStore()
    sources = np.repeat(np.arange(graph.nodes), np.diff(graph.indptr))
    once = sources < graph.indices
    x = csr_array(graph.x) if sparse else graph.x
    store.add(np.arange(graph.nodes), x, np.stack([sources[once], graph.indices[once]]))
    return store


def dense_adjacency(graph: Graph) -> DoubleArray:
    dense = np.eye(graph.nodes)
    dense[np.repeat(np.arange(graph.nodes), np.diff(graph.indptr)), graph.indices] = 1
    return dense


def normalised(dense: DoubleArray, norm: Norm) -> DoubleArray:
    degree: DoubleArray = dense.sum(1)
    if norm == "mean":
        return np.divide(dense, degree[:, None])
    return np.divide(dense, np.sqrt(degree[:, None] * degree)) if norm == "sym" else dense


@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_full_neighbourhood_aggregates_as_the_dense_formula(graph: Graph, norm: Norm, sparse: bool) -> None:
    assert isinstance(graph.x, np.ndarray)
    everyone = np.arange(graph.nodes)
    neighborhood = stored(graph, sparse).sample(everyone, NeighborSampling(1, None, norm), 0)
    expected = normalised(dense_adjacency(graph), norm) @ graph.x
    np.testing.assert_allclose(neighborhood.aggregated, expected, rtol=2e-5, atol=1e-5)


@given(st.integers(0, 999), st.sampled_from(["sum", "mean", "sym"]), st.integers(1, 3), st.booleans())
def test_a_sampled_neighbourhood_aggregates_as_a_slow_loop(seed: int, norm: Norm, hops: int, sparse: bool) -> None:
    graph = random_graph(seed, 40, 200)
    neighborhood = stored(graph, sparse).sample([1, 2, 3], NeighborSampling(hops, 3, norm), seed)
    rows = neighborhood.rows()
    x = rows if isinstance(rows, np.ndarray) else rows.toarray()
    degree = np.ones(len(neighborhood.nodes))
    degree[: len(neighborhood.indptr) - 1] += np.diff(neighborhood.indptr)
    for v in range(len(neighborhood.indptr) - 1):
        self_weight = {"sum": 1.0, "mean": 1 / degree[v], "sym": 1 / degree[v]}[norm]
        total = self_weight * x[v].astype(float)
        for u in neighborhood.indices[neighborhood.indptr[v] : neighborhood.indptr[v + 1]]:
            weight = {"sum": 1.0, "mean": 1 / degree[v], "sym": 1 / np.sqrt(degree[u] * degree[v])}[norm]
            total += weight * x[u]
        np.testing.assert_allclose(neighborhood.aggregated[v], total, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", ["sum", "mean"])
def test_a_seed_does_not_depend_on_the_others(graph: Graph, norm: Norm) -> None:
    store = stored(graph)
    alone = store.sample([5], NeighborSampling(2, None, norm), 0)
    together = store.sample([5, 6, 7, 8], NeighborSampling(2, None, norm), 0)
    np.testing.assert_array_equal(alone.aggregated[0], together.aggregated[0])


def test_store_degrees_remove_the_dependence_of_sym_on_other_seeds(graph: Graph) -> None:
    store = stored(graph)
    sampled, whole = NeighborSampling(1, None, "sym"), NeighborSampling(1, None, "sym", "store")
    together = np.arange(graph.nodes)
    assert not np.allclose(
        store.sample([5], sampled, 0).aggregated[0], store.sample(together, sampled, 0).aggregated[5]
    )
    np.testing.assert_allclose(
        store.sample([5], whole, 0).aggregated[0], store.sample(together, whole, 0).aggregated[5], rtol=1e-6
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_a_detached_neighbourhood_is_the_same_without_the_store(graph: Graph, sparse: bool) -> None:
    neighborhood = stored(graph, sparse).sample([5, 6], NeighborSampling(2, 4, "sym"), 3)
    copy = neighborhood.detached()
    np.testing.assert_array_equal(copy.aggregated, neighborhood.aggregated)
    assert copy.sizes == neighborhood.sizes and copy.cost == neighborhood.cost
    assert len(copy.table) == len(neighborhood.nodes)


def test_isolated_nodes_receive_only_themselves() -> None:
    rows = np.random.default_rng(0).random((3, 4), np.float32)
    neighborhood = isolated(rows, hops=2)
    np.testing.assert_array_equal(neighborhood.aggregated, rows)
    assert neighborhood.block(2).rows == 3


def test_costs_count_nodes_edges_and_bytes(graph: Graph) -> None:
    neighborhood = stored(graph).sample([5, 6], NeighborSampling(2, 4), 3)
    expanded = len(neighborhood.indptr) - 1
    assert neighborhood.cost.nodes == len(neighborhood.nodes) and neighborhood.cost.edges == len(neighborhood.indices)
    assert neighborhood.cost.bytes == 4 * 5 * len(neighborhood.nodes) + 4 * len(neighborhood.indices) + 12 * expanded


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"sizes": np.array([0, 2])}, EmptyBatchError),
        ({"sizes": np.array(2)}, GraphError),
        ({"sizes": np.array([1.0, 2.5])}, GraphError),
        ({"indices": np.array([2**32 + 1])}, GraphError),
        ({"indices": np.array([1.5])}, GraphError),
        ({"indices": np.array([0])}, SelfLoopError),
        ({"indices": np.array([1, 1]), "indptr": np.array([0, 2])}, DuplicateEdgeError),
        ({"edge_weight": np.array(["a"])}, NotANumberError),
        ({"sizes": np.array([2, 1])}, GraphError),
        ({"indices": np.array([9])}, GraphError),
        ({"indptr": np.array([0, 2])}, GraphError),
        ({"self_weight": np.ones(3, np.float32)}, GraphError),
        ({"edge_weight": np.ones(1, np.float32)}, GraphError),
        ({"norm": np.array("mean"), "edge_weight": np.full(1, np.nan), "self_weight": np.ones(1)}, GraphError),
        ({"norm": np.array("max")}, GraphError),
    ],
)
def test_a_neighbourhood_from_outside_is_checked(change: dict[str, np.ndarray], error: type[Exception]) -> None:
    good = {
        "x": np.ones((2, 3)),
        "sizes": np.array([1, 2]),
        "indptr": np.array([0, 1]),
        "indices": np.array([1]),
        "edge_weight": np.empty(0),
        "self_weight": np.empty(0),
    }
    assert from_arrays(good).aggregated.tolist() == [[2, 2, 2]]
    with pytest.raises(error):
        from_arrays(good | change)


def test_mean_over_store_degrees_is_refused() -> None:
    with pytest.raises(ConfigError):
        replace(NeighborSampling(1, 3, "mean"), degrees="store")


def test_sparse_rows_from_outside_come_whole(graph: Graph) -> None:
    arrays = stored(graph, sparse=True).sample([5], NeighborSampling(1, 4), 3).arrays()
    with pytest.raises(GraphError, match="x_indptr"):
        from_arrays({key: value for key, value in arrays.items() if key != "x_indptr"})
    with pytest.raises(GraphError, match="no CSR matrix"):
        from_arrays(arrays | {"x_indptr": arrays["x_indptr"][:-1]})
