"""A GCN update on Coauthor CS with sparse rows against the same with rows written out."""

from dataclasses import replace

import numpy as np
import torch

from ocgl.datasets import load_dataset
from ocgl.graph import Labels
from ocgl.graph.features import dense
from ocgl.strategies import Learner, make_strategy
from ocgl.streams import class_stream
from ocgl.types import FloatArray, IntArray
from perf.timing import Call, medians
from perf.updates import Row

BATCHES = 180


def measure() -> list[Row]:
    torch.set_num_threads(1)
    stream = class_stream(load_dataset("coauthor-cs"))
    assert stream.graph.x is not None
    full = replace(stream, graph=replace(stream.graph, x=dense(stream.graph.x)))
    learners = {"sparse": (Learner(make_strategy("bare")), stream), "dense": (Learner(make_strategy("bare")), full)}
    for learner, version in learners.values():
        learner.arrive(version.arrival(version.order))
    rng = np.random.default_rng(0)
    rows = []
    for size in (10, 50):
        drawn = [rng.choice(stream.label_order, size, replace=False) for _ in range(BATCHES)]
        ids = learners["sparse"][0].store.ids[:200]
        labels = [stream.labels_of(ids) for ids in drawn]
        calls = {name: updates(learner, labels) for name, (learner, _) in learners.items()}
        for call in calls.values():
            call(0)
        ours, theirs = (scores(learner, ids) for learner, _ in learners.values())
        assert np.allclose(ours, theirs, rtol=1e-2, atol=1e-3 * float(np.abs(theirs).max())), "not the same update"
        ms = {name: 1000 * seconds for name, seconds in medians(calls).items()}
        what = f"bare on Coauthor CS, batch of {size}, sparse rows"
        rows.append(Row(what, ms["sparse"], "the same rows written out", ms["dense"]))
    return rows


def updates(learner: Learner, labels: list[Labels]) -> Call:
    return lambda i: learner.learn(labels[i])


def scores(learner: Learner, ids: IntArray) -> FloatArray:
    return learner.strategy.scores(learner.store.sample(ids, learner.query_sampling, 0))
