"""Networks on sampled neighbourhoods: GCN with options, shipped layers, tensors on devices, in and out of PyG."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GINConv, GraphSAGE, SGConv

from ocgl.errors import ConfigError, MissingExtraError
from ocgl.graph import Graph, GraphStore, Neighborhood, NeighborSampling
from ocgl.graph.neighbor_sampling import Norm
from ocgl.nn import GCN, GCNOptions, GraphNetwork, gradients_of
from ocgl.nn.backbones import NAMES, shipped
from ocgl.nn.gcn import aggregate, aggregate_with_torch
from ocgl.nn.inputs import inputs_of
from ocgl.rng import seeded_torch
from ocgl.strategies import Learner, make_strategy
from ocgl.streams import batches, class_stream
from ocgl.testing import small_graph
from tests.graph.test_neighborhood import stored
from tests.nn.test_models import slow
from tests.strategies.slow import matrix_of, rows_of

CPU = torch.device("cpu")


def sampled(graph: Graph, layers: int = 2, norm: Norm = "sum") -> Neighborhood:
    return stored(graph).sample([1, 2, 3, 50], NeighborSampling(layers, 3, norm), 7)


def made(layers: int, **options: Any) -> GCN:
    model = GCN(5, layers, 7, np.random.default_rng(0), options=GCNOptions(**options))
    model.head.grow([0, 1, 2, 3], np.random.default_rng(1))
    return model


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
def test_the_layers_in_torch_equal_the_fast_path(graph: Graph, layers: int, norm: Norm) -> None:
    model, neighborhood = made(layers), sampled(graph, layers, norm)
    torch.testing.assert_close(model._composed(neighborhood), model(neighborhood), rtol=1e-5, atol=1e-5)
    fast = gradients_of(model, model(neighborhood).square().sum())
    composed = torch.autograd.grad(model._composed(neighborhood).square().sum(), list(model.parameters()))
    for ours, theirs in zip(fast, composed, strict=True):
        assert isinstance(ours, Tensor)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
def test_sums_on_any_device_equal_those_of_the_kernels(graph: Graph, norm: Norm) -> None:
    neighborhood = sampled(graph, 2, norm)
    found = []
    for function in (aggregate, aggregate_with_torch):
        hidden = torch.randn(neighborhood.sizes[1], 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
        summed = function(hidden, neighborhood, 2)
        found.append((summed, *torch.autograd.grad(summed.pow(3).sum(), [hidden])))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def obvious(model: GCN, neighborhood: Neighborhood) -> Tensor:
    """The options by their equations, on all nodes: bias, layer normalisation, ReLU, residual connection."""
    a, h = matrix_of(neighborhood), rows_of(neighborhood)
    before: Tensor | None = None
    for layer, weight in enumerate(model.inner):
        h = a @ h @ weight
        h = h + model.biases[layer] if model.options.bias else h
        if model.options.layer_norm:
            mean, variance = h.mean(1, keepdim=True), h.var(1, keepdim=True, unbiased=False)
            norm = model.norms[layer]
            assert isinstance(norm, nn.LayerNorm)
            h = (h - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias
        h = h.relu()
        h = h + before if model.options.residual and before is not None else h
        before = h
    out = a @ h @ model.head.weight.t()
    return (out + model.head.bias if model.head.bias is not None else out)[: neighborhood.seeds]


@pytest.mark.parametrize("option", ["bias", "residual", "layer_norm"])
def test_options_of_the_gcn_follow_their_equations(graph: Graph, option: str) -> None:
    model, neighborhood = made(3, **{option: True}), sampled(graph, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    torch.testing.assert_close(model(neighborhood), obvious(model, neighborhood), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(model(neighborhood), slow(model, neighborhood))


def test_dropout_of_the_gcn_draws_in_training_only(graph: Graph) -> None:
    model, neighborhood = made(2, dropout=0.5), sampled(graph)
    assert not torch.equal(model(neighborhood), model(neighborhood)) and not model.draws_nothing
    model.eval()
    torch.testing.assert_close(model(neighborhood), slow(model, neighborhood), rtol=1e-4, atol=1e-4)


def network(name: str, layers: int = 2) -> GraphNetwork:
    torch.manual_seed(0)
    model = GraphNetwork(shipped(name), 5, layers, 16, "glorot", name)
    model.head.grow([0, 1, 2], np.random.default_rng(0))
    return model


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_rows_that_no_seed_needs_are_left_out_without_a_difference(graph: Graph, name: str, layers: int) -> None:
    model, neighborhood = network(name, layers), sampled(graph, layers)
    given = inputs_of(neighborhood, CPU)
    rows = model.layers(given.x, given.edge_index)  # all nodes
    assert len(rows) == len(neighborhood.nodes)
    assert isinstance(model.head, nn.Module)
    torch.testing.assert_close(model(neighborhood), model.head(rows[:4]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["gat", "gin", "sgc"])
def test_shipped_layers_are_those_of_pyg(graph: Graph, name: str) -> None:
    net, neighborhood = network(name).layers, sampled(graph)
    given = inputs_of(neighborhood, CPU)
    if name == "sgc":
        theirs: nn.Module = SGConv(5, 16, K=2)
        theirs.load_state_dict(net.layer.state_dict())  # type: ignore[union-attr]
        expected = theirs(given.x, given.edge_index)
    else:
        expected = given.x
        for layer in net.layers:  # type: ignore[union-attr]
            conv = GATConv(expected.shape[1], 2, heads=8) if name == "gat" else GINConv(layer.nn)
            conv.load_state_dict(layer.state_dict())
            expected = conv(expected, given.edge_index).relu()
    torch.testing.assert_close(net(given.x, given.edge_index), expected, rtol=1e-5, atol=1e-5)


def test_to_pyg_has_what_pygs_loader_would_give() -> None:
    """A path of five nodes, two hops from the middle one: there is one sample only."""
    x = torch.arange(10.0).reshape(5, 2)
    store = GraphStore()
    store.add([10, 11, 12, 13, 14], x.numpy(), [[10, 11, 12, 13], [11, 12, 13, 14]])
    data = store.sample([12], NeighborSampling(2, 2), 0).to_pyg()
    assert (data.num_sampled_nodes, data.num_sampled_edges, data.batch_size) == ([1, 2, 2], [2, 4], 1)
    assert data.ids.tolist() == (data.n_id + 10).tolist() and data.ids[0] == 12
    assert torch.equal(data.x, x[data.n_id]) and data.edge_weight is None
    sent = {(int(data.n_id[s]), int(data.n_id[t])) for s, t in data.edge_index.t()}
    assert sent == {(1, 2), (3, 2), (0, 1), (2, 1), (2, 3), (4, 3)}
    assert data.validate() and not data.has_self_loops()


def test_pygs_own_models_take_the_numbers_per_hop(graph: Graph) -> None:
    torch.manual_seed(0)
    model, neighborhood = GraphSAGE(5, 8, 2), sampled(graph)
    data = neighborhood.to_pyg()
    trimmed = model(
        data.x,
        data.edge_index,
        num_sampled_nodes_per_hop=data.num_sampled_nodes,
        num_sampled_edges_per_hop=data.num_sampled_edges,
    )
    assert len(trimmed) < len(data.x)
    torch.testing.assert_close(trimmed[:4], model(data.x, data.edge_index)[:4])


def test_to_pyg_is_a_copy_with_the_weights_that_were_asked_for(graph: Graph) -> None:
    neighborhood = sampled(graph, 2, "sym")
    data = neighborhood.to_pyg()
    assert data.edge_weight.tolist() == neighborhood.edge_weight.tolist()
    data.x += 1
    data.edge_weight += 1
    data.edge_index += 1
    again = neighborhood.to_pyg(device="cpu")
    assert not torch.equal(data.x, again.x) and not torch.equal(data.edge_index, again.edge_index)
    assert "ids" not in neighborhood.detached().to_pyg()


def test_without_torch_geometric_the_extra_is_named(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith(("torch_geometric", "ocgl.nn.backbones."))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(MissingExtraError, match=r"ocgl\[pyg\]"):
        shipped("sage")
    with pytest.raises(MissingExtraError, match=r"ocgl\[pyg\]"):
        sampled(graph).to_pyg()


@pytest.mark.slow
def test_every_strategy_updates_on_an_accelerator_that_is_not_there() -> None:
    ended = subprocess.run([sys.executable, "-m", "tests.nn.fake_device"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads(ended.stdout)
    assert "at least two devices" in found.pop("mixing") and "DataDependent" in found.pop("waiting")
    assert len(found) >= 70 and {name: said for name, said in found.items() if said != "ok"} == {}


class Needs(nn.Module):
    """Has an edge_weight without a default."""

    def __init__(self, in_channels: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels, hidden)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        assert edge_weight is None
        return self.linear(x)  # type: ignore[no-any-return]


class FailsInTraining(Needs):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if self.training:
            raise RuntimeError("not in training")
        return super().forward(x, edge_index, None)


class FailsWithoutEdges(Needs):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return super().forward(x, edge_index, None) + edge_index.max()


class RedrawsItsHead(nn.Module):
    def __init__(self, in_channels: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.head = nn.Linear(in_channels, 1)
        self.width = in_channels

    def grow(self, classes: int) -> None:
        self.head = nn.Linear(self.width, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.head(x)  # type: ignore[no-any-return]


class WrongScores(Needs):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return super().forward(x, edge_index, None)

    def edge_scores(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return torch.ones(edge_index.shape[1])


@pytest.mark.parametrize(
    ("strategy", "network", "text"),
    [
        ("er", FailsInTraining, "fails on three nodes in training"),
        ("er", FailsWithoutEdges, "fails on three nodes without edges"),
        ("er", RedrawsItsHead, "draws its old outputs anew"),
        ("twp", WrongScores, "edge_scores of the network WrongScores must return"),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_batch(strategy: str, network: type, text: str) -> None:
    learner = Learner(make_strategy(strategy, backbone=network, hidden=4))
    learner.add([0, 1], np.eye(2))
    with pytest.raises(ConfigError, match=text):
        learner.learn([0, 1], [0, 1])
    assert learner.strategy.updates == 0


def test_an_edge_weight_without_a_default_is_none() -> None:
    learner = Learner(make_strategy("er", backbone=Needs, hidden=4))
    learner.add([0, 1], np.eye(2), [[1], [0]])
    learner.learn([0, 1], [0, 1])
    assert learner.predict([0]).tolist()[0] in (0, 1)


def test_draws_on_a_device_go_by_the_same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator of the device is seeded with the key's number, and put back."""
    calls: list[tuple[str, object]] = []

    class Device:
        get_rng_state = staticmethod(lambda: "before")
        set_rng_state = staticmethod(lambda state: calls.append(("set", state)))
        manual_seed = staticmethod(lambda seed: calls.append(("seed", seed)))

    monkeypatch.setattr(torch, "imaginary", Device, raising=False)
    for _ in range(2):
        with seeded_torch(3, 1, device="imaginary"):
            pass
    assert calls[0] == calls[2] and calls[0][0] == "seed" and calls[1] == ("set", "before")


def test_batches_refuse_a_device_that_is_not_there() -> None:
    stream = class_stream(small_graph())
    with pytest.raises(ConfigError, match="there is no device nowhere"):
        batches(stream, NeighborSampling(2, 5), device="nowhere")
