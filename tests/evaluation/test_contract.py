"""The contract holds for every registered strategy, and catches what it should."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ocgl.evaluation.contract import CHECKS, ContractError, Make, small_graph
from ocgl.graph import Graph
from ocgl.strategies import find, make, names
from ocgl.strategies.registry import keys

BROKEN = """
import numpy as np
import torch
from typing import ClassVar
from pydantic.dataclasses import dataclass
from ocgl.strategies.bare import Bare

@dataclass(kw_only=True)
class RemembersEverything(Bare):
    def after_batch(self, seen, batch):
        self.past = getattr(self, "past", []) + [seen.aggregated]

@dataclass(kw_only=True)
class LearnsByAnswering(Bare):
    def scores(self, seen):
        scores = super().scores(seen)
        self.head.weight.data *= 1.001
        return scores

@dataclass(kw_only=True)
class CountsQuestions(Bare):
    def scores(self, seen):
        self.lr = self.lr * 0.9
        self._optimizer._lr = self.lr
        return super().scores(seen)

@dataclass(kw_only=True)
class UsesGlobalRandomness(Bare):
    def loss(self, logits, targets):
        return super().loss(logits, targets) * (1 + torch.rand(()))

@dataclass(kw_only=True)
class UsesNumpyRandomness(Bare):
    def after_batch(self, seen, batch):
        self.head.weight.data += float(np.random.normal()) * 1e-3

@dataclass(kw_only=True)
class ForgetsItsState(Bare):
    def after_batch(self, seen, batch):
        self.seen_batches = getattr(self, "seen_batches", 0) + 1
        self.head.weight.data *= 1 - 0.01 * self.seen_batches

@dataclass(kw_only=True)
class NeedsTheEdges(Bare):
    def encode(self, seen):
        seen.block(1)
        return super().encode(seen)

@dataclass(kw_only=True)
class SeesMoreThanTheSums(Bare):
    def scores(self, seen):
        return super().scores(seen) * (1 if seen.sizes[-1] > seen.sizes[-2] else -1)
"""

SHOULD_FAIL = {
    "RemembersEverything": "memory_stays_bounded",
    "LearnsByAnswering": "predicting_is_pure",
    "CountsQuestions": "predicting_is_pure",
    "UsesGlobalRandomness": "same_seed_same_result",
    "UsesNumpyRandomness": "same_seed_same_result",
    "ForgetsItsState": "state_continues_bit_equal",
    "NeedsTheEdges": "kept_sums_serve_as_looks_do",
    "SeesMoreThanTheSums": "kept_sums_serve_as_looks_do",
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
@pytest.mark.parametrize("name", names())
def test_contract(name: str, check: Callable[[Make, Graph], None]) -> None:
    more = {"passes": 2} if "passes" in keys(find(name)) else {}
    check(lambda: make(name, seed=3, fanout=4, **more), small_graph())


@pytest.mark.parametrize("name", ["ssm-er", "ssm-a-gem"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
def test_contract_of_subgraph_memories_without_a_store(name: str, check: Callable[[Make, Graph], None]) -> None:
    check(lambda: make(name, seed=3, fanout=4, source="batch", neighbors_budget=(2, 3)), small_graph())


@pytest.mark.parametrize("broken", SHOULD_FAIL)
def test_a_broken_strategy_is_caught(broken: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    caught = []
    for check in CHECKS:
        try:
            check(lambda: make(f"{file}:{broken}", seed=3, fanout=4), small_graph())
        except ContractError:
            caught.append(check.__name__)
    assert SHOULD_FAIL[broken] in caught
