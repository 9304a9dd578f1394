"""Anytime evaluation on Amazon Computer: as runs do it, naively, with PyG, and the product it cannot avoid."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ocgl.datasets import load_dataset
from ocgl.graph import Neighborhood
from ocgl.strategies import CachedPredictor, GradientStrategy, Learner, make_strategy
from ocgl.streams import VALIDATION, class_stream
from ocgl.types import FloatArray, IntArray
from perf.pyg_reference import PyGUpdate, subgraph
from perf.updates import Row

LAST = 60
BLOCK = 6
SEEDS = 500


class Ending:
    """A learner near the end of its stream, step by step with the clock on."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.stream = class_stream(load_dataset("amazon-computer"))
        self.learner = Learner(make_strategy(name, **settings))
        self.predictor = CachedPredictor(self.learner)
        self.held = self.stream.held_out(VALIDATION)
        self.spent: dict[str, list[float]] = {}
        self.first = len(self.stream) - LAST
        for index in range(self.first):
            step = self.stream.step(index)
            self.learner.arrive(step.arrival)
            self.learner.learn(step.labels)
        self.predictor(self._arrived(self.first - 1))

    def _arrived(self, index: int) -> IntArray:
        found: IntArray = self.held[self.stream.position[self.held] < self.stream.cuts[index]]
        return found

    def timed(self, name: str, call: Callable[..., Any], *given: Any) -> Any:
        begin = time.perf_counter()
        found = call(*given)
        self.spent.setdefault(name, []).append(time.perf_counter() - begin)
        return found

    def ms(self) -> dict[str, float]:
        """Return the medians; `both` is of arrival and update together, step by step."""
        both = np.add(self.spent["arrive"], self.spent["learn"])
        return {name: 1000 * float(np.median(seconds)) for name, seconds in {**self.spent, "both": both}.items()}

    def samples(self, ids: IntArray) -> list[Neighborhood]:
        sampling, key = self.learner.query_sampling, self.learner.query_key
        return [self.learner.store.sample(ids[i : i + SEEDS], sampling, key) for i in range(0, len(ids), SEEDS)]

    def take(self, steps: range) -> None:
        """Take steps, and after each ask all validation nodes; the first third warms caches and does not count."""
        for index in steps:
            step = self.stream.step(index)
            arrival, labels, ids = step.arrival, step.labels, self._arrived(index)
            warming = "warming " if index - steps[0] < len(steps) // 3 else ""
            self.timed(f"{warming}arrive", self.learner.arrive, arrival)
            self.timed(f"{warming}learn", self.learner.learn, labels)
            self.timed(f"{warming}evaluate", self.predictor, ids)

    def compare(self, index: int) -> None:
        """Ask all validation nodes naively."""
        ids = self._arrived(index)
        naive = self.timed("naive", self.learner.predict, ids)
        assert np.array_equal(self.predictor(ids), naive), "not the naive predictions"

    def references(self, index: int) -> None:
        """Ask PyG, and make the product that cannot be avoided."""
        ids = self._arrived(index)
        strategy = self.learner.strategy
        assert isinstance(strategy, GradientStrategy)
        weights = [p.detach().clone() for p in strategy.model.parameters()]
        reference, samples = PyGUpdate(weights, strategy.lr, 1), self.samples(ids)
        logits = self.timed("pyg", forward, reference, samples)
        predicted = strategy.labels[np.argmax(logits, 1)]
        assert (predicted == self.predictor(ids)).mean() > 0.999, "not the same model"
        inner = next(iter(strategy.model.parameters())).detach().numpy()
        whole = self.learner.store.sample(ids, self.learner.query_sampling, self.learner.query_key).aggregated
        self.timed("floor", np.matmul, whole, inner)


def forward(model: PyGUpdate, samples: list[Neighborhood]) -> FloatArray:
    """Give PyG's logits of the seeds; sampling is not counted."""
    with torch.no_grad():
        return np.concatenate(
            [model(*subgraph(neighborhood))[: neighborhood.seeds].numpy() for neighborhood in samples]
        )


def turns(*endings: Ending, block: int, references: bool = False) -> list[dict[str, float]]:
    """Let learners take their last steps in turns, block by block, with the references after each block."""
    first = endings[0].first
    for begin in range(first, first + LAST, block):
        for ending in endings:
            ending.take(range(begin, begin + block))
        for ending in endings:
            ending.compare(begin + block - 1)
            if references:
                ending.references(begin + block - 1)
    return [ending.ms() for ending in endings]


def measure() -> list[Row]:
    torch.set_num_threads(1)
    (bare,) = turns(Ending("bare"), block=1, references=True)
    tuned = Ending("linear", lr=0.01, passes=5, memory_proportion=3, buffer_size=550)
    five, one = turns(tuned, Ending("linear", buffer_size=550), block=BLOCK)
    what = "evaluation of all 2,750 validation nodes"
    one_pass, five_passes = f"linear with 1 pass (the default), {what}", f"linear with 5 passes, {what}"
    alone, arriving = "its update alone, without arrival", "its update with the arrival of its nodes"
    pyg, floor = f"PyG GCNConv, samples of {SEEDS} nodes", "floor: one product over distinct nodes"
    naive = f"naive: new samples of {tuned.learner.chunk} nodes, equal predictions"
    return [
        Row(f"bare, {what}", bare["evaluate"], pyg, bare["pyg"], 3, name="evaluation"),
        Row(f"bare, {what}", bare["evaluate"], floor, bare["floor"], 1.6, at_most=True),
        Row(f"bare, {what}", bare["evaluate"], naive, bare["naive"], name="evaluation-naive"),
        Row(five_passes, five["evaluate"], alone, five["learn"], 2, at_most=True),
        Row(five_passes, five["evaluate"], arriving, five["both"], 2, at_most=True),
        Row(one_pass, one["evaluate"], alone, one["learn"], at_most=True),
        Row(one_pass, one["evaluate"], arriving, one["both"], at_most=True),
        Row(five_passes, five["evaluate"], naive, five["naive"], name="linear-evaluation-naive"),
    ]
