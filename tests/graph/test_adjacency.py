import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocgl.graph._kernels.rows import capacity
from ocgl.graph.adjacency import Adjacency, in_order


def test_size_classes_grow_by_half_or_a_third() -> None:
    assert [capacity(c) for c in range(7)] == [4, 6, 8, 12, 16, 24, 32]


@given(st.integers(0, 10_000), st.integers(2, 80), st.floats(0.02, 0.9))
def test_rows_are_the_neighbours_in_order_of_arrival(seed: int, nodes: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    later, earlier = np.nonzero(np.tril(rng.random((nodes, nodes)) < density, -1))
    graph = Adjacency()
    begin = 0
    while begin < nodes:  # arrive in random portions
        end = min(nodes, begin + int(rng.integers(1, 9)))
        graph.add_nodes(end - begin)
        now = (later >= begin) & (later < end)
        graph.add_edges(later[now].astype(np.int32), earlier[now].astype(np.int32))
        begin = end
    for node in range(nodes):
        expected = sorted([*earlier[later == node].tolist(), *later[earlier == node].tolist()])
        assert graph.neighbors(node).tolist() == expected
    assert graph.edges == len(later)


def test_the_pool_stays_within_twice_the_edges() -> None:
    """Room that full rows leave is given to others: growth does not pile up garbage."""
    rng = np.random.default_rng(0)
    nodes, degree = 4000, 20
    graph = Adjacency()
    for node in range(nodes):
        graph.add_nodes(1)
        count = min(node, degree // 2)
        earlier = np.sort(rng.choice(node, count, replace=False)) if count else np.empty(0)
        graph.add_edges(np.full(count, node, np.int32), earlier.astype(np.int32))
    used = graph.nbytes - nodes * (16 + 1)
    assert used < 2 * (4 * 2 * graph.edges)


@pytest.mark.parametrize(("old", "new"), [(1000, 1000), (3, 500), (0, 40), (50, 1)])
def test_the_room_made_is_enough_whatever_arrives(old: int, new: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1,000 isolated nodes and 1,000 new ones joined to all of them, the room was too small by a tenth."""
    graph = Adjacency()
    graph.add_nodes(old)
    later, earlier = (side.ravel().astype(np.int32) for side in np.meshgrid(np.arange(old, old + new), np.arange(old)))
    graph.make_room(*in_order(later, earlier))
    graph.add_nodes(new)

    def refuse(*_: object) -> None:
        raise AssertionError("the pool had to grow while edges were added")

    monkeypatch.setattr(graph._pool, "reserve", refuse)
    graph.add_edges(*in_order(later, earlier))
    assert graph.edges == old * new
