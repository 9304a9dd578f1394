"""A network is a part that is chosen: shipped ones, anyone's own, and what cannot work is refused by name."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GraphSAGE

from ocgl.code import code_files, code_hash
from ocgl.errors import ConfigError, DeviceWarning, StateError, UnknownNameError
from ocgl.experiments.config import configure
from ocgl.experiments.identity import run_id
from ocgl.experiments.trust import needs_trust
from ocgl.graph import Graph
from ocgl.strategies import ER, TWP, GradientStrategy, Learner, Linear, make_strategy
from ocgl.strategies._core.backbones import NAMES
from ocgl.streams import class_stream
from ocgl.testing import CHECKS, same, taught
from ocgl.testing.strategies import batches

PLAIN = """
import torch
from helper import WIDER

class Net(torch.nn.Module):
    def __init__(self, in_channels, hidden, layers):
        super().__init__()
        self.lin = torch.nn.Linear(in_channels, WIDER * hidden)

    def forward(self, x, edge_index):
        return self.lin(x).relu()
"""


class Weighted(nn.Module):
    """Takes weights of edges, and remembers what it was given."""

    def __init__(self, in_channels: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.conv = GCNConv(in_channels, hidden, normalize=False)
        self.given: list[Tensor | None] = []

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        self.given.append(edge_weight)
        rows: Tensor = self.conv(x, edge_index, edge_weight)
        return rows


class OwnHead(nn.Module):
    """Brings its own head, which grows by columns."""

    def __init__(self, in_channels: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, hidden)
        self.out = nn.Parameter(torch.empty(hidden, 0))

    def grow(self, classes: int) -> None:
        fresh = torch.randn(self.out.shape[0], classes - self.out.shape[1]) * 0.1
        self.out = nn.Parameter(torch.cat([self.out.data, fresh], 1))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        rows: Tensor = self.lin(x).relu() @ self.out
        return rows


class Awkward(nn.Module):
    """Batch normalisation, dropout, a lazy layer, a frozen and an unused parameter, one shared by two layers."""

    def __init__(self, in_channels: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.first = nn.LazyLinear(hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.second, self.third = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.third.weight = self.second.weight
        self.frozen = nn.Parameter(torch.ones(hidden), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(3))
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = nn.functional.dropout(self.norm(self.first(x)).relu(), 0.5, self.training)
        rows: Tensor = self.third(self.second(h).relu()) * self.frozen * self.scale
        return rows


class Summing(nn.Module):
    """Returns one row for all nodes."""

    def __init__(self, in_channels: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, hidden)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        row: Tensor = self.lin(x).sum(0, keepdim=True)
        return row


class Narrow(Summing):
    """Knows features of width 3 only."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return nn.functional.linear(x, torch.ones(4, 3))


class Double(Narrow):
    """Returns numbers in double precision."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x.double()


class Extra(Double):
    """Keeps state beside parameters and buffers."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x * 2

    def get_extra_state(self) -> int:
        return 3


class Late(Summing):
    """Makes a buffer in its first training pass."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.training and not hasattr(self, "seen"):
            self.register_buffer("seen", torch.ones(1))
        rows: Tensor = self.lin(x)
        return rows


class Careless(Summing):
    """Drops units also when it predicts."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return nn.functional.dropout(self.lin(x), 0.5)


class Overwriting(Summing):
    """Changes its input in place, as dropout with inplace=True does."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        rows: Tensor = self.lin(x.mul_(0.5))
        return rows


class Copying(Overwriting):
    """The same on a copy."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x.clone(), edge_index)


class Growing(OwnHead):
    """Adds a parameter with every class."""

    def grow(self, classes: int) -> None:
        super().grow(classes)
        self.register_parameter(f"class_{classes}", nn.Parameter(torch.zeros(1)))


@pytest.mark.parametrize("backbone", [OwnHead, Awkward, Weighted, GraphSAGE], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["er", "ewc", "lwf", "a-gem"])
def test_networks_as_they_are_pass_the_contract(graph: Graph, name: str, backbone: type[nn.Module]) -> None:
    for check in CHECKS:
        if check.__name__ != "continues_in_a_new_process":
            check(lambda: make_strategy(name, seed=3, hidden=16, passes=2, backbone=backbone), graph)


def test_edges_are_weighted_where_the_strategy_asks_for_it(graph: Graph) -> None:
    for norm, weighted in (("sum", False), ("sym", True)):
        strategy = make_strategy("bare", backbone=Weighted, norm=norm, hidden=8)
        taught(strategy, class_stream(graph), 3)
        assert isinstance(strategy, GradientStrategy) and isinstance(strategy.model.layers, Weighted)
        given = strategy.model.layers.given[1:]  # the first is of the three nodes that it was tried with
        assert len(given) == 3 and all((weights is not None) == weighted for weights in given)


def test_a_network_draws_by_the_seed_and_leaves_the_generator_as_it_was(graph: Graph) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = taught(ER(seed=1, backbone=Awkward, hidden=8), class_stream(graph)).state()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert same(first, taught(ER(seed=1, backbone=Awkward, hidden=8), class_stream(graph)).state())
    other = taught(ER(seed=2, backbone=Awkward, hidden=8), class_stream(graph)).state()
    assert not same(first, other)


def test_a_network_without_edges_samples_none(graph: Graph) -> None:
    learner = taught(ER(backbone="mlp", hidden=8), class_stream(graph))
    assert learner.strategy.sampling.hops == 0
    assert learner.store.sample([int(learner.store.ids[0])], learner.strategy.sampling, 0).cost.edges == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"backbone": "saeg"}, "sage"),
        ({"backbone": "missing.py:Net"}, "no file"),
        ({"backbone": "torch_geometric.nn:Nothing"}, "Nothing"),
        ({"backbone": "nowhere.at.all:Net"}, "cannot be imported"),
        ({"backbone": nn.Linear(2, 2)}, "give the class Linear itself"),
        ({"backbone": "sage", "norm": "sym"}, "takes no edge_weight"),
        ({"backbone": "sage", "bias": True}, "bias is an option of backbone=gcn"),
        ({"backbone": Summing, "dropout": 0.5}, "dropout is an option of backbone=gcn"),
        ({"backbone": 3}, "backbone"),
        ({"backbone": partial(Weighted)}, "not a partial"),
        ({"backbone": ":Net"}, "write path/to/file.py:Net"),
        ({"backbone": "tests.strategies.test_backbones:Weighted"}, "test_backbones.py:Weighted"),
        ({"residual": True}, "it needs layers=3"),
        ({"layer_norm": True, "layers": 1}, "it needs layers=2"),
    ],
)
def test_what_cannot_work_is_refused_when_the_strategy_is_made(settings: dict[str, Any], said: str) -> None:
    with pytest.raises((ConfigError, UnknownNameError), match=said):
        make_strategy("er", **settings)


@pytest.mark.parametrize(
    ("backbone", "said"),
    [
        (Summing, "one row per node: for 3 nodes it returned"),
        (Narrow, "fails on three nodes with 5 features"),
        (Growing, "adds parameters when it grows"),
        (lambda *_: 7, "makes a int, not a torch module"),
        (lambda: nn.Linear(1, 1), "cannot be made with"),
        (lambda *sizes: Summing(*sizes).double(), "fails on three nodes"),
        (Double, "computes in torch.float64"),
        (Extra, "keeps extra state"),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_batch(graph: Graph, backbone: Any, said: str) -> None:
    learner = Learner(ER(backbone=backbone))
    with pytest.raises(ConfigError, match=said):
        taught(learner.strategy, class_stream(graph), 1)
    assert learner.strategy.updates == 0


def test_twp_needs_scores_of_edges() -> None:
    with pytest.raises(ConfigError, match="Summing has no edge_scores"):
        make_strategy("twp", backbone=Summing)
    for name in NAMES:
        TWP(backbone=name)


def test_gat_gives_twp_its_own_attention(graph: Graph) -> None:
    strategy = TWP(backbone="gat", hidden=16)
    learner = taught(strategy, class_stream(graph), 6)
    neighborhood = learner.store.sample(learner.store.ids[:7], strategy.sampling, 0)
    scores = strategy.model.attention(neighborhood)  # type: ignore[operator]
    nodes = len(neighborhood.nodes)
    assert scores.shape == (neighborhood.edge_index.shape[1] + nodes, 8)
    receivers = np.concatenate([neighborhood.edge_index[1], np.arange(nodes)])
    for head in scores.detach().numpy().T:
        np.testing.assert_allclose(np.bincount(receivers, head, nodes), 1, rtol=1e-5)
    weights = strategy.importances._weights["topology"]
    named = zip(strategy.model.named_parameters(), weights, strict=True)
    touched = {name for (name, _), weight in named if weight.any()}
    assert touched and all(name.startswith("layers.layers.0.") for name in touched)


def test_the_file_of_a_network_is_part_of_an_identity(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("WIDER = 2\n")
    (tmp_path / "net.py").write_text(PLAIN)
    spec = f"{tmp_path}/net.py:Net"
    config = configure("digits", "er", overrides={"backbone": spec})
    assert {"network.py", "network helper helper.py"} <= code_files("er", spec).keys()

    def name() -> str:
        return run_id(config, config.resolved({"all": 100}), "stream")

    first = name()
    assert first != run_id(configure("digits", "er"), {}, "stream")
    (tmp_path / "helper.py").write_text("WIDER = 3  # a comment\n")
    changed = name()
    assert changed != first
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for file in ("helper.py", "net.py"):
        (moved / file).write_text((tmp_path / file).read_text())
    there = configure("digits", "er", overrides={"backbone": f"{moved}/net.py:Net"})
    assert run_id(there, there.resolved({"all": 100}), "stream") == changed
    assert "execute" in str(needs_trust(config)) and needs_trust(configure("digits", "er")) is None


def test_shipped_networks_are_told_apart_and_leave_the_gcn_alone() -> None:
    hashes = {name: code_hash("er", name) for name in NAMES}
    assert len(set(hashes.values())) == len(NAMES) and hashes["gcn"] == code_hash("er")
    assert not any("backbones/" in file for file in code_files("er"))


def test_the_profile_weighs_edges_of_our_gcn_only() -> None:
    plain = configure("digits", "er", profile="textbook")
    assert plain.resolved({"all": 100})["norm"] == "sym"
    other = configure("digits", "er", profile="textbook", overrides={"backbone": "sage"})
    assert "norm" not in other.resolved({"all": 100})
    assert other.method == "er+sage" and plain.method == "er"


def test_methods_without_a_network_stay_on_the_cpu_and_say_so() -> None:
    with pytest.warns(DeviceWarning, match="linear computes on the CPU"):
        Linear().to("cuda")
    with pytest.raises(ConfigError, match="there is no device mps here; there is"):
        ER().to("mps")
    assert Learner(ER(), device="auto").strategy.device_name in ("cpu", "cuda", "mps")


def test_batches_of_one_node_do_not_break_batch_normalisation(graph: Graph) -> None:
    learner = Learner(ER(backbone=Awkward, hidden=8))
    for batch in batches(learner, class_stream(graph, batch_size=1)):
        learner.learn(batch)
    assert isinstance(learner.strategy, GradientStrategy)
    assert learner.strategy.nonfinite_losses == 0


def test_a_network_that_changes_its_input_in_place_changes_nothing_else(graph: Graph) -> None:
    found = []
    for backbone in (Overwriting, Copying):
        learner = taught(ER(backbone=backbone, hidden=8, passes=5), class_stream(graph))
        found.append(learner.strategy.state())
        ids = learner.store.ids
        assert graph.x is not None
        assert np.array_equal(learner.store.features.take(learner.store.positions(ids)), graph.x[ids])
    assert same(*found)


def test_a_buffer_that_comes_late_is_refused_when_a_state_is_loaded(graph: Graph) -> None:
    state = taught(ER(backbone=Late, hidden=8), class_stream(graph), 4).strategy.state()
    with pytest.raises(StateError, match="buffers"):
        ER(backbone=Late, hidden=8).load_state(state)


def test_a_network_that_draws_in_predictions_gives_the_same_ones_and_leaves_the_generator(graph: Graph) -> None:
    learner = taught(ER(backbone=Careless, hidden=8), class_stream(graph))
    before = torch.get_rng_state()
    neighborhood = learner.store.sample(learner.store.ids, learner.strategy.sampling, 0)
    first = learner.strategy.scores(neighborhood)
    assert np.array_equal(first, learner.strategy.scores(neighborhood))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["ewc", "mas", "twp"])
def test_importances_leave_running_statistics_alone(graph: Graph, name: str) -> None:
    """With one pass no strength acts: the network is that of bare, statistics included."""

    class Normed(Awkward):
        def edge_scores(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.norm(self.first(x))  # type: ignore[no-any-return]

    states = []
    for method in ("bare", name):
        strategy = taught(make_strategy(method, backbone=Normed, hidden=8), class_stream(graph)).strategy
        assert isinstance(strategy, GradientStrategy)
        states.append(strategy.trainer.state())
    assert same(*states)


def test_a_function_whose_network_takes_no_weights_is_refused_with_weights(graph: Graph) -> None:
    for backbone in (lambda *sizes: Awkward(*sizes), GraphSAGE):
        learner = Learner(make_strategy("er", backbone=backbone, norm="sym"))
        with pytest.raises(ConfigError, match="takes no edge_weight"):
            taught(learner.strategy, class_stream(graph), 1)


def test_a_class_among_the_options_of_evaluate_becomes_its_text() -> None:
    config = configure("digits", "er", overrides={"backbone": Weighted})
    assert config.network is not None and config.network.endswith("test_backbones.py:Weighted")
    assert config.model_dump_json()
