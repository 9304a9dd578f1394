"""Anytime evaluation on Amazon Computer: as runs do it, naively, with PyG, and the product it cannot avoid."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.pyg_reference import PyGUpdate, subgraph
from benchmarks.updates import Row
from ocgl.datasets import load
from ocgl.graph import Neighborhood
from ocgl.strategies import Learner, Watch, make
from ocgl.strategies.training import GradientStrategy
from ocgl.streams import VALIDATION, Step, class_stream
from ocgl.types import FloatArray, IntArray

LAST = 40
SEEDS = 500


class Ending:
    """A learner near the end of its stream, step by step with the clock on."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.stream = class_stream(load("amazon-computer"))
        self.learner = Learner(make(name, **settings))
        self.watch = Watch(self.learner)
        self.held = self.stream.held_out(VALIDATION)
        self.spent: dict[str, list[float]] = {}
        for index in range(len(self.stream) - LAST):
            self._advance(self.stream.step(index))
        self.watch(self._arrived(len(self.stream) - LAST - 1))

    def _advance(self, step: Step) -> None:
        self.learner.arrive(step.arrival)
        self.learner.learn(step.labels)

    def _arrived(self, index: int) -> IntArray:
        found: IntArray = self.held[self.stream.position[self.held] < self.stream.cuts[index]]
        return found

    def timed(self, name: str, call: Callable[..., Any], *given: Any) -> Any:
        begin = time.perf_counter()
        found = call(*given)
        self.spent.setdefault(name, []).append(time.perf_counter() - begin)
        return found

    def ms(self) -> dict[str, float]:
        return {name: 1000 * float(np.median(seconds)) for name, seconds in self.spent.items()}

    def looks(self, ids: IntArray) -> list[Neighborhood]:
        look, key = self.learner.question_look, self.learner.question_key
        return [self.learner.store.look(ids[i : i + SEEDS], look, key) for i in range(0, len(ids), SEEDS)]

    def run(self, references: bool) -> dict[str, float]:
        """Take the last steps; after each, ask all validation nodes, and compare with the naive answer."""
        for index in range(len(self.stream) - LAST, len(self.stream)):
            self.timed("update", self._advance, self.stream.step(index))
            ids = self._arrived(index)
            ours = self.timed("watch", self.watch, ids)
            naive = self.timed("naive", self.learner.predict, ids)
            assert np.array_equal(ours, naive), "not the naive answers"
            if references:
                self._references(ids, naive)
        return self.ms()

    def _references(self, ids: IntArray, naive: IntArray) -> None:
        strategy = self.learner.strategy
        assert isinstance(strategy, GradientStrategy)
        weights = [p.detach().clone() for p in strategy.model.parameters()]
        reference, looks = PyGUpdate(weights, strategy.lr, 1), self.looks(ids)
        logits = self.timed("pyg", forward, reference, looks)
        said = strategy.labels[np.argmax(logits, 1)]
        assert (said == naive).mean() > 0.999, "not the same model"
        inner = next(iter(strategy.model.parameters())).detach().numpy()
        whole = self.learner.store.look(ids, self.learner.question_look, self.learner.question_key).aggregated
        self.timed("floor", np.matmul, whole, inner)


def forward(model: PyGUpdate, looks: list[Neighborhood]) -> FloatArray:
    """Give PyG's logits of the seeds; the looks are not counted."""
    with torch.no_grad():
        return np.concatenate([model(*subgraph(seen))[: seen.seeds].numpy() for seen in looks])


def measure() -> list[Row]:
    torch.set_num_threads(1)
    bare = Ending("bare").run(references=True)
    five = Ending("linear", lr=0.01, passes=5, memory_proportion=3, buffer_size=550).run(references=False)
    one = Ending("linear", buffer_size=550).run(references=False)
    what = "evaluation of all 2,750 validation nodes"
    return [
        Row(f"bare, {what}", bare["watch"], f"PyG GCNConv, looks of {SEEDS} seeds", bare["pyg"], 3),
        Row(f"bare, {what}", bare["watch"], "floor: one product over distinct nodes", bare["floor"], 1.6, at_most=True),
        Row(f"bare, {what}", bare["watch"], "naive: new looks of 512, equal answers", bare["naive"]),
        Row(f"linear, {what}", five["watch"], "its update with 5 passes, arrival too", five["update"], 2, at_most=True),
        Row(f"linear, {what}", one["watch"], "its update with 1 pass, arrival too", one["update"], 2, at_most=True),
        Row(f"linear, {what}", five["watch"], "naive: new looks of 512, equal answers", five["naive"]),
    ]
