from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocgl.errors import ConfigError
from ocgl.evaluation import Evaluator, Metric
from ocgl.evaluation.estimate import FIRST, REPLICATES, Bootstrap, stratified
from ocgl.evaluation.metrics import average_anytime
from ocgl.graph import Graph
from ocgl.streams import VALIDATION, class_stream
from ocgl.testing import same
from ocgl.types import IntArray
from tests.conftest import random_graph


@given(st.integers(0, 9999), st.integers(1, 60), st.integers(1, 300))
def test_strata_keep_their_weight(seed: int, cap: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    task, truth = rng.integers(3, size=nodes), rng.integers(4, size=nodes)
    chosen, weight = stratified(task, truth, cap, seed)
    assert (np.diff(chosen) > 0).all() and (weight >= 1).all()
    for j in range(3):
        inside = np.nonzero(task == j)[0]
        assert set(inside[:FIRST]) <= set(chosen)
        assert (task[chosen] == j).sum() <= max(cap, FIRST) + 2 * 4
        for label in range(4):
            rest = inside[FIRST:][truth[inside[FIRST:]] == label]
            taken = np.isin(chosen, rest)
            assert taken.sum() >= min(2, len(rest))
            assert weight[taken].sum() == pytest.approx(len(rest))


def noisy(graph: Graph, seed: int) -> object:
    """Answer right for most nodes, for some classes more often than for others."""
    rng = np.random.default_rng(seed)
    right = rng.random(graph.nodes) < 0.3 + 0.1 * graph.y
    said = np.where(right, graph.y, 99)
    return lambda ids, candidates=None: said[ids]


def judged(graph: Graph, cap: int | None, seed: int, metric: str = "accuracy") -> Evaluator:
    stream = class_stream(graph)
    evaluator = Evaluator(stream, metric, cap=cap)
    for step in stream:
        evaluator.after(step, noisy(graph, seed))  # type: ignore[arg-type]
    return evaluator


def test_a_cap_that_holds_everything_is_exact(graph: Graph) -> None:
    whole, capped = judged(graph, None, 0), judged(graph, 1000, 0)
    assert np.array_equal(whole.scores, capped.scores, equal_nan=True)
    assert whole.evaluation() == capped.evaluation()
    assert whole.evaluation()["anytime"] == "exact"


@pytest.mark.parametrize("metric", ["accuracy", "f1:1"])
def test_the_estimate_is_near_and_its_interval_mostly_holds_the_truth(metric: str) -> None:
    graph = random_graph(0, 3000, 9000)
    held = 0
    for seed in range(20):
        exact = judged(replace(graph), None, seed, metric).result()["AAP"]
        evaluator = judged(graph, 60, seed, metric)
        said = evaluator.evaluation()
        low, high = said["AAP_interval"]
        assert said["anytime"] == "estimate" and said["nodes"] < said["of"]
        assert low < evaluator.result()["AAP"] < high and high - low < (25 if metric == "accuracy" else 45)
        held += low <= exact <= high
    assert held >= 17


@pytest.mark.parametrize("cap", [40, 100])
@pytest.mark.parametrize("wrong", [0, 9])
def test_a_learner_that_improves_is_not_flattered(cap: int, wrong: int) -> None:
    """Wrong on a task for its first ten steps, right from then on: what comes early must count as it does in all."""
    graph = random_graph(1, 4000, 100)
    off, held = [], 0
    always = np.arange(graph.nodes) % 9 < wrong / 9
    for seed in range(10):
        stream = class_stream(graph, stream_seed=seed)
        exact, evaluator = Evaluator(stream, test=False), Evaluator(stream, test=False, cap=cap)
        for step in stream:
            young = step.index < stream.starts[stream.scored] + 10
            said = np.where(young | always, 99, graph.y)
            for each in (exact, evaluator):
                each.after(step, lambda ids, _=None, said=said: said[ids])
        low, high = evaluator.evaluation()["AAP_interval"]
        off.append(evaluator.result()["AAP"] - exact.result()["AAP"])
        held += low <= exact.result()["AAP"] <= high
    if wrong:  # some nodes are never right: which of them are drawn matters now
        assert held >= 8
    else:
        assert max(off, key=abs) == pytest.approx(0, abs=0.2)


def test_small_strata_have_their_whole_variance() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for seed in range(60):
        truth, task = np.arange(3000) % 50, np.zeros(3000, int)
        right = rng.random(3000) < 0.7
        chosen, weight = stratified(task, truth, 100, seed)
        boot = Bootstrap(task[chosen], truth[chosen], weight, 1, seed)
        boot.add(Metric.parse("accuracy"), np.arange(len(chosen)), np.where(right, truth, 99)[chosen], truth[chosen])
        low, high = boot.interval() or (0, 0)
        held += low <= right.mean() <= high
    assert held >= 52  # of 60; with n draws instead of n - 1 about 49


def test_test_nodes_are_all_asked() -> None:
    graph = random_graph(0, 1000, 1000)
    exact, capped = judged(graph, None, 0), judged(graph, 25, 0)
    assert np.array_equal(exact.matrix, capped.matrix, equal_nan=True)
    assert not np.array_equal(exact.scores, capped.scores, equal_nan=True)


@pytest.mark.parametrize("metric", ["accuracy", "f1:2"])
def test_the_bootstrap_is_the_obvious_one(metric: str) -> None:
    rng = np.random.default_rng(0)
    task, truth = np.repeat([0, 1], 30), rng.integers(4, size=60)
    weight = np.where(task == 0, 5.0, 1.0)
    boot = Bootstrap(task, truth, weight, 2, seed=3)
    rule = Metric.parse(metric)
    slow: list[list[float]] = [[] for _ in range(REPLICATES)]
    for arrived in (20, 40, 60):
        asked: IntArray = np.arange(arrived)
        predicted = np.where(rng.random(arrived) < 0.6, truth[:arrived], 9)
        boot.add(rule, asked, predicted, truth[:arrived])
        for r in range(REPLICATES):
            times = boot._weights[r, :arrived].astype(np.float64)
            row = rule.per_task(predicted, truth[:arrived], task[:arrived], 2, times)
            slow[r].append(average_anytime(row[None]))
    low, high = boot.interval() or (0, 0)
    expected = np.percentile([np.mean(values) for values in slow], [2.5, 97.5])
    assert [low, high] == pytest.approx(expected.tolist(), abs=1e-6)
    assert (boot._weights[:, task == 1] == 1).all()
    for label in range(4):  # n - 1 draws, weighted by n / (n - 1): the stratum keeps its weight
        members = (task == 0) & (truth == label)
        assert boot._weights[:, members].sum(1) == pytest.approx(5.0 * members.sum())
        assert len(np.unique(boot._weights[:, members])) > 2


def test_an_evaluator_with_an_estimate_resumes() -> None:
    graph = random_graph(0, 1000, 1000)
    stream, answer = class_stream(graph), noisy(graph, 0)
    first, second = Evaluator(stream, cap=25), Evaluator(stream, cap=25)
    for step in stream:
        first.after(step, answer)  # type: ignore[arg-type]
        if step.index == 5:
            second.load_state(first.state())
        elif step.index > 5:
            second.after(step, answer)  # type: ignore[arg-type]
    assert same(first.state(), second.state()) and first.evaluation() == second.evaluation()
    assert first.evaluation()["AAP_interval"] is not None


def test_the_same_nodes_are_chosen_for_every_method() -> None:
    stream = class_stream(random_graph(0, 1000, 1000))
    ids = [Evaluator(stream, cap=30)._validation.ids for _ in range(2)]
    assert np.array_equal(ids[0], ids[1]) and set(ids[0]) < set(stream.held_out(VALIDATION).tolist())
    with pytest.raises(ConfigError):
        Evaluator(stream, cap=0)
