import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from ocgl.graph import GraphStore, Neighborhood, NeighborSampling
from tests.conftest import random_graph


def grown(seed: int, nodes: int, edges: int) -> tuple[GraphStore, dict[int, set[int]]]:
    """Give a store that holds a random graph, and its neighbours as sets."""
    graph = random_graph(seed, nodes, edges)
    store = GraphStore()
    sources = np.repeat(np.arange(nodes), np.diff(graph.indptr))
    once = sources < graph.indices
    store.add(np.arange(nodes), graph.x, np.stack([sources[once], graph.indices[once]]))
    rows = {v: set(graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist()) for v in range(nodes)}
    return store, rows


def expansions(neighborhood: Neighborhood) -> list[list[int]]:
    return [
        neighborhood.nodes[neighborhood.indices[neighborhood.indptr[v] : neighborhood.indptr[v + 1]]].tolist()
        for v in range(len(neighborhood.indptr) - 1)
    ]


@given(st.integers(0, 9999), st.integers(5, 60), st.integers(0, 400), st.integers(1, 12), st.integers(1, 3))
def test_caps_visibility_and_bound(seed: int, nodes: int, edges: int, fanout: int, hops: int) -> None:
    store, rows = grown(seed, nodes, edges)
    seeds = np.random.default_rng(seed).choice(nodes, min(4, nodes), replace=False)
    sampling = NeighborSampling(hops=hops, fanout=fanout)
    neighborhood = store.sample(seeds, sampling, key=seed)
    assert neighborhood.nodes[: len(seeds)].tolist() == seeds.tolist()
    assert len(set(neighborhood.nodes.tolist())) == len(neighborhood.nodes)
    for node, drawn in zip(neighborhood.nodes, expansions(neighborhood), strict=False):
        assert len(drawn) == len(set(drawn)) == min(fanout, len(rows[int(node)]))
        assert set(drawn) <= rows[int(node)]
    assert neighborhood.cost.within(sampling.bound(len(seeds), store.features.row_bound))
    for hop in range(hops):
        reached = {u for drawn in expansions(neighborhood)[: neighborhood.sizes[hop]] for u in drawn}
        assert reached <= set(neighborhood.nodes[: neighborhood.sizes[hop + 1]].tolist())


@given(st.integers(0, 9999), st.integers(2, 60), st.integers(0, 200), st.integers(1, 3))
def test_all_neighbours_is_breadth_first_search(seed: int, nodes: int, edges: int, hops: int) -> None:
    store, rows = grown(seed, nodes, edges)
    neighborhood = store.sample([0, 1], NeighborSampling(hops=hops, fanout=None), key=0)
    ball = {0, 1}
    for size in neighborhood.sizes[1:]:
        ball |= {u for v in ball for u in rows[v]}
        assert set(neighborhood.nodes[:size].tolist()) == ball
    assert all(set(d) == rows[int(v)] for v, d in zip(neighborhood.nodes, expansions(neighborhood), strict=False))


def star(leaves: int) -> GraphStore:
    store = GraphStore()
    edges = [[0] * leaves, list(range(1, leaves + 1))]
    store.add(np.arange(leaves + 1), np.zeros((leaves + 1, 1)), edges)
    return store


def test_neighbours_of_a_star_are_drawn_uniformly() -> None:
    store, leaves, cap, draws = star(30), 30, 10, 6000
    counts = np.zeros(leaves + 1)
    for key in range(draws):
        counts[store.sample([0], NeighborSampling(1, cap), key).nodes[1:]] += 1
    expected = draws * cap / leaves
    # each leaf is drawn with probability p per look, at most once: variance draws p (1 - p)
    statistic = ((counts[1:] - expected) ** 2 / (expected * (1 - cap / leaves))).sum() * (leaves - 1) / leaves
    assert statistic < chi2.ppf(0.999, leaves - 1)


def test_pairs_of_neighbours_are_drawn_uniformly() -> None:
    store, draws = star(5), 8000
    counts: dict[tuple[int, ...], int] = {}
    for key in range(draws):
        pair = tuple(sorted(store.sample([0], NeighborSampling(1, 2), key).nodes[1:].tolist()))
        counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 10
    assert sum((c - draws / 10) ** 2 / (draws / 10) for c in counts.values()) < chi2.ppf(0.999, 9)


def test_same_key_same_sample_and_other_key_other_sample() -> None:
    store, _ = grown(1, 60, 900)
    first, again, other = (store.sample([3, 4], NeighborSampling(2, 5), key) for key in (1, 1, 2))
    assert np.array_equal(first.nodes, again.nodes) and np.array_equal(first.indices, again.indices)
    assert not np.array_equal(first.nodes, other.nodes)


def test_a_node_s_draw_depends_on_itself_and_its_degree_only() -> None:
    """The look at a node is the same whoever is asked with it, and changes when its neighbourhood does."""
    store, _ = grown(1, 60, 900)
    alone, together = store.sample([3], NeighborSampling(1, 5), 7), store.sample([9, 3, 4], NeighborSampling(1, 5), 7)
    assert expansions(alone)[0] == expansions(together)[1]
    store.add([100], np.zeros((1, 5)), [[100], [5]])
    assert expansions(store.sample([3], NeighborSampling(1, 5), 7)) == expansions(alone)
    store.add([101], np.zeros((1, 5)), [[101], [3]])
    assert expansions(store.sample([3], NeighborSampling(1, 5), 7)) != expansions(alone)


def test_fanout_per_hop() -> None:
    store, _ = grown(1, 60, 900)
    neighborhood = store.sample([3], NeighborSampling(2, (4, 2)), 0)
    assert [len(d) for d in expansions(neighborhood)] == [4, 2, 2, 2, 2]


def test_many_seeds_outgrow_the_first_table() -> None:
    store, rows = grown(2, 50, 500)
    neighborhood = store.sample(np.arange(50), NeighborSampling(1, None), 0)
    assert all(set(d) == rows[v] for v, d in enumerate(expansions(neighborhood)))
