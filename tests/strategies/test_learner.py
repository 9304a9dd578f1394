import builtins
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ocgl import errors
from ocgl.graph import Arrival, Batch, Graph, Labels
from ocgl.strategies import Learner, make_strategy, names
from ocgl.streams import class_stream, make_stream
from ocgl.testing import batches, same, taught
from tests.conftest import random_graph

IDS, ONE = np.array([0]), np.array([1])
BAD: dict[str, tuple[type[Exception], Callable[[Learner], object]]] = {
    "label of an unknown node": (errors.UnknownNodeError, lambda s: s.learn(Labels(np.array([9999]), ONE))),
    "empty batch": (errors.EmptyBatchError, lambda s: s.learn(Labels(np.empty(0, int), np.empty(0, int)))),
    "labels of other length": (errors.OcglError, lambda s: s.learn(Labels(s.store.ids[:2], ONE))),
    "node labelled twice": (errors.OcglError, lambda s: s.learn(Labels(s.store.ids[[0, 0]], np.array([1, 1])))),
    "fractional labels": (errors.OcglError, lambda s: s.learn(Labels(s.store.ids[:1], np.array([0.5])))),
    "label below -1": (errors.OcglError, lambda s: s.learn(Labels(s.store.ids[:1], np.array([-2])))),
    "a table of labels": (errors.LabelError, lambda s: s.learn(Labels(s.store.ids[:1], np.array([[1]])))),
    "flat candidates": (errors.LabelError, lambda s: s.learn(Labels(s.store.ids[:1], ONE, np.array([1, 5])))),
    "candidates of other length": (
        errors.LabelError,
        lambda s: s.learn(Labels(s.store.ids[:2], np.array([1, 1]), np.array([[0, 1]]))),
    ),
    "a label beside its candidates": (
        errors.LabelError,
        lambda s: s.learn(Labels(s.store.ids[:1], ONE, np.array([[7, 8]]))),
    ),
    "candidates of other length in a question": (
        errors.LabelError,
        lambda s: s.predict(s.store.ids[:2], np.array([[0, 1]])),
    ),
    "prediction for a fraction": (errors.GraphError, lambda s: s.predict([0.7])),
    "prediction for a bare number": (errors.GraphError, lambda s: s.predict(3)),
    "prediction for a word": (errors.GraphError, lambda s: s.predict(["a"])),
    "prediction for an unknown node": (errors.UnknownNodeError, lambda s: s.predict([9999])),
    "arrival of wrong width": (
        errors.WrongWidthError,
        lambda s: s.arrive(Arrival(np.array([9999]), np.zeros((1, 2), np.float32), np.empty((2, 0), int), np.zeros(1))),
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("strategy", ["bare", "linear"])
def test_bad_input_has_a_name_and_leaves_the_learner_as_it_was(graph: Graph, strategy: str, name: str) -> None:
    error, act = BAD[name]
    learner = taught(make_strategy(strategy), class_stream(graph), 5)
    before, nodes = learner.state(), len(learner.store)
    with pytest.raises(error):
        act(learner)
    assert same(before, learner.state()) and len(learner.store) == nodes


def test_lists_are_taken_as_arrays_are(graph: Graph) -> None:
    learners = [taught(make_strategy("bare"), class_stream(graph), 5) for _ in range(2)]
    ids = learners[0].store.ids[:3]
    learners[0].learn(Labels(ids, graph.y[ids]))
    learners[1].learn(Labels(ids.tolist(), graph.y[ids].tolist()))
    assert same(learners[0].state(), learners[1].state())


def test_what_stops_a_sample_leaves_no_trace(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = taught(make_strategy("bare"), class_stream(graph), 5)
    before = learner.state()
    monkeypatch.setattr(learner.store, "sample", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        learner.learn(Labels(learner.store.ids[:1], ONE))
    assert same(before, learner.state())


def test_a_cap_for_each_hop(graph: Graph) -> None:
    learner = Learner(make_strategy("bare", fanout=(3, "all")), eval_fanout=(2, 1))
    assert learner.strategy.sampling.fanouts == (3, -1) and learner.query_sampling.fanouts == (2, 1)
    assert len(taught(learner.strategy, class_stream(graph), 3).strategy.labels)
    with pytest.raises(errors.ConfigError, match="1 fan-outs given for 2 hops"):
        Learner(make_strategy("bare", fanout=(3,)))


def test_a_neighbourhood_of_other_width_or_depth_is_refused(graph: Graph) -> None:
    learner = taught(make_strategy("bare"), class_stream(graph), 3)
    strategy = learner.strategy
    before = strategy.state()
    other = Learner(make_strategy("bare"))
    other.store.add([0], np.zeros((1, 9)))
    with pytest.raises(errors.WrongWidthError):
        strategy.learn(Batch(other.store.sample([0], strategy.sampling, 0), ONE))
    with pytest.raises(errors.WrongSamplingError):
        strategy.predict(learner.store.sample(learner.store.ids[:1], make_strategy("linear").sampling, 0))
    with pytest.raises(errors.WrongSamplingError):
        strategy.learn(
            Batch(learner.store.sample(learner.store.ids[:1], make_strategy("bare", norm="sym").sampling, 0), ONE)
        )
    assert same(before, strategy.state())


def test_unknown_names_and_values() -> None:
    with pytest.raises(errors.UnknownNameError, match="did you mean linear"):
        make_strategy("linaer")
    with pytest.raises(errors.UnknownNameError, match="did you mean lr"):
        make_strategy("bare", lrr=1)
    with pytest.raises(errors.ConfigError, match="lr"):
        make_strategy("bare", lr=-1)
    with pytest.raises(errors.ConfigError):
        make_strategy("no/such/file.py:Name")


def test_a_strategy_from_a_file(tmp_path_factory: pytest.TempPathFactory, graph: Graph) -> None:
    file = tmp_path_factory.mktemp("own") / "mine.py"
    file.write_text(
        "from typing import ClassVar\nfrom ocgl.strategies import Bare, strategy\n"
        "@strategy\nclass Mine(Bare):\n    name: ClassVar[str] = 'mine'\nother = 3\n"
        "import builtins\nbuiltins.ocgl_executed = getattr(builtins, 'ocgl_executed', 0) + 1\n"
    )
    learner = taught(make_strategy(f"{file}:Mine", hidden=4), class_stream(graph))
    assert (learner.predict(learner.store.ids) >= 0).all()
    assert make_strategy(f"{file}:Mine").__class__ is learner.strategy.__class__
    assert builtins.ocgl_executed == 1  # type: ignore[attr-defined]
    with pytest.raises(errors.UnknownNameError, match="Mine"):
        make_strategy(f"{file}:Mien")
    with pytest.raises(errors.ConfigError, match="subclass"):
        make_strategy(f"{file}:other")


def test_predictions_do_not_depend_on_chunks_or_repetitions(graph: Graph) -> None:
    learner = taught(make_strategy("bare", fanout=3), class_stream(graph))
    ids = learner.store.ids
    whole = learner.predict(ids)
    learner.chunk = 7
    assert np.array_equal(whole, learner.predict(ids))
    assert np.array_equal(learner.predict(ids[[3, 3, 1]]), whole[[3, 3, 1]])
    assert len(learner.predict([])) == 0


def test_candidates_restrict_training_and_prediction(graph: Graph) -> None:
    stream = make_stream(graph, "task")
    for name in ("bare", "linear"):
        learner = Learner(make_strategy(name, lr=0.01))
        for batch in batches(learner, stream):
            learner.learn(batch)
        ids = stream.order[stream.scored[stream.order] >= 0]
        candidates = stream.candidates(ids)
        assert candidates is not None
        predicted = learner.predict(ids, candidates)
        assert (predicted[:, None] == candidates).any(1).all()
        assert np.array_equal(learner.predict(ids[[1, 0]], candidates[[1, 0]]), predicted[[1, 0]])


def test_full_neighbourhoods_for_questions(graph: Graph) -> None:
    learner = Learner(make_strategy("linear", fanout=2), eval_fanout="all")
    assert learner.query_sampling.fanout is None and learner.strategy.sampling.fanout == 2
    with pytest.raises(errors.ConfigError):
        Learner(make_strategy("linear"), chunk=0)


EXTRA: dict[str, dict[str, Any]] = {
    "ridge": {"revisit": 2, "buffer_size": 9},
    "slda": {"revisit": 3, "view": "own+mean1+mean2"},
}
SMALL: dict[str, Any] = {"neighbors_budget": (2, 3), "buffer_size": 60}


@given(st.integers(0, 9999), st.sampled_from(names()), st.sampled_from([1, 3, 10]), st.integers(1, 12), st.booleans())
@settings(max_examples=80)
def test_no_update_reads_more_than_declared(seed: int, name: str, fanout: int, size: int, sparse: bool) -> None:
    """For every method, with what it reads of the store: the subgraphs of SSM, the revisits of the closed forms."""
    graph = random_graph(seed, 50, 400)
    stream = class_stream(replace(graph, x=csr_array(graph.x)) if sparse else graph, batch_size=size)
    more = EXTRA.get(name, SMALL if name.startswith("ssm") else {})
    learner = Learner(make_strategy(name, fanout=fanout, **more))
    read = 0
    for batch in batches(learner, stream):
        learner.learn(batch)
        bound = learner.strategy.update_bound(len(batch.labels), learner.store.features.row_bound)
        assert batch.cost.within(bound)
        assert (batch.store is not None) == learner.strategy.needs_store
        read += batch.extra_cost.bytes
    assert (read > 0) == learner.strategy.needs_store


def test_a_strategy_that_needs_no_store_gets_none(graph: Graph) -> None:
    for name in names():
        strategy = make_strategy(name)
        batch = next(batches(Learner(strategy), class_stream(graph)))
        assert (batch.store is None) == (not strategy.needs_store)
        assert not hasattr(batch.store, "adjacency") and not hasattr(batch.store, "add")
