from itertools import islice
from typing import Any

import numpy as np
import pytest

from ocgl.graph import Graph
from ocgl.graph.features import dense
from ocgl.strategies import CachedPredictor, Learner, make_strategy, names
from ocgl.streams import Stream, class_stream, make_stream
from ocgl.testing import batches, taught
from tests.conftest import random_graph


def answers_alike(learner: Learner, stream: Stream, seed: int = 0) -> int:
    """Compare a cached predictor with plain predictions after every step; return how many there were."""
    predictor, rng, asked = CachedPredictor(learner), np.random.default_rng(seed), 0
    held = np.sort(stream.order[rng.random(len(stream.order)) < 0.4])
    for step in stream:
        learner.arrive(step.arrival)
        learner.learn(step.labels)
        ids = held[stream.position[held] < stream.cuts[step.index]]
        candidates = stream.candidates(ids) if len(ids) else None
        assert np.array_equal(predictor(ids, candidates), learner.predict(ids, candidates)), step.index
        asked += len(ids)
    return asked


@pytest.mark.parametrize("name", names())
def test_a_cached_predictor_predicts_as_the_learner_does(graph: Graph, name: str) -> None:
    assert answers_alike(Learner(make_strategy(name, fanout=3)), class_stream(graph, batch_size=5)) > 100


@pytest.mark.parametrize("name", ["bare", "linear", "ridge"])
@pytest.mark.parametrize("kind", ["task", "blurry", "iid"])
def test_on_other_streams_too(graph: Graph, name: str, kind: str) -> None:
    assert answers_alike(Learner(make_strategy(name)), make_stream(graph, kind, batch_size=5)) > 100


@pytest.mark.parametrize(
    "settings", [{"layers": 1}, {"layers": 3}, {"norm": "sym"}, {"norm": "sym", "degrees": "store"}]
)
def test_with_other_layers_and_weights_too(graph: Graph, settings: dict[str, Any]) -> None:
    answers_alike(Learner(make_strategy("bare", fanout=2, **settings), chunk=7), class_stream(graph, batch_size=5))


@pytest.mark.parametrize("name", ["bare", "linear", "slda"])
@pytest.mark.parametrize("fanout", [2, "all"])
def test_with_other_caps_and_sparse_rows_too(name: str, fanout: object) -> None:
    from dataclasses import replace

    from scipy.sparse import csr_array

    graph = random_graph(3, 90, 500)
    assert graph.x is not None
    sparse = replace(graph, x=csr_array(np.maximum(dense(graph.x), 0)))
    answers_alike(Learner(make_strategy(name), eval_fanout=fanout), class_stream(sparse, batch_size=5))  # type: ignore[arg-type]


def test_nothing_is_answered_twice(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = class_stream(graph)
    learner = Learner(make_strategy("bare"))
    calls: list[Any] = []
    kind = type(learner.strategy)
    predict = kind.predict

    def counted(*given: Any) -> Any:
        calls.append(given)
        return predict(*given)

    monkeypatch.setattr(kind, "predict", counted)
    predictor = CachedPredictor(learner)
    learner.arrive(stream.arrival(stream.order))
    learner.learn(stream.labels_of(stream.label_order[:5]))
    first = predictor(stream.order)
    first[:] = -5  # what was given away is the caller's
    assert (predictor(stream.order) >= 0).all() and len(calls) == 1
    predictor(stream.order[:10])
    assert len(calls) == 2
    learner.learn(stream.labels_of(stream.label_order[5:9]))
    predictor(stream.order[:10])
    assert len(calls) == 3


def test_other_candidates_are_another_question(graph: Graph) -> None:
    stream = class_stream(graph)
    learner = Learner(make_strategy("bare"))
    learner.arrive(stream.arrival(stream.order))
    learner.learn(stream.labels_of(stream.label_order))
    predictor, ids = CachedPredictor(learner), stream.order[:9]
    for label in (0, 1, 1, 2):
        candidates = np.full((9, 1), label)
        assert (predictor(ids, candidates) == label).all()
    assert np.array_equal(predictor(ids), learner.predict(ids))


@pytest.mark.parametrize("name", ["bare", "linear", "ridge"])
def test_changes_that_bypass_the_learner_are_seen_too(graph: Graph, name: str) -> None:
    learner = taught(make_strategy(name), class_stream(graph), 6)
    predictor, ids = CachedPredictor(learner), learner.store.ids
    predictor(ids)
    everyone = np.stack([np.full(len(ids), 999), ids])
    learner.store.add([999], np.full((1, learner.store.features.width), 30.0), everyone)
    assert np.array_equal(predictor(ids), learner.predict(ids))
    for batch in islice(batches(Learner(make_strategy(name)), class_stream(graph)), 20):
        learner.strategy.learn(batch)
    assert np.array_equal(predictor(ids), learner.predict(ids))


def test_a_node_may_be_asked_about_twice(graph: Graph) -> None:
    learner = taught(make_strategy("bare"), class_stream(graph), 6)
    twice = np.repeat(learner.store.ids[:5], 2)
    assert np.array_equal(CachedPredictor(learner)(twice), learner.predict(twice))
