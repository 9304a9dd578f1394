from typing import Any

import numpy as np
import pytest

from ocgl.errors import ConfigError, NeedsStoreError, StateError, WrongSamplingError, WrongWidthError
from ocgl.graph import Batch, isolated
from ocgl.strategies import ClosedForm, Learner, make_strategy
from ocgl.strategies.ridge import Ridge
from ocgl.strategies.slda import SLDA
from ocgl.streams import class_stream
from ocgl.testing.strategies import CHECKS, memory_stays_bounded, small_graph, taught
from ocgl.types import DoubleArray, FloatArray, IntArray

NAMES = ("slda", "ridge")


def rows(count: int = 400, width: int = 6, classes: int = 4) -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(classes, size=count))  # class by class, the hardest order there is
    x = rng.normal(size=(count, width)) @ rng.normal(size=(width, width)) + 2 * rng.normal(size=(classes, width))[y]
    return x.astype(np.float32), y


def learned(name: str, x: FloatArray, y: IntArray, size: int = 7, **settings: Any) -> ClosedForm:
    strategy = make_strategy(name, view="own", **settings)
    assert isinstance(strategy, ClosedForm)
    for begin in range(0, len(x), size):
        strategy.learn(Batch(isolated(x[begin : begin + size], 0), y[begin : begin + size]))
    return strategy


def by_label(strategy: ClosedForm) -> DoubleArray:
    weights, bias = strategy.classifier()
    return np.concatenate([weights, bias[None]])[:, np.argsort(strategy.labels)]


def test_slda_is_the_batch_closed_form() -> None:
    x, y = rows()
    z = x.astype(float)
    means = np.array([z[y == c].mean(0) for c in range(4)])
    centred = z - means[y]
    within = centred.T @ centred / len(z)
    shrunk = 0.8 * within + 0.2 * np.trace(within) / 6 * np.eye(6)
    inverse = np.linalg.inv(shrunk)
    expected = np.concatenate([inverse @ means.T, -0.5 * np.diag(means @ inverse @ means.T)[None]])
    found = by_label(learned("slda", x, y, shrinkage=0.2))
    gaps = [scores - scores.mean(1, keepdims=True) for scores in (z @ w[:-1] + w[-1] for w in (found, expected))]
    np.testing.assert_allclose(gaps[0], gaps[1], rtol=1e-8, atol=1e-8 * np.abs(gaps[1]).max())


@pytest.mark.parametrize("name", NAMES)
def test_what_all_rows_have_in_common_changes_no_decision(name: str) -> None:
    x, y = rows()
    far = x + np.array([3e4, 0, -1e4, 0, 0, 0], np.float32)
    plain, moved = (learned(name, z, y).predict(isolated(z, 0)) for z in (x, far))
    assert (plain == moved).mean() > 0.97  # the rows themselves are rounded to single precision


@pytest.mark.parametrize("balanced", [False, True])
def test_ridge_solves_the_least_squares_it_names(balanced: bool) -> None:
    x, y = rows()
    z = x.astype(float)
    counts = np.bincount(y)
    means = np.array([z[y == c].mean(0) for c in range(4)])
    centred = z - means[y]
    penalty = 0.2 * np.trace(centred.T @ centred / len(z)) / 6
    if balanced:  # every class has the pooled covariance around its own mean: the same residuals in every class
        z = (means[:, None] + centred[None]).reshape(-1, 6)
        y, weight = np.repeat(np.arange(4), len(centred)), np.full(4 * len(centred), 1 / len(z))
    else:
        weight = np.full(len(z), 1 / len(z))
    design = np.concatenate([z, np.ones((len(z), 1))], 1)
    normal = design.T @ (weight[:, None] * design) + penalty * np.diag([1.0] * 6 + [0.0])
    expected = np.linalg.solve(normal, design.T @ (weight[:, None] * np.eye(4)[y]))
    found = by_label(learned("ridge", x, rows()[1], shrinkage=0.2, balanced=balanced))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert counts.min() > 0


@pytest.mark.parametrize("name", NAMES)
def test_any_order_and_any_batches_give_the_same_classifier(name: str) -> None:
    x, y = rows()
    reference = by_label(learned(name, x, y))
    order = np.random.default_rng(1).permutation(len(x))
    for other in (learned(name, x[order], y[order]), learned(name, x, y, size=1), learned(name, x, y, size=400)):
        np.testing.assert_allclose(by_label(other), reference, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_merged_shards_equal_one_pass(name: str) -> None:
    x, y = rows()
    whole = learned(name, x, y)
    shards = [learned(name, x[i::3], y[i::3]) for i in range(3)]
    shards[0].merge(shards[1])
    shards[0].merge(shards[2])
    shards[0].merge(make_strategy(name, view="own"))  # type: ignore[arg-type]
    empty = make_strategy(name, view="own")
    assert isinstance(empty, ClosedForm)
    empty.merge(shards[0])
    for merged in (shards[0], empty):
        np.testing.assert_allclose(by_label(merged), by_label(whole), rtol=1e-8, atol=1e-10)
    with pytest.raises(ConfigError, match="same hyperparameters"):
        shards[0].merge(make_strategy(name, view="own", shrinkage=0.5))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_a_class_that_comes_late_is_learned_and_the_others_stay(name: str) -> None:
    x, y = rows()
    strategy = learned(name, x[y < 3], y[y < 3])
    assert strategy.labels.tolist() == [0, 1, 2]
    strategy.learn(Batch(isolated(x[y == 3], 0), y[y == 3]))
    right = strategy.predict(isolated(x, 0)) == y
    assert min(right[y == c].mean() for c in range(4)) > 0.6


def test_one_example_and_constant_features_are_no_error() -> None:
    for kind in (SLDA, Ridge):
        strategy = kind(view="own")
        strategy.learn(Batch(isolated(np.ones((1, 3), np.float32), 0), np.array([7])))
        assert strategy.predict(isolated(np.zeros((2, 3), np.float32), 0)).tolist() == [7, 7]
        strategy.learn(Batch(isolated(np.ones((2, 3), np.float32), 0), np.array([7, 8])))
        assert np.isfinite(strategy.scores(isolated(np.ones((2, 3), np.float32), 0))).all()


@pytest.mark.parametrize("name", NAMES)
def test_memory_does_not_grow_with_the_stream_and_neighbourhoods_of_another_depth_are_refused(name: str) -> None:
    graph = small_graph()
    stream = class_stream(graph, batch_size=10)
    learner = taught(make_strategy(name, fanout=4), stream)
    again = Learner(make_strategy(name, fanout=4))
    learner_bytes = learner.strategy.memory_bytes
    for step in stream:
        again.arrive(step.arrival)
        again.learn(step.labels)
    assert again.strategy.memory_bytes == learner_bytes
    with pytest.raises(WrongSamplingError):
        learner.strategy.predict(isolated(np.ones((1, 5), np.float32), 2))


@pytest.mark.parametrize("name", NAMES)
def test_revisited_nodes_count_as_they_are_now(name: str) -> None:
    stream = class_stream(small_graph(), batch_size=9)
    settings: dict[str, Any] = {"view": "own+mean1+mean2", "fanout": "all"}
    learner = Learner(make_strategy(name, **settings, revisit=1000, buffer_size=1000))
    again = Learner(make_strategy(name, **settings))
    for step in stream:
        learner.arrive(step.arrival)
        learner.learn(step.labels)
        again.arrive(step.arrival)
    again.learn(stream.labels_of(stream.label_order))  # everything at once, in the graph as it ends
    revisited, fresh = learner.strategy, again.strategy
    assert isinstance(revisited, ClosedForm) and isinstance(fresh, ClosedForm)
    np.testing.assert_allclose(by_label(revisited), by_label(fresh), rtol=1e-6, atol=1e-8)
    assert revisited.memory_nodes == len(stream.label_order) and fresh.memory_nodes == 0


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_the_contract_holds_with_revisits(name: str, check: Any) -> None:
    check(lambda: make_strategy(name, revisit=3, buffer_size=8), small_graph())


def test_moments_of_other_features_are_refused() -> None:
    x, y = rows()
    with pytest.raises(WrongWidthError):
        learned("slda", x, y, project=3).merge(learned("slda", x[:, :5], y, project=3))
    state = learned("slda", x, y, project=3).state()
    for other in ({"view": "mean1"}, {"project": 2}, {"seed": 1}):
        fresh = make_strategy("slda", **{"view": "own", "project": 3} | other)  # type: ignore[arg-type]
        with pytest.raises(StateError, match="other features"):
            fresh.load_state(state)
        assert len(fresh.labels) == 0
    make_strategy("slda", view="own", project=3, shrinkage=0.3).load_state(state)


@pytest.mark.parametrize("revisit", [3, 5, 20])
def test_rows_that_wait_to_be_taken_back_have_their_place(revisit: int) -> None:
    memory_stays_bounded(lambda: make_strategy("slda", revisit=revisit, buffer_size=30), small_graph())


def test_revisits_need_the_store() -> None:
    x, y = rows(20)
    with pytest.raises(NeedsStoreError, match="revisit=0"):
        learned("ridge", x, y, revisit=2)
