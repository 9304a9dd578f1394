"""What the specification says of each method, beyond the contract."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ocgl.errors import ConfigError, NeedsStoreError, StateError
from ocgl.graph import Batch, Graph
from ocgl.nn import GCN
from ocgl.state import State
from ocgl.strategies import Examples, FeatureReplay, GradientStrategy, Learner, find, make_strategy, names, project
from ocgl.strategies._core.registry import keys
from ocgl.strategies.ewc import EWC
from ocgl.strategies.lwf import LwF
from ocgl.strategies.mas import MAS
from ocgl.strategies.pdgnn import PDGNN
from ocgl.strategies.twp import TWP
from ocgl.streams import class_stream
from ocgl.testing import batches, same, taught


def parameters(name: str, graph: Graph, count: int | None = None, **settings: Any) -> State:
    """Give the model and optimizer that a strategy ends with."""
    strategy = make_strategy(name, seed=2, fanout=4, hidden=8, **settings)
    state = taught(strategy, class_stream(graph), count).strategy.state().part("trainer")
    return State().include("model", state.part("model")).include("optimizer", state.part("optimizer"))


INERT: list[tuple[str, dict[str, Any], int]] = [
    ("ewc", {"strength": 0}, 3),
    ("mas", {"strength": 0}, 3),
    ("twp", {"lambda_l": 0, "lambda_t": 0}, 3),
    ("lwf", {"lambda_dist": 0, "update_every": 2, "init": "glorot"}, 3),
    ("er", {"buffer_size": 0}, 3),
    ("a-gem", {"buffer_size": 0}, 3),
    ("ssm-er", {"buffer_size": 9}, 3),  # no subgraph with ten neighbours fits
    ("ssm-a-gem", {"buffer_size": 9}, 3),
    ("ewc", {"strength": 1e10}, 1),  # one pass: the anchor is where the parameters are
    ("mas", {"strength": 1e10}, 1),
    ("twp", {"lambda_l": 1e6, "lambda_t": 1e6}, 1),
]


@pytest.mark.parametrize(("name", "settings", "passes"), INERT)
def test_without_effect_a_method_is_bare_to_the_bit(
    graph: Graph, name: str, settings: dict[str, Any], passes: int
) -> None:
    assert same(parameters("bare", graph, passes=passes), parameters(name, graph, passes=passes, **settings))


@pytest.mark.parametrize(("name", "settings"), [(n, s) for n, s, p in INERT if p == 3 and "buffer_size" not in s])
def test_with_effect_it_is_not(graph: Graph, name: str, settings: dict[str, Any]) -> None:
    strong = {key: 50.0 for key in settings if key not in ("update_every", "init")}
    assert not same(parameters("bare", graph, passes=3), parameters(name, graph, passes=3, **settings | strong))


def test_ewc_and_mas_coincide_with_one_pass(graph: Graph) -> None:
    assert same(parameters("ewc", graph, strength=1e4), parameters("mas", graph, strength=1e2))


def test_twp_without_topology_is_ewc(graph: Graph) -> None:
    twp = parameters("twp", graph, passes=3, lambda_l=30, lambda_t=0)
    assert same(parameters("ewc", graph, passes=3, strength=30), twp)
    assert same(twp, parameters("twp", graph, passes=3, lambda_l=30, lambda_t=0, beta=0.1))


def test_representatives_stand_for_equal_runs(graph: Graph) -> None:
    settings: dict[str, Any] = {"passes": 1, "strength": 1e6, "lr": 1e-3}
    assert EWC.canonical_config(settings) == settings | {"strength": 1e0}
    settings = {"passes": 1, "update_every": 1, "lambda_dist": 10.0, "temperature": 20.0}
    assert LwF.canonical_config(settings) == settings | {"lambda_dist": 0.1, "temperature": 0.2}
    assert same(parameters("lwf", graph, **settings), parameters("lwf", graph, **LwF.canonical_config(settings)))
    assert TWP.canonical_config({"passes": 5, "beta": 0.1}) == {"passes": 5, "beta": 1e-3}


@given(st.integers(0, 10_000), st.sampled_from([-1.0, 1.0, 0.0]))
def test_a_projected_gradient_never_points_against_the_reference(seed: int, pull: float) -> None:
    rng = np.random.default_rng(seed)
    g = [torch.from_numpy(rng.normal(size=s)) for s in ((3, 4), (2,))]
    r = [torch.from_numpy(rng.normal(size=s)) + pull * part for s, part in zip(((3, 4), (2,)), g, strict=True)]
    p = project(g, r)
    flat_g, flat_r, flat_p = (torch.cat([t.flatten() for t in x]) for x in (g, r, p))
    assert flat_p @ flat_r >= -1e-6 * flat_g.norm() * flat_r.norm()
    assert flat_p.norm() <= flat_g.norm() + 1e-9
    if flat_g @ flat_r >= 0:
        assert p is g


def test_an_opposite_reference_leaves_nothing_and_none_leaves_all() -> None:
    g = [torch.tensor([1.0, 2.0])]
    assert torch.allclose(project(g, [-3 * g[0]])[0], torch.zeros(2), atol=1e-6)
    assert project(g, [torch.zeros(2)]) is g


def penalty(strategy: EWC | TWP) -> float:
    return strategy.importances.penalty(strategy.trainer.parameters)


def weights(strategy: EWC | TWP, name: str) -> list[torch.Tensor]:
    arrays = strategy.importances.state().arrays
    return [torch.from_numpy(arrays[key]) for key in sorted(arrays) if key.startswith(f"{name}:")]


def test_strong_penalties_hold_parameters_within_a_batch(graph: Graph) -> None:
    def moved(**settings: Any) -> float:
        strategy = make_strategy("ewc", seed=1, hidden=8, passes=5, **settings)
        assert isinstance(strategy, EWC)
        learner = Learner(strategy)
        total = 0.0
        for number, batch in enumerate(batches(learner, class_stream(graph))):
            before = [p.clone() for p in strategy.trainer.parameters] if number > 2 else []
            labels = len(strategy.labels)
            learner.learn(batch)
            if before and len(strategy.labels) == labels:
                pairs = zip(before, strategy.trainer.parameters, strict=True)
                total += sum(float((a - b).square().sum()) for a, b in pairs)
        return total

    assert moved(strength=1e6) < 0.7 * moved(strength=0)


def test_the_penalty_is_zero_at_the_anchor_and_keeps_its_value_on_growth(graph: Graph) -> None:
    strategy = EWC(strength=3.0, hidden=8)
    learner = Learner(strategy)
    for number, batch in enumerate(batches(learner, class_stream(graph))):
        learner.learn(batch)
        assert penalty(strategy) == 0
        assert all((w >= 0).all() for w in weights(strategy, "fisher"))
        if number == 4:
            break
    strategy.head.weight.data += 0.1  # type: ignore[attr-defined]
    value = penalty(strategy)
    assert strategy.trainer.add_outputs(np.array([98, 99]))
    strategy.grow_parts(strategy.trainer.parameters)
    assert value > 0 and penalty(strategy) == pytest.approx(value)


def test_anchors_may_stay_longer(graph: Graph) -> None:
    strategy = EWC(strength=10.0, hidden=8, anchor_every=3)
    taught(strategy, class_stream(graph), 5)
    assert penalty(strategy) > 0


def test_mas_reads_no_labels(graph: Graph) -> None:
    strategy = MAS(hidden=8)
    learner = taught(strategy, class_stream(graph), 4)
    batch = learner.batch(class_stream(graph).labels_of(class_stream(graph).held_out(0)[:5]))
    other = Batch(batch.neighborhood, np.roll(batch.labels, 1))
    found = []
    for one in (batch, other):
        twin = strategy.clone()
        twin.after_batch(twin.examples(one), one)
        found.append(twin.importances.state())
    assert same(*found)


def test_attention_sums_to_one_and_topology_touches_the_first_layer_only(graph: Graph) -> None:
    strategy = TWP(hidden=8, fanout=4)
    learner = taught(strategy, class_stream(graph), 4)
    neighborhood = learner.store.sample(learner.store.ids[:5], strategy.sampling, 0)
    assert isinstance(strategy.model, GCN)
    alpha = strategy.model.attention(neighborhood).detach()
    target = np.concatenate(
        [
            np.repeat(np.arange(len(neighborhood.indptr) - 1), np.diff(neighborhood.indptr)),
            np.arange(len(neighborhood.nodes)),
        ]
    )
    np.testing.assert_allclose(np.bincount(target, alpha), 1, rtol=1e-5)
    first_layer, head = weights(strategy, "topology")
    assert first_layer.any() and not head.any()


def test_one_layer_twp_has_topology_at_the_head(graph: Graph) -> None:
    strategy = TWP(layers=1, fanout=4)
    taught(strategy, class_stream(graph), 4)
    assert weights(strategy, "topology")[0].any()


def test_the_teacher_comes_on_time_and_holds_still(graph: Graph) -> None:
    strategy = LwF(hidden=8, update_every=3, passes=2)
    learner = Learner(strategy)
    taught_by = None
    for number, batch in enumerate(batches(learner, class_stream(graph)), start=1):
        if number in (4, 5, 6):
            taught_by = [p.clone() for p in strategy.teacher._model.parameters()]  # type: ignore[union-attr]
        learner.learn(batch)
        assert (strategy.teacher._model is None) == (number < 3)
        if number in (4, 5):
            now = list(strategy.teacher._model.parameters())  # type: ignore[union-attr]
            assert taught_by is not None and all(torch.equal(a, b) for a, b in zip(taught_by, now, strict=True))
            assert not any(p.requires_grad for p in now)


def test_subgraph_memories_of_bare_nodes_are_er(graph: Graph) -> None:
    settings: dict[str, Any] = {"buffer_size": 30, "memory_proportion": 2, "passes": 2}
    ssm = parameters("ssm-er", graph, neighbors_budget=(0, 0), **settings)
    er = parameters("er", graph, **settings)
    for name in er.arrays:
        np.testing.assert_allclose(ssm.arrays[name], er.arrays[name], rtol=1e-4, atol=1e-6)


def test_replay_of_bare_nodes_never_touches_the_store(graph: Graph) -> None:
    strategy = make_strategy("er", hidden=8, memory_proportion=3)
    learner = taught(strategy, class_stream(graph), 6)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the store was asked")

    batch = learner.batch(class_stream(graph).labels_of(class_stream(graph).held_out(0)[:5]))
    learner.store.sample = learner.store.subgraph = refuse  # type: ignore[method-assign, assignment]
    assert batch.store is None
    strategy.learn(batch)


def test_subgraphs_from_the_store_need_the_store(graph: Graph) -> None:
    strategy = make_strategy("ssm-er", hidden=8, source="graph")
    learner = taught(strategy, class_stream(graph), 3)
    before = strategy.state()
    batch = learner.batch(class_stream(graph).labels_of(class_stream(graph).held_out(0)[:5]))
    with pytest.raises(NeedsStoreError, match="source=batch"):
        strategy.learn(Batch(batch.neighborhood.detached(), batch.labels))
    assert same(before, strategy.state())


def test_replay_draws_are_bounded(graph: Graph) -> None:
    for name in ("er", "a-gem", "ssm-er", "linear", "pdgnn"):
        strategy = make_strategy(name, memory_proportion=3, buffer_size=40)
        taught(strategy, class_stream(graph), 8)
        for count in (1, 5, 500):
            buffer = strategy.buffer  # type: ignore[attr-defined]
            drawn = buffer.draw(count) if name in ("linear", "pdgnn") else buffer.draw_nodes(count)
            assert 0 < len(drawn[1]) <= count
        assert strategy.memory_nodes <= 40


def test_pdgnn_without_hops_is_an_mlp_on_own_features(graph: Graph) -> None:
    strategy = PDGNN(layers=0, hidden=8)
    learner = taught(strategy, class_stream(graph), 3)
    neighborhood = learner.store.sample(learner.store.ids[:4], strategy.sampling, 0)
    np.testing.assert_array_equal(strategy.features(neighborhood), graph.x[learner.store.ids[:4]])  # type: ignore[index]


def test_grids_have_the_paper_s_sizes() -> None:
    from ocgl.experiments.tuning import configurations

    sizes = {"bare": (8, 8), "er": (24, 24), "a-gem": (24, 24), "pdgnn": (24, 24), "linear": (24, 24)}
    sizes |= {"ssm-er": (72, 72), "ssm-a-gem": (72, 72), "ewc": (48, 28), "mas": (48, 28), "lwf": (216, 184)}
    sizes |= {"twp": (216, 40)}
    for name, (count, distinct) in sizes.items():
        settings = configurations(find(name).grid)
        assert len(settings) == count
        assert len({str(find(name).canonical_config(s)) for s in settings}) == distinct
        lrs = [s["lr"] for s in settings]
        assert lrs == sorted(lrs, reverse=True)
        make_strategy(name, **settings[-1])


def test_growth_keeps_optimizer_state_and_old_weights(graph: Graph) -> None:
    for name in ("bare", "er", "ewc", "lwf", "linear", "pdgnn", "twp", "a-gem"):
        strategy = make_strategy(name, fanout=3)
        assert isinstance(strategy, GradientStrategy | FeatureReplay)
        taught(strategy, class_stream(graph), 4)
        before = strategy.state().part("trainer")
        strategy.trainer.add_outputs(np.array([50, 60]))
        after = strategy.state().part("trainer")
        for key in ("optimizer/head.weight:first", "optimizer/head.weight:second", "model/head.weight"):
            old, new = before.arrays[key], after.arrays[key]
            assert len(new) == len(old) + 2 and np.array_equal(new[: len(old)], old)
            assert key.startswith("model") or not new[len(old) :].any()
        assert after.arrays["optimizer/step"] == before.arrays["optimizer/step"]


@pytest.mark.parametrize("name", names())
def test_sparse_rows_teach_what_dense_ones_do(graph: Graph, name: str) -> None:
    from dataclasses import replace

    from scipy.sparse import csr_array

    assert isinstance(graph.x, np.ndarray)
    x = np.where(np.abs(graph.x) > 1, graph.x, 0).astype(np.float32)
    more = {"passes": 2} if "passes" in keys(find(name)) else {}
    states = [
        taught(make_strategy(name, fanout=3, **more), class_stream(replace(graph, x=rows)), 6).strategy.state()
        for rows in (x, csr_array(x))
    ]
    for key, value in states[0].arrays.items():
        np.testing.assert_allclose(states[1].arrays[key], value, rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("name", names())
def test_a_state_that_does_not_fit_is_refused_and_leaves_the_strategy(graph: Graph, name: str) -> None:
    strategy = taught(make_strategy(name, fanout=3), class_stream(graph), 5).strategy
    before = strategy.state()
    other = taught(make_strategy("bare" if name != "bare" else "linear", fanout=3), class_stream(graph), 5).strategy
    known = strategy.hyperparameters()
    more = {"hidden": 9} if "hidden" in known else {"view": "own"} if "view" in known else {}
    wider = make_strategy(name, fanout=3, **more)
    bad = [State(), State({}, {"width": 5})]
    bad += [] if name == "joint" else [other.state()]  # joint is bare, batch by batch
    bad += [] if name == "linear" else [taught(wider, class_stream(graph), 5).strategy.state()]
    for state in bad:
        with pytest.raises(StateError):
            strategy.load_state(state)
        assert same(before, strategy.state())


@pytest.mark.parametrize("name", ["bare", "er", "a-gem", "ewc", "mas", "lwf", "linear", "pdgnn"])
def test_unlabelled_company_changes_nothing(graph: Graph, name: str) -> None:
    """The same labelled nodes teach the same, whoever comes along without a label (full neighbourhoods)."""
    settings: dict[str, Any] = {"fanout": "all", "passes": 3}
    strategy = make_strategy(name, **settings, **({"layers": 1} if name == "pdgnn" else {}))
    learner = taught(strategy, class_stream(graph), 6)
    ids = learner.store.ids[:5]
    alone, company = strategy.clone(), strategy.clone()
    labels = np.array([0, 1, 1, -1, -1])
    alone.learn(Batch(learner.store.sample(ids[:3], strategy.sampling, 0), labels[:3]))
    company.learn(Batch(learner.store.sample(ids, strategy.sampling, 0), labels))
    if name == "pdgnn":
        return  # its symmetric weights depend on who is looked at together
    for key, value in alone.state().arrays.items():
        np.testing.assert_allclose(company.state().arrays[key], value, rtol=1e-3, atol=1e-5)


def test_importances_are_of_the_loss_that_is_trained(graph: Graph) -> None:
    """Where the setting tells candidate classes, the Fisher information leaves the others out, too."""
    from ocgl.streams import make_stream

    strategy = EWC(hidden=8)
    learner = taught(strategy, make_stream(graph, "task"))
    stream = make_stream(graph, "task")
    batch = learner.batch(stream.labels_of(stream.held_out(0)[:6]))
    examples = strategy.examples(batch)
    free = Examples(examples.neighborhood, examples.targets)
    assert strategy.cross_entropy(examples).item() < strategy.cross_entropy(free).item()


def test_anchors_that_stay_make_strengths_act_with_one_pass() -> None:
    assert EWC.canonical_config({"passes": 1, "strength": 1e4, "anchor_every": 10})["strength"] == 1e4


def test_twp_refuses_store_degrees() -> None:
    with pytest.raises(ConfigError, match="degrees"):
        make_strategy("twp", norm="sym", degrees="store")
