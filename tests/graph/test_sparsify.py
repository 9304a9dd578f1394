import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from ocgl.graph import MeteredStore, NeighborSampling
from ocgl.graph._kernels.sparsify import sparsify_sample, subgraph_bound
from tests.graph.test_sampling import grown, star


@given(st.integers(0, 999), st.integers(3, 50), st.integers(0, 300), st.integers(0, 6), st.integers(0, 6))
def test_budget_edges_and_distances(seed: int, nodes: int, edges: int, first: int, second: int) -> None:
    store, rows = grown(seed, nodes, edges)
    found = store.subgraph(seed % nodes, (first, second), seed)
    found_nodes = found.nodes.tolist()
    assert found_nodes[0] == seed % nodes and len(found_nodes) == len(set(found_nodes)) <= 1 + first + second
    for i, v in enumerate(found_nodes):
        for j, u in enumerate(found_nodes):
            assert found.joined[i, j] == (u in rows[v])
    near = rows[found_nodes[0]]
    assert [found_nodes[i] in near for i in range(len(found_nodes))] == [r == 1 for r in found.ring]
    assert sorted(found.ring.tolist()) == found.ring.tolist()
    if first:
        assert sum(v in near for v in found_nodes) >= min(first, len(near))
    for v in found_nodes[1:]:
        assert v in near or any(v in rows[u] for u in found_nodes[1:])


def test_first_hop_is_drawn_uniformly() -> None:
    store, counts = star(12), np.zeros(13)
    for key in range(4000):
        counts[store.subgraph(0, (3, 2), key).nodes[1:]] += 1
    expected = 4000 * 3 / 12
    statistic = ((counts[1:] - expected) ** 2 / (expected * 9 / 12)).sum() * 11 / 12
    assert statistic < chi2.ppf(0.999, 11)


def test_hubs_cost_no_more_than_others() -> None:
    """A first-hop node with a thousand neighbours offers at most b2 of them."""
    store = star(1000)
    found = store.subgraph(1, (5, 4), 0)
    assert found.ring.tolist() == [0, 1, 2, 2, 2, 2]


def test_the_sampled_edges_serve_without_a_store() -> None:
    store, rows = grown(3, 40, 300)
    neighborhood = store.sample([7, 8], NeighborSampling(2, 3), 1)
    found = sparsify_sample(neighborhood, 0, (2, 2), 5)
    found_nodes = neighborhood.nodes[found.nodes].tolist()
    assert found_nodes[0] == 7 and len(found_nodes) <= 5
    assert all(found_nodes[j] in rows[found_nodes[i]] for i, j in zip(*np.nonzero(found.joined), strict=True))


@given(st.integers(0, 999), st.integers(3, 50), st.integers(0, 300), st.integers(0, 6), st.integers(0, 6))
def test_a_subgraph_costs_no_more_than_its_bound(seed: int, nodes: int, edges: int, first: int, second: int) -> None:
    store, _ = grown(seed, nodes, edges)
    handle = MeteredStore(store)
    found = handle.subgraph(seed % nodes, (first, second), seed)
    assert handle.cost.nodes == len(found.nodes) and handle.cost.edges == found.reads
    assert handle.cost.within(subgraph_bound((first, second), store.features.row_bound))
    assert found.reads >= int(found.joined.sum()) // 2  # every edge was read
