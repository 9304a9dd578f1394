from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocgl.errors import ConfigError
from ocgl.graph import Graph
from ocgl.nn.scaling import RunningScale
from ocgl.strategies import Learner, make_strategy
from ocgl.strategies.linear import Linear
from ocgl.streams import class_stream
from ocgl.testing import CHECKS, small_graph, taught
from tests.strategies.test_cached_predictor import answers_alike

VIEWS: list[dict[str, Any]] = [
    {"view": "own+mean1"},
    {"view": "own+mean1+mean2", "project": 3},
    {"view": "own", "standardise": True},
    {"standardise": True, "relu": 7},
    {"view": "own+diff1", "standardise": True, "relu": 4},
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("settings", [VIEWS[1], VIEWS[4]], ids=str)
@pytest.mark.parametrize("name", ["linear", "pdgnn"])
def test_the_contract_holds_on_any_features(name: str, settings: dict[str, Any], check: Any) -> None:
    check(lambda: make_strategy(name, buffer_size=20, **settings), small_graph())


@pytest.mark.parametrize("settings", VIEWS, ids=str)
def test_a_cached_predictor_predicts_the_same_on_any_features(graph: Graph, settings: dict[str, Any]) -> None:
    for name in ("linear", "pdgnn"):
        assert answers_alike(Learner(make_strategy(name, **settings)), class_stream(graph, batch_size=5)) > 100


def test_the_model_is_as_wide_as_its_features_and_learns(graph: Graph) -> None:
    stream = class_stream(graph, batch_size=5)
    learner = taught(make_strategy("linear", view="own+mean1", standardise=True, relu=6, lr=0.05, passes=3), stream)
    assert isinstance(learner.strategy, Linear)
    assert learner.strategy.head.weight.shape == (6, 5 + 5 + 6)
    train = stream.label_order
    assert (learner.predict(train) == graph.y[train]).mean() > 0.6


def test_features_that_do_not_go_together_are_refused() -> None:
    wrong: list[dict[str, Any]] = [{"relu": 5}, {"project": 3}, {"view": "own+own"}, {"view": "far"}]
    for settings in wrong:
        with pytest.raises(ConfigError):
            make_strategy("linear", **settings)


@given(st.integers(0, 9999), st.integers(1, 40), st.integers(1, 9))
def test_running_standardisation_is_the_usual_one(seed: int, rows: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    x = (5 + 3 * rng.normal(size=(rows, 4))).astype(np.float32)
    x[:, 2] = 7
    scale = RunningScale(4)
    for begin in range(0, rows, size):
        scale.observe(x[begin : begin + size])
    expected = np.zeros((rows, 4))
    deviation = x.std(0, dtype=np.float64)
    moving = deviation > 1e-6
    expected[:, moving] = ((x - x.mean(0, dtype=np.float64)) / np.where(moving, deviation, 1))[:, moving]
    assert scale.apply(x) == pytest.approx(expected, abs=1e-3)
