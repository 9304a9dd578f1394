"""Each method equals its slow, independent twin on a small graph with growing classes, batch after batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ocgl.graph import Graph
from ocgl.graph.neighbor_sampling import Norm
from ocgl.strategies import FeatureReplay, GradientStrategy, Learner, make_strategy
from ocgl.streams import class_stream
from ocgl.testing import batches
from tests.strategies import slow

LR, PASSES, SEED, HIDDEN = 0.003, 3, 5, 6
COMMON = {"lr": LR, "passes": PASSES, "hidden": HIDDEN}


def base(kind: Callable[..., slow.Slow], **extra: Any) -> slow.Slow:
    return kind(5, HIDDEN, LR, PASSES, seed=SEED, **extra)


PAIRS: dict[str, tuple[str, dict[str, Any], Callable[[], slow.Slow]]] = {
    "bare": ("bare", {}, lambda: base(slow.Slow)),
    "er": ("er", {"memory_proportion": 2}, lambda: base(slow.SlowER, mp=2)),
    "er, one mean": (
        "er",
        {"memory_proportion": 2, "replay_loss": "one_mean"},
        lambda: base(slow.SlowER, mp=2, one_mean=True),
    ),
    "a-gem": ("a-gem", {"memory_proportion": 3}, lambda: base(slow.SlowAGEM, mp=3)),
    "ssm-er": ("ssm-er", {"memory_proportion": 2, "neighbors_budget": (0, 0)}, lambda: base(slow.SlowER, mp=2)),
    "ssm-a-gem": ("ssm-a-gem", {"neighbors_budget": (0, 0)}, lambda: base(slow.SlowAGEM, mp=1)),
    "pdgnn": ("pdgnn", {"memory_proportion": 2}, lambda: base(slow.SlowPDGNN, mp=2)),
    "pdgnn, one mean": (
        "pdgnn",
        {"memory_proportion": 2, "replay_loss": "one_mean"},
        lambda: base(slow.SlowPDGNN, mp=2, one_mean=True),
    ),
    "ewc": ("ewc", {"strength": 50}, lambda: base(slow.SlowImportance, strengths=[50.0], terms=slow.fisher)),
    "mas": ("mas", {"strength": 0.3}, lambda: base(slow.SlowImportance, strengths=[0.3], terms=slow.sensitivity)),
    "twp": (
        "twp",
        {"lambda_l": 20, "lambda_t": 30},
        lambda: base(slow.SlowImportance, strengths=[20.0, 30.0], terms=slow.topology),
    ),
    "lwf": (
        "lwf",
        {"lambda_dist": 2, "temperature": 3, "update_every": 4},
        lambda: base(slow.SlowLwF, dist=2.0, temperature=3.0, every=4, over="absent"),
    ),
    "lwf over known classes": (
        "lwf",
        {"lambda_dist": 2, "temperature": 3, "update_every": 4, "distil": "known", "init": "glorot"},
        lambda: base(slow.SlowLwF, dist=2.0, temperature=3.0, every=4, over="known"),
    ),
    "lwf over all classes": (
        "lwf",
        {
            "lambda_dist": 0.5,
            "temperature": 3,
            "update_every": 4,
            "distil": "known",
            "student": "all",
            "init": "glorot",
        },
        lambda: base(slow.SlowLwF, dist=0.5, temperature=3.0, every=4, over="whole"),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("norm", ["sum", "sym"])
def test_equals_the_slow_method(graph: Graph, name: str, norm: Norm) -> None:
    strategy, settings, twin = PAIRS[name]
    norms = {} if strategy == "pdgnn" else {"norm": norm}
    fast = make_strategy(strategy, seed=SEED, fanout=3, **COMMON, **settings, **norms)
    obvious = twin()
    for batch in batches(Learner(fast), class_stream(graph, batch_size=5)):
        fast.learn(batch)
        obvious.learn(batch)
    assert isinstance(fast, GradientStrategy | FeatureReplay)
    values = dict(fast.model.named_parameters())
    ours = [values["inner.0"], *([values["inner.1"]] if strategy == "pdgnn" else []), values["head.weight"]]
    ours += [values["head.bias"]] if strategy == "pdgnn" else []
    for a, b in zip(ours, obvious.parameters, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-3, atol=2e-4)
    assert fast.labels.tolist() == obvious.labels


SAGE: dict[str, tuple[dict[str, Any], Callable[[], slow.Slow]]] = {
    "bare": ({}, lambda: base(slow.Sage)),
    "er": ({"memory_proportion": 2}, lambda: base(slow.SageER, mp=2)),
    "a-gem": ({"memory_proportion": 3}, lambda: base(slow.SageAGEM, mp=3)),
    "ewc": ({"strength": 50}, lambda: base(slow.SageImportance, strengths=[50.0], terms=slow.fisher)),
}


@pytest.mark.parametrize("name", SAGE)
def test_equals_the_slow_method_with_sage(graph: Graph, name: str) -> None:
    settings, twin = SAGE[name]
    fast = make_strategy(name, seed=SEED, fanout=3, backbone="sage", **COMMON, **settings)
    obvious = twin()
    for batch in batches(Learner(fast), class_stream(graph, batch_size=5)):
        fast.learn(batch)
        obvious.learn(batch)
    assert isinstance(fast, GradientStrategy)
    for (part, ours), theirs in zip(fast.model.named_parameters(), obvious.parameters, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-3, atol=2e-4, err_msg=part)
    assert fast.labels.tolist() == obvious.labels
