import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from ocgl.graph import Look
from ocgl.graph.sparsify import local_adjacency, sparsify
from tests.graph.test_sampling import grown, star


@given(st.integers(0, 999), st.integers(3, 50), st.integers(0, 300), st.integers(0, 6), st.integers(0, 6))
def test_budget_edges_and_distances(seed: int, nodes: int, edges: int, first: int, second: int) -> None:
    store, rows = grown(seed, nodes, edges)
    found = store.sparsified(seed % nodes, (first, second), seed)
    kept = found.nodes.tolist()
    assert kept[0] == seed % nodes and len(kept) == len(set(kept)) <= 1 + first + second
    for i, v in enumerate(kept):
        for j, u in enumerate(kept):
            assert found.joined[i, j] == (u in rows[v])
    near = rows[kept[0]]
    assert [kept[i] in near for i in range(len(kept))] == [r == 1 for r in found.ring]
    assert sorted(found.ring.tolist()) == found.ring.tolist()
    if first:
        assert sum(v in near for v in kept) >= min(first, len(near))
    for v in kept[1:]:
        assert v in near or any(v in rows[u] for u in kept[1:])


def test_first_hop_is_drawn_uniformly() -> None:
    store, counts = star(12), np.zeros(13)
    for key in range(4000):
        counts[store.sparsified(0, (3, 2), key).nodes[1:]] += 1
    expected = 4000 * 3 / 12
    statistic = ((counts[1:] - expected) ** 2 / (expected * 9 / 12)).sum() * 11 / 12
    assert statistic < chi2.ppf(0.999, 11)


def test_hubs_cost_no_more_than_others() -> None:
    """A first-hop node with a thousand neighbours offers at most b2 of them."""
    store = star(1000)
    found = store.sparsified(1, (5, 4), 0)
    assert found.ring.tolist() == [0, 1, 2, 2, 2, 2]


def test_a_look_s_own_edges_serve_without_a_store() -> None:
    store, rows = grown(3, 40, 300)
    seen = store.look([7, 8], Look(2, 3), 1)
    found = sparsify(local_adjacency(seen), 0, (2, 2), 5)
    kept = seen.nodes[found.nodes].tolist()
    assert kept[0] == 7 and len(kept) <= 5
    assert all(kept[j] in rows[kept[i]] for i, j in zip(*np.nonzero(found.joined), strict=True))
