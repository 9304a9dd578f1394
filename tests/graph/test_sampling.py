import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from ocgl.graph import Look, Neighborhood, Store
from tests.conftest import random_graph


def grown(seed: int, nodes: int, edges: int) -> tuple[Store, dict[int, set[int]]]:
    """Give a store that holds a random graph, and its neighbours as sets."""
    graph = random_graph(seed, nodes, edges)
    store = Store()
    sources = np.repeat(np.arange(nodes), np.diff(graph.indptr))
    once = sources < graph.indices
    store.add(np.arange(nodes), graph.x, np.stack([sources[once], graph.indices[once]]))
    rows = {v: set(graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist()) for v in range(nodes)}
    return store, rows


def expansions(seen: Neighborhood) -> list[list[int]]:
    return [seen.nodes[seen.indices[seen.indptr[v] : seen.indptr[v + 1]]].tolist() for v in range(len(seen.indptr) - 1)]


@given(st.integers(0, 9999), st.integers(5, 60), st.integers(0, 400), st.integers(1, 12), st.integers(1, 3))
def test_caps_visibility_and_bound(seed: int, nodes: int, edges: int, fanout: int, hops: int) -> None:
    store, rows = grown(seed, nodes, edges)
    seeds = np.random.default_rng(seed).choice(nodes, min(4, nodes), replace=False)
    look = Look(hops=hops, fanout=fanout)
    seen = store.look(seeds, look, key=seed)
    assert seen.nodes[: len(seeds)].tolist() == seeds.tolist()
    assert len(set(seen.nodes.tolist())) == len(seen.nodes)
    for node, drawn in zip(seen.nodes, expansions(seen), strict=False):
        assert len(drawn) == len(set(drawn)) == min(fanout, len(rows[int(node)]))
        assert set(drawn) <= rows[int(node)]
    assert seen.cost.within(look.bound(len(seeds), store.features.row_bound))
    for hop in range(hops):
        reached = {u for drawn in expansions(seen)[: seen.sizes[hop]] for u in drawn}
        assert reached <= set(seen.nodes[: seen.sizes[hop + 1]].tolist())


@given(st.integers(0, 9999), st.integers(2, 60), st.integers(0, 200), st.integers(1, 3))
def test_all_neighbours_is_breadth_first_search(seed: int, nodes: int, edges: int, hops: int) -> None:
    store, rows = grown(seed, nodes, edges)
    seen = store.look([0, 1], Look(hops=hops, fanout=None), key=0)
    ball = {0, 1}
    for size in seen.sizes[1:]:
        ball |= {u for v in ball for u in rows[v]}
        assert set(seen.nodes[:size].tolist()) == ball
    assert all(set(d) == rows[int(v)] for v, d in zip(seen.nodes, expansions(seen), strict=False))


def star(leaves: int) -> Store:
    store = Store()
    edges = [[0] * leaves, list(range(1, leaves + 1))]
    store.add(np.arange(leaves + 1), np.zeros((leaves + 1, 1)), edges)
    return store


def test_neighbours_of_a_star_are_drawn_uniformly() -> None:
    store, leaves, cap, draws = star(30), 30, 10, 6000
    counts = np.zeros(leaves + 1)
    for key in range(draws):
        counts[store.look([0], Look(1, cap), key).nodes[1:]] += 1
    expected = draws * cap / leaves
    # each leaf is drawn with probability p per look, at most once: variance draws p (1 - p)
    statistic = ((counts[1:] - expected) ** 2 / (expected * (1 - cap / leaves))).sum() * (leaves - 1) / leaves
    assert statistic < chi2.ppf(0.999, leaves - 1)


def test_pairs_of_neighbours_are_drawn_uniformly() -> None:
    store, draws = star(5), 8000
    counts: dict[tuple[int, ...], int] = {}
    for key in range(draws):
        pair = tuple(sorted(store.look([0], Look(1, 2), key).nodes[1:].tolist()))
        counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 10
    assert sum((c - draws / 10) ** 2 / (draws / 10) for c in counts.values()) < chi2.ppf(0.999, 9)


def test_same_key_same_look_and_other_key_other_look() -> None:
    store, _ = grown(1, 60, 900)
    first, again, other = (store.look([3, 4], Look(2, 5), key) for key in (1, 1, 2))
    assert np.array_equal(first.nodes, again.nodes) and np.array_equal(first.indices, again.indices)
    assert not np.array_equal(first.nodes, other.nodes)


def test_a_node_s_draw_depends_on_itself_and_its_degree_only() -> None:
    """The look at a node is the same whoever is asked with it, and changes when its neighbourhood does."""
    store, _ = grown(1, 60, 900)
    alone, together = store.look([3], Look(1, 5), 7), store.look([9, 3, 4], Look(1, 5), 7)
    assert expansions(alone)[0] == expansions(together)[1]
    store.add([100], np.zeros((1, 5)), [[100], [5]])
    assert expansions(store.look([3], Look(1, 5), 7)) == expansions(alone)
    store.add([101], np.zeros((1, 5)), [[101], [3]])
    assert expansions(store.look([3], Look(1, 5), 7)) != expansions(alone)


def test_fanout_per_hop() -> None:
    store, _ = grown(1, 60, 900)
    seen = store.look([3], Look(2, (4, 2)), 0)
    assert [len(d) for d in expansions(seen)] == [4, 2, 2, 2, 2]


def test_many_seeds_outgrow_the_first_table() -> None:
    store, rows = grown(2, 50, 500)
    seen = store.look(np.arange(50), Look(1, None), 0)
    assert all(set(d) == rows[v] for v, d in enumerate(expansions(seen)))
