from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocgl.errors import ConfigError
from ocgl.evaluation import Judge, Metric
from ocgl.evaluation.contract import same
from ocgl.evaluation.estimate import REPLICATES, Bootstrap, stratified
from ocgl.evaluation.metrics import average_anytime
from ocgl.graph import Graph
from ocgl.streams import VALIDATION, class_stream
from ocgl.types import IntArray
from tests.conftest import random_graph


@given(st.integers(0, 9999), st.integers(1, 40), st.integers(1, 200))
def test_strata_keep_their_weight(seed: int, cap: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    task, truth = rng.integers(3, size=nodes), rng.integers(4, size=nodes)
    chosen, weight = stratified(task, truth, cap, seed)
    assert (np.diff(chosen) > 0).all() and (weight >= 1).all()
    for j in range(3):
        assert ((task == j).sum() <= 2) or (task[chosen] == j).sum() <= max(cap + 4, 8)
        for label in range(4):
            stratum, taken = (task == j) & (truth == label), (task[chosen] == j) & (truth[chosen] == label)
            assert taken.sum() >= min(2, stratum.sum())
            assert weight[taken].sum() == pytest.approx(stratum.sum())


def noisy(graph: Graph, seed: int) -> object:
    """Answer right for most nodes, for some classes more often than for others."""
    rng = np.random.default_rng(seed)
    right = rng.random(graph.nodes) < 0.3 + 0.1 * graph.y
    said = np.where(right, graph.y, 99)
    return lambda ids, candidates=None: said[ids]


def judged(graph: Graph, cap: int | None, seed: int, metric: str = "accuracy") -> Judge:
    stream = class_stream(graph)
    judge = Judge(stream, metric, cap=cap)
    for step in stream:
        judge.after(step, noisy(graph, seed))  # type: ignore[arg-type]
    return judge


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
        judge = judged(graph, 60, seed, metric)
        said = judge.evaluation()
        low, high = said["AAP_interval"]
        assert said["anytime"] == "estimate" and said["nodes"] < said["of"]
        assert low < judge.result()["AAP"] < high and high - low < (25 if metric == "accuracy" else 45)
        held += low <= exact <= high
    assert held >= 17


def test_test_nodes_are_all_asked(graph: Graph) -> None:
    assert np.array_equal(judged(graph, None, 0).matrix, judged(graph, 5, 0).matrix, equal_nan=True)


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
            times = np.rint(boot._weights[r, :arrived] / weight[:arrived]).astype(int)
            copies = np.repeat(asked, times)
            row = [rule.of(predicted[c], truth[c]) for c in (copies[task[copies] == 0], copies[task[copies] == 1])]
            slow[r].append(average_anytime(np.array([row])))
    low, high = boot.interval() or (0, 0)
    expected = np.percentile([np.mean(values) for values in slow], [2.5, 97.5])
    assert [low, high] == pytest.approx(expected.tolist(), abs=1e-6)
    whole = boot._weights[:, task == 1]
    assert (whole == 1).all() and (boot._weights[:, task == 0] != 5).any()


def test_a_judge_with_an_estimate_goes_on_where_it_was(graph: Graph) -> None:
    stream, answer = class_stream(graph), noisy(graph, 0)
    first, second = Judge(stream, cap=4), Judge(stream, cap=4)
    for step in stream:
        first.after(step, answer)  # type: ignore[arg-type]
        if step.index == 5:
            second.load_state(first.state())
        elif step.index > 5:
            second.after(step, answer)  # type: ignore[arg-type]
    assert same(first.state(), second.state()) and first.evaluation() == second.evaluation()


def test_the_same_nodes_are_chosen_for_every_method(graph: Graph) -> None:
    stream = class_stream(graph)
    ids = [Judge(stream, cap=3)._validation.ids for _ in range(2)]
    assert np.array_equal(ids[0], ids[1]) and set(ids[0]) < set(stream.held_out(VALIDATION).tolist())
    with pytest.raises(ConfigError):
        Judge(stream, cap=0)
