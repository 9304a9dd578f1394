import numpy as np
import pytest

from ocgl.buffers import SubgraphBuffer
from ocgl.graph import Graph, Look
from ocgl.graph.look import Norm
from tests.graph.test_neighborhood import stored
from tests.models.test_models import ready


def filled(graph: Graph, capacity: int, budget: tuple[int, int], offers: int) -> SubgraphBuffer:
    store, rng = stored(graph), np.random.default_rng(0)
    buffer = SubgraphBuffer(capacity, budget, 5, rng)
    for centre in range(offers):
        (slot,) = buffer.offer(1)
        if slot >= 0:
            found = store.sparsified(centre, budget, centre)
            buffer.put(int(slot), found, store.features.take(found.nodes), centre)
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
    buffer = filled(graph, 200, (3, 4), 12)
    drawn = buffer.draw(12, Look(layers, None, norm), np.random.default_rng(1))
    assert drawn is not None
    seen, labels = drawn
    logits = ready(layers)(seen).detach().numpy()
    for row, label in zip(logits, labels, strict=True):
        np.testing.assert_allclose(row, dense_forward(buffer, int(label), norm, layers), rtol=1e-3, atol=1e-3)


def test_the_capacity_counts_all_nodes(graph: Graph) -> None:
    buffer = filled(graph, 50, (3, 4), 60)
    assert len(buffer) == 50 // 8 == 6
    assert buffer.nodes <= 50
    small = filled(graph, 7, (3, 4), 10)
    assert len(small) == 0 and small.draw(3, Look(2), np.random.default_rng(0)) is None


def test_stored_subgraphs_stay_as_they_were(graph: Graph) -> None:
    buffer = filled(graph, 200, (3, 4), 8)
    before = ready(2)(buffer.draw(8, Look(2), np.random.default_rng(1))[0]).detach()  # type: ignore[index]
    twin = SubgraphBuffer(200, (3, 4), 5, np.random.default_rng(9))
    twin.load_state(buffer.state())
    after = ready(2)(twin.draw(8, Look(2), np.random.default_rng(1))[0]).detach()  # type: ignore[index]
    assert np.array_equal(before, after)
