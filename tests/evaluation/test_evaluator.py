import numpy as np
import pytest

from ocgl.errors import ConfigError
from ocgl.evaluation import Evaluator
from ocgl.graph import Graph
from ocgl.strategies import Learner, make_strategy
from ocgl.streams import TEST, VALIDATION, Stream, class_stream, make_stream
from ocgl.testing import same
from ocgl.types import IntArray


def judged(stream: Stream, name: str = "linear", every: int = 1) -> tuple[Evaluator, Learner]:
    evaluator, learner = Evaluator(stream, every=every), Learner(make_strategy(name, lr=0.01))
    for step in stream:
        learner.arrive(step.arrival)
        labels = step.labels
        if labels is not None:
            batch = learner.batch(labels)
            evaluator.before(step, learner.strategy.predict(batch.neighborhood, batch.candidates))
            learner.learn(batch)
        evaluator.after(step, learner.predict)
    return evaluator, learner


class Oracle:
    """Answers right for the classes of tasks it is told to know, and notes who was asked."""

    def __init__(self, stream: Stream, known: set[int]) -> None:
        self.stream, self.known = stream, known
        self.asked: list[set[int]] = []

    def __call__(self, ids: IntArray, candidates: IntArray | None = None) -> IntArray:
        self.asked.append(set(ids.tolist()))
        knows = np.isin(self.stream.scored[ids], list(self.known))
        return np.where(knows, self.stream.graph.y[ids], -1)


@pytest.mark.parametrize("kind", ["class", "time", "domain", "task", "blurry", "iid"])
def test_only_arrived_nodes_of_tasks_begun_are_asked(graph: Graph, kind: str) -> None:
    stream = make_stream(graph, kind, batch_size=4)
    evaluator, oracle = Evaluator(stream), Oracle(stream, set(range(stream.tasks)))
    arrived: set[int] = set()
    for step in stream:
        arrived |= set(step.ids.tolist())
        oracle.asked.clear()
        evaluator.after(step, oracle)
        begun = {v for v in arrived if stream.scored[v] >= 0 and stream.starts[stream.scored[v]] <= step.index}
        for role, asked in zip((VALIDATION, TEST), oracle.asked, strict=False):
            assert asked == {v for v in begun if stream.role[v] == role}
        assert (len(oracle.asked) == 2) == (step.index in stream.ends)
    assert evaluator.result()["AAP"] == evaluator.result()["AP"] == 100


def test_a_learner_of_the_last_task_only_scores_one_task(graph: Graph) -> None:
    stream = class_stream(graph, batch_size=4)
    evaluator = Evaluator(stream)
    for step in stream:
        evaluator.after(step, Oracle(stream, {step.task}))
    result = evaluator.result()
    assert result["AP"] == pytest.approx(100 / 3)
    assert result["AF"] == -100 and result["AF_T"] == pytest.approx(-200 / 3)
    assert np.isnan(evaluator.matrix[0, 1:]).all() and (np.diag(evaluator.matrix) == 1).all()


def test_the_last_anytime_value_is_the_validation_ap(graph: Graph) -> None:
    evaluator, learner = judged(class_stream(graph))
    ids = class_stream(graph).held_out(VALIDATION)
    stream = class_stream(graph)
    right = learner.predict(ids) == graph.y[ids]
    by_task = [right[stream.scored[ids] == j].mean() for j in range(stream.tasks)]
    assert evaluator.anytime[-1] == pytest.approx(np.mean(by_task))
    assert evaluator.result()["AP_validation"] == pytest.approx(100 * np.mean(by_task))


@pytest.mark.parametrize("name", ["bare", "linear"])
def test_judging_rarely_or_always_leaves_the_learner_bit_equal(graph: Graph, name: str) -> None:
    stream = class_stream(graph, batch_size=2)
    often, first = judged(stream, name, every=1)
    rarely, second = judged(stream, name, every=50)
    assert same(first.state(), second.state())
    assert np.array_equal(often.matrix, rarely.matrix, equal_nan=True)
    assert len(rarely.steps) == stream.tasks < len(often.steps) == len(stream)
    assert set(stream.ends.tolist()) <= set(rarely.steps.tolist())


def test_other_held_out_labels_change_the_scores_and_not_the_learner(graph: Graph) -> None:
    from dataclasses import replace

    stream = class_stream(graph)
    y = graph.y.copy()
    held = stream.role != 0
    y[held] = 0
    evaluator, learner = judged(stream)
    other_judge, other = judged(replace(stream, graph=replace(graph, y=y)))
    assert same(learner.state(), other.state())
    assert evaluator.result()["AP"] != other_judge.result()["AP"]
    assert evaluator.result()["prequential"] == other_judge.result()["prequential"]


def test_prequential_accuracy_is_measured_before_learning(graph: Graph) -> None:
    stream = class_stream(graph, batch_size=5)
    evaluator, _ = judged(stream)
    tried, right = evaluator.prequential
    assert tried.sum() == len(stream.label_order)
    assert right[0] == 0  # nothing was known
    assert evaluator.result()["prequential"] == pytest.approx(100 * right.sum() / tried.sum())


def test_state_round_trip(graph: Graph) -> None:
    stream = class_stream(graph)
    evaluator, _ = judged(stream)
    other = Evaluator(stream)
    other.load_state(evaluator.state())
    assert other.result() == evaluator.result() and same(other.state(), evaluator.state())


def test_an_evaluator_for_tuning_holds_no_test_nodes(graph: Graph) -> None:
    stream = class_stream(graph).prefix(2)
    evaluator = Evaluator(stream, test=False)
    oracle = Oracle(stream, {0, 1})
    for step in stream:
        evaluator.after(step, oracle)
    assert all((stream.role[list(asked)] == VALIDATION).all() for asked in oracle.asked if asked)
    assert evaluator.result()["AP"] is None and evaluator.result()["AP_validation"] == 100


def test_a_straddling_batch_does_not_fill_the_next_task_s_column(graph: Graph) -> None:
    stream = class_stream(graph, batch_size=7, straddle=True)
    evaluator = Evaluator(stream)
    for step in stream:
        evaluator.after(step, Oracle(stream, {0, 1, 2}))
    assert np.isnan(evaluator.matrix[np.triu_indices(3, 1)]).all()


def test_undefined_scores_are_counted(graph: Graph) -> None:
    stream = class_stream(graph)
    evaluator = Evaluator(stream, metric="f1:5")
    for step in stream:
        evaluator.after(step, Oracle(stream, {0, 1, 2}))
    assert evaluator.undefined > 0 and evaluator.result()["AP"] == 100


def test_every_must_be_positive(graph: Graph) -> None:
    with pytest.raises(ConfigError):
        Evaluator(class_stream(graph), every=0)
