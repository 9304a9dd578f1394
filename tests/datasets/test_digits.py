import numpy as np
from sklearn.datasets import load_digits

from ocgl.datasets import catalogue, load_dataset
from ocgl.datasets.digits import nearest


def test_is_what_scikit_learn_ships() -> None:
    graph, theirs = load_dataset("digits"), load_digits()
    np.testing.assert_array_equal(np.asarray(graph.x), theirs.data)
    np.testing.assert_array_equal(graph.y, theirs.target)
    assert isinstance(graph.x, np.ndarray)
    assert graph.x.dtype == np.float32


def test_graph_and_note() -> None:
    graph = load_dataset("digits")
    assert np.diff(graph.indptr).min() >= 8
    assert graph.time is None and "8 nearest" in graph.notes[0]
    (entry,) = (entry for entry in catalogue() if entry.name == "digits")
    assert (entry.nodes, entry.edges) == (graph.nodes, graph.edges)


def test_nearest_by_hand_with_ties_to_the_lower_index() -> None:
    x = np.array([[0], [1], [2], [2], [9]], np.uint8)
    edges = nearest(x, 1)
    assert edges.tolist() == [[0, 1, 2, 3, 4], [1, 0, 3, 2, 2]]


def test_nearest_against_brute_force() -> None:
    x = np.random.default_rng(0).integers(0, 4, (40, 3)).astype(np.uint8)
    found = nearest(x, 5)[1].reshape(40, 5)
    for i, row in enumerate(x.astype(int)):
        order = sorted((int(((row - other) ** 2).sum()), j) for j, other in enumerate(x.astype(int)) if j != i)
        assert found[i].tolist() == sorted(j for _, j in order[:5])
