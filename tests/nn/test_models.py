import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ocgl.graph import Graph, Neighborhood, NeighborSampling, isolated
from ocgl.graph.neighbor_sampling import Norm
from ocgl.nn import GCN, MLP, GrowingAdam, GrowingHead, softmax_gradient
from tests.graph.test_neighborhood import dense_adjacency, normalised, stored


def ready(layers: int, width: int = 5, classes: int = 4, hidden: int = 7) -> GCN:
    model = GCN(width, layers, hidden, np.random.default_rng(0))
    model.head.grow(list(range(classes)), np.random.default_rng(1))
    return model


def slow(model: GCN, neighborhood: Neighborhood) -> Tensor:
    """Transform every node, then aggregate over all edges, layer by layer, with torch's own operations."""
    rows = neighborhood.rows()
    assert isinstance(rows, np.ndarray)
    count = len(neighborhood.nodes)
    matrix = torch.eye(count)
    expanded = len(neighborhood.indptr) - 1
    if len(neighborhood.self_weight):
        matrix[:expanded, :expanded] = torch.diag(torch.from_numpy(neighborhood.self_weight))
    for v in range(expanded):
        for e in range(neighborhood.indptr[v], neighborhood.indptr[v + 1]):
            matrix[v, neighborhood.indices[e]] = (
                float(neighborhood.edge_weight[e]) if len(neighborhood.edge_weight) else 1.0
            )
    h = torch.from_numpy(rows)
    for weight in model.inner:
        h = torch.relu(matrix @ (h @ weight))
    return (matrix @ (h @ model.head.weight.t()))[: neighborhood.seeds]


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
def test_forward_and_gradients_equal_the_slow_model(graph: Graph, layers: int, norm: Norm) -> None:
    model = ready(layers)
    neighborhood = stored(graph).sample([1, 2, 3, 50], NeighborSampling(layers, 3, norm), 7)
    fast, obvious = model(neighborhood), slow(model, neighborhood)
    torch.testing.assert_close(fast, obvious, rtol=1e-4, atol=1e-4)
    targets = torch.tensor([0, 1, 2, 3])
    ours = torch.autograd.grad(nn.functional.cross_entropy(fast, targets), list(model.parameters()))
    theirs = torch.autograd.grad(nn.functional.cross_entropy(obvious, targets), list(model.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_gradients_equal_finite_differences(graph: Graph) -> None:
    model = ready(2)
    neighborhood = stored(graph).sample([1, 2, 3], NeighborSampling(2, 3, "mean"), 7)
    targets = torch.tensor([0, 1, 2])

    def loss() -> Tensor:
        return nn.functional.cross_entropy(model(neighborhood), targets)

    grads = torch.autograd.grad(loss(), list(model.parameters()))
    for parameter, grad in zip(model.parameters(), grads, strict=True):
        place = int(grad.abs().argmax())
        flat = parameter.data.view(-1)
        flat[place] += 1e-2
        up = loss().item()
        flat[place] -= 2e-2
        down = loss().item()
        flat[place] += 1e-2
        assert (up - down) / 2e-2 == pytest.approx(grad.view(-1)[place].item(), rel=0.02)


@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
def test_the_whole_graph_equals_the_dense_formula(graph: Graph, norm: Norm) -> None:
    assert isinstance(graph.x, np.ndarray)
    model = ready(2)
    neighborhood = stored(graph).sample(np.arange(graph.nodes), NeighborSampling(2, None, norm), 0)
    a = normalised(dense_adjacency(graph), norm)
    first, head = (p.detach().numpy().astype(float) for p in model.parameters())
    expected = a @ np.maximum(a @ graph.x @ first, 0) @ head.T
    np.testing.assert_allclose(model(neighborhood).detach().numpy(), expected, rtol=1e-3, atol=1e-3)


def test_an_isolated_node_is_a_plain_network() -> None:
    model = ready(2)
    x = np.random.default_rng(3).random((2, 5), np.float32)
    first, head = (p.detach().numpy() for p in model.parameters())
    np.testing.assert_allclose(
        model(isolated(x, 2)).detach().numpy(), np.maximum(x @ first, 0) @ head.T, rtol=1e-5, atol=1e-6
    )


def test_growth_keeps_old_rows_and_logits() -> None:
    head = GrowingHead(6, bias=True)
    rng = np.random.default_rng(0)
    assert head.grow([4, 2], rng) == 2 and head.labels == [2, 4]
    old = head.weight.data.clone()
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    before = head(x).detach()
    assert head.grow([9, 2], rng) == 1 and head.labels == [2, 4, 9]
    assert torch.equal(head.weight.data[:2], old)
    torch.testing.assert_close(head(x).detach()[:, :2], before, rtol=1e-6, atol=1e-6)
    assert head.grow([9], rng) == 0
    limit = np.sqrt(6 / (6 + 3))
    assert 0 < head.weight.data[2].abs().max() <= limit


def test_a_growing_head_equals_a_full_head_with_unseen_classes_masked() -> None:
    """Same initial values, same batches: the growing one ends where the masked one does."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(30, 5)).astype(np.float32))
    y = np.repeat([0, 1, 2], 10)
    growing = MLP(5, 0, np.random.default_rng(1))
    adam = GrowingAdam(growing, 0.01)
    full = nn.Parameter(torch.zeros(3, 5))
    bias = nn.Parameter(torch.zeros(3))
    reference = torch.optim.Adam([full, bias], lr=0.01)
    for begin in range(0, 30, 5):
        part = slice(begin, begin + 5)
        if growing.head.grow(y[part].tolist(), np.random.default_rng(begin)):
            adam.grow()
            known = len(growing.head.labels)
            full.data[known - 1] = growing.head.weight.data[-1]
        targets = torch.from_numpy(growing.head.targets(y[part]))
        loss = nn.functional.cross_entropy(growing(x[part]), targets)
        adam.apply(torch.autograd.grad(loss, list(growing.parameters())))
        masked = (x[part] @ full.t() + bias)[:, :known]
        reference.zero_grad()
        nn.functional.cross_entropy(masked, targets).backward()  # type: ignore[no-untyped-call]
        reference.step()
    torch.testing.assert_close(growing.head.weight.data, full.data, rtol=1e-5, atol=1e-6)


def test_adam_equals_torch_s_and_pads_with_zeros() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = MLP(4, 3, rng), None
    ours.head.grow([0, 1], rng)
    parameters = [nn.Parameter(p.data.clone()) for p in ours.parameters()]
    adam, theirs = GrowingAdam(ours, 0.05), torch.optim.Adam(parameters, lr=0.05)
    for step in range(20):
        grads = [torch.full_like(p.data, 0.1 * (step - 7)) for p in parameters]
        adam.apply(grads)
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        theirs.step()
    for a, b in zip(ours.parameters(), parameters, strict=True):
        torch.testing.assert_close(a.data, b.data, rtol=1e-5, atol=1e-7)
    before = adam.state().arrays
    ours.head.grow([2], rng)
    adam.grow()
    after = adam.state().arrays
    assert np.array_equal(after["head.weight:first"][:2], before["head.weight:first"])
    assert not after["head.weight:second"][2].any() and after["step"] == 20


def test_closed_form_gradient_equals_autograd() -> None:
    rng = np.random.default_rng(0)
    z, w, b = (rng.normal(size=s).astype(np.float32) for s in ((9, 5), (4, 5), (4,)))
    targets = np.array([0, 1, 2, 3, -100, 1, 2, 0, -100])
    allowed = rng.random((3, 4)) < 0.5
    allowed[np.arange(3), targets[:3]] = True
    weight, bias = nn.Parameter(torch.from_numpy(w)), nn.Parameter(torch.from_numpy(b))
    logits = torch.from_numpy(z) @ weight.t() + bias
    mask = torch.zeros(9, 4, dtype=torch.bool)
    mask[:3] = torch.from_numpy(~allowed)
    loss = nn.functional.cross_entropy(logits.masked_fill(mask, -torch.inf), torch.from_numpy(targets))
    expected = torch.autograd.grad(loss, [weight, bias])
    for ours, theirs in zip(softmax_gradient(z, w, b, targets, allowed), expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-6)
