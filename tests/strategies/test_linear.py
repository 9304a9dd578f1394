import numpy as np
import pytest

from ocgl.buffers import VectorBuffer
from ocgl.graph import Graph, Labels
from ocgl.strategies import Learner
from ocgl.strategies.linear import Linear
from ocgl.streams import class_stream
from ocgl.testing import batches, same, taught
from tests.graph.test_neighborhood import dense_adjacency, stored


def test_z_is_the_mean_over_the_node_and_its_neighbours(graph: Graph) -> None:
    assert isinstance(graph.x, np.ndarray)
    linear = Linear(fanout="all")
    z = linear.features(stored(graph).sample(np.arange(graph.nodes), linear.sampling, 0))
    a = dense_adjacency(graph)
    np.testing.assert_allclose(z, a / a.sum(1, keepdims=True) @ graph.x, rtol=1e-5, atol=1e-5)


def test_a_node_without_neighbours_is_its_own_features() -> None:
    learner = Learner(Linear())
    learner.store.add([1], np.array([[2.0, 3.0]]))
    assert learner.strategy.sampling.norm == "mean"
    assert learner.batch(Labels(np.array([1]), np.array([0]))).neighborhood.aggregated.tolist() == [[2, 3]]


def test_parameters_are_one_row_per_class_with_bias(graph: Graph) -> None:
    linear = Linear()
    taught(linear, class_stream(graph))
    assert sum(p.numel() for p in linear.model.parameters()) == (5 + 1) * 6


def test_memories_stay_as_they_were_on_arrival(graph: Graph) -> None:
    linear = Linear(buffer_size=1000)
    learner = Learner(linear)
    kept: list[np.ndarray] = []
    for batch in batches(learner, class_stream(graph)):
        learner.learn(batch)
        kept.append(batch.neighborhood.aggregated.copy())
    np.testing.assert_array_equal(linear.buffer.state().arrays["vectors"], np.concatenate(kept))


def test_an_empty_memory_leaves_plain_descent(graph: Graph) -> None:
    """Without a buffer the step is the mean cross-entropy of the batch alone."""
    none, other = Linear(buffer_size=0, seed=1), Linear(buffer_size=0, memory_proportion=3, seed=1)
    stream = class_stream(graph)
    assert same(taught(none, stream).strategy.state(), taught(other, stream).strategy.state())


def test_replay_can_join_the_batch_in_one_mean(graph: Graph) -> None:
    """One step equals the step of a plain model on batch and memories together."""
    stream = class_stream(graph)
    linear = Linear(buffer_size=1000, memory_proportion=3, lr=0.1, replay_loss="one_mean")
    learner = taught(linear, stream, 6)
    batch = learner.batch(Labels(stream.held_out(0)[:4], graph.y[stream.held_out(0)[:4]]))
    twin = linear.clone()
    vectors, labels = twin.buffer.draw(3 * 4)
    both = np.concatenate([twin.features(batch.neighborhood), vectors])
    plain = linear.clone()
    plain.buffer = VectorBuffer(0, 5, seed=0)
    plain.step(both, plain.head.targets(np.concatenate([batch.labels, labels])), None)
    linear.learn(batch)
    for ours, theirs in zip(linear.model.parameters(), plain.model.parameters(), strict=True):
        np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-5, atol=1e-6)


def test_many_passes_converge_to_logistic_regression(graph: Graph) -> None:
    from sklearn.linear_model import LogisticRegression

    ids = np.nonzero(graph.y >= 0)[0]
    linear = Linear(lr=0.05, passes=4000, buffer_size=0, fanout="all")
    learner = Learner(linear)
    stream = class_stream(graph, classes_per_task=6)
    learner.arrive(stream.arrival(stream.order))
    batch = learner.learn(learner.batch(Labels(ids, graph.y[ids])))
    z = linear.features(batch.neighborhood)
    reference = LogisticRegression(C=np.inf, max_iter=20000, tol=1e-10).fit(z, graph.y[ids])
    ours = linear.predict(batch.neighborhood)
    assert (ours == reference.predict(z)).mean() > 0.99


@pytest.mark.parametrize("buffer_size", [0, 3, 50])
def test_memory_counts(graph: Graph, buffer_size: int) -> None:
    linear = Linear(buffer_size=buffer_size)
    taught(linear, class_stream(graph))
    assert linear.memory_nodes == min(buffer_size, linear.buffer._slots.offered)
    assert linear.memory_bytes == 3 * 4 * 6 * 6 + buffer_size * (5 * 4 + 8)
