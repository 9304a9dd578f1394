import numpy as np
import pytest

from ocgl.buffers import SubgraphBuffer
from ocgl.graph import Batch, Graph, MeteredStore, NeighborSampling
from ocgl.graph.neighbor_sampling import Norm
from tests.graph.test_neighborhood import stored
from tests.nn.test_models import ready


def filled(
    graph: Graph, capacity: int, budget: tuple[int, int], offers: int, sampling: NeighborSampling, seed: int = 0
) -> SubgraphBuffer:
    """Offer the first nodes of a graph one by one, each with its own number as label."""
    store = stored(graph)
    buffer = SubgraphBuffer(capacity, budget, 5, sampling, "graph", "counted", seed)
    for centre in range(offers):
        neighborhood = store.sample([centre], sampling, centre)
        buffer.offer_batch(Batch(neighborhood, np.array([centre]), store=MeteredStore(store)))
    return buffer


def dense_forward(buffer: SubgraphBuffer, slot: int, norm: Norm, layers: int) -> np.ndarray:
    """Run the model on one stored subgraph with all its edges, by dense matrices."""
    size = int((buffer._ring[slot] >= 0).sum())
    a = buffer._joined[slot, :size, :size].astype(float) + np.eye(size)
    degree = a.sum(1)
    if norm != "sum":
        a = a / degree[:, None] if norm == "mean" else a / np.sqrt(np.outer(degree, degree))
    *inner, head = (p.detach().numpy().astype(float) for p in ready(layers).parameters())
    head, inner = (head, inner) if layers > 1 else (head, [])
    h = buffer._rows[slot, :size].astype(float)
    for weight in inner:
        h = np.maximum(a @ h @ weight, 0)
    out: np.ndarray = (a @ h @ head.T)[0]
    return out


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
def test_the_union_equals_each_subgraph_by_itself(graph: Graph, norm: Norm, layers: int) -> None:
    buffer = filled(graph, 200, (3, 4), 12, NeighborSampling(layers, None, norm))
    drawn = buffer.draw_nodes(12)
    assert drawn is not None
    neighborhood, labels = drawn
    logits = ready(layers)(neighborhood).detach().numpy()
    for row, label in zip(logits, labels, strict=True):
        np.testing.assert_allclose(row, dense_forward(buffer, int(label), norm, layers), rtol=1e-3, atol=1e-3)


def test_the_capacity_counts_all_nodes(graph: Graph) -> None:
    buffer = filled(graph, 50, (3, 4), 60, NeighborSampling(2))
    assert len(buffer) == 50 // 8 == 6
    assert buffer.nodes <= 50
    small = filled(graph, 7, (3, 4), 10, NeighborSampling(2))
    assert len(small) == 0 and small.draw_nodes(3) is None


def test_a_loaded_buffer_draws_the_same(graph: Graph) -> None:
    buffer = filled(graph, 200, (3, 4), 8, NeighborSampling(2))
    twin = SubgraphBuffer(200, (3, 4), 5, NeighborSampling(2), "graph", "counted", seed=9)
    twin.load_state(buffer.state())
    before, after = (ready(2)(one.draw_nodes(8)[0]).detach() for one in (buffer, twin))  # type: ignore[index]
    assert np.array_equal(before, after)
