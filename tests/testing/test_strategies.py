"""The contract holds for every registered strategy, and catches what it should."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ocgl.graph import Graph
from ocgl.strategies import Learner, find, make_strategy, names
from ocgl.strategies._core.registry import keys
from ocgl.streams import class_stream
from ocgl.testing import CHECKS, ContractError, small_graph
from ocgl.testing.reload import read_in_new_process, scores_in, scores_of_the_rest, state_after, write
from ocgl.testing.strategies import Make, continues_in_a_new_process

BROKEN = """
import numpy as np
import torch
from typing import ClassVar
from ocgl.strategies import Bare, strategy

@strategy
class RemembersEverything(Bare):
    def after_batch(self, examples, batch):
        self.past = getattr(self, "past", []) + [batch.neighborhood.aggregated]

@strategy
class RemembersInViews(Bare):
    def after_batch(self, examples, batch):
        whole = np.concatenate([batch.neighborhood.aggregated] * 2)
        self.past = getattr(self, "past", []) + [whole[::2]]

@strategy
class LearnsByAnswering(Bare):
    def scores(self, neighborhood):
        scores = super().scores(neighborhood)
        self.head.weight.data *= 1.001
        return scores

@strategy
class CountsQuestions(Bare):
    def scores(self, neighborhood):
        self.lr = self.lr * 0.9
        self.trainer.optimizer._lr = self.lr
        return super().scores(neighborhood)

@strategy
class UsesGlobalRandomness(Bare):
    def loss(self, examples):
        return super().loss(examples) * (1 + torch.rand(()))

@strategy
class UsesNumpyRandomness(Bare):
    def after_batch(self, examples, batch):
        self.head.weight.data += float(np.random.normal()) * 1e-3

@strategy
class ForgetsItsState(Bare):
    def after_batch(self, examples, batch):
        self.past_batches = getattr(self, "past_batches", 0) + 1
        self.head.weight.data *= 1 - 0.01 * self.past_batches

@strategy
class KeepsAnUnsavedPart(Bare):
    def after_batch(self, examples, batch):
        self.shift = getattr(self, "shift", 0) + 1

    def scores(self, neighborhood):
        return super().scores(neighborhood) * (1 + getattr(self, "shift", 0))

@strategy
class SharesItsState(Bare):
    def state(self):
        state = super().state()
        if self._width:
            state.arrays["trainer/model/head.weight"] = self.head.weight.data.numpy()
        return state

@strategy
class NeedsTheEdges(Bare):
    def logits(self, neighborhood):
        neighborhood.block(1)
        return super().logits(neighborhood)

@strategy
class ReadsTheStoreUnseen(Bare):
    @property
    def needs_store(self):
        return True

    def after_batch(self, examples, batch):
        for position in batch.neighborhood.nodes.tolist():
            batch.store.subgraph(position, (5, 5), 0)

@strategy
class SeesMoreThanTheSums(Bare):
    def scores(self, neighborhood):
        return super().scores(neighborhood) * (1 if neighborhood.sizes[-1] > neighborhood.sizes[-2] else -1)
"""

SHOULD_FAIL = {
    "RemembersEverything": "memory_stays_bounded",
    "RemembersInViews": "memory_stays_bounded",
    "LearnsByAnswering": "predicting_changes_nothing",
    "CountsQuestions": "predicting_changes_nothing",
    "UsesGlobalRandomness": "same_seed_same_result",
    "UsesNumpyRandomness": "same_seed_same_result",
    "ForgetsItsState": "loaded_state_continues_bit_equal",
    "KeepsAnUnsavedPart": "loaded_state_continues_bit_equal",
    "SharesItsState": "state_is_a_copy",
    "ReadsTheStoreUnseen": "updates_stay_within_the_bound",
    "NeedsTheEdges": "cached_sums_give_the_same_predictions",
    "SeesMoreThanTheSums": "cached_sums_give_the_same_predictions",
}


IN_THIS_PROCESS = [
    pytest.param(check, id=check.__name__) for check in CHECKS if check is not continues_in_a_new_process
]


def plain(name: str) -> Make:
    more = {"passes": 2} if "passes" in keys(find(name)) else {}
    return partial(make_strategy, name, seed=3, fanout=4, **more)


def without_store(name: str) -> Make:
    return partial(make_strategy, name, seed=3, fanout=4, source="batch", neighbors_budget=(2, 3))


@pytest.mark.parametrize("check", IN_THIS_PROCESS)
@pytest.mark.parametrize("name", names())
def test_contract(name: str, check: Callable[[Make, Graph], None]) -> None:
    check(plain(name), small_graph())


def test_the_check_in_a_new_process() -> None:
    continues_in_a_new_process(plain("er"), small_graph())


SUBGRAPHS = ("ssm-er", "ssm-a-gem")
WITH_NETWORKS = [(name, backbone) for name in names() if "backbone" in keys(find(name)) for backbone in ("sage", "gat")]


@pytest.mark.parametrize(("name", "backbone"), WITH_NETWORKS)
def test_contract_with_other_networks(name: str, backbone: str) -> None:
    for check in CHECKS:
        if check is not continues_in_a_new_process:
            check(lambda: make_strategy(name, seed=3, backbone=backbone, hidden=16), small_graph())


def test_every_strategy_and_network_continues_in_a_new_process(tmp_path: Path) -> None:
    """The same as that check, with one process for all."""
    stream, here = class_stream(small_graph()), {}
    made = {name: plain(name) for name in names()}
    made |= {f"{name}-without-store": without_store(name) for name in SUBGRAPHS}
    for name, backbone in WITH_NETWORKS:
        made[f"{name}-{backbone}"] = partial(make_strategy, name, seed=3, backbone=backbone, hidden=16)
    for name, make in made.items():
        folder = tmp_path / name
        folder.mkdir()
        here[folder] = scores_of_the_rest(Learner(make()), stream, 6, None)
        write(make(), state_after(Learner(make()), stream, 6), stream, 6, folder)
    read_in_new_process(list(here))
    for folder, own in here.items():
        for ours, theirs in zip(own, scores_in(folder), strict=True):
            assert np.array_equal(ours, theirs), folder.name


@pytest.mark.parametrize("name", SUBGRAPHS)
@pytest.mark.parametrize("check", IN_THIS_PROCESS)
def test_contract_of_subgraph_memories_without_a_store(name: str, check: Callable[[Make, Graph], None]) -> None:
    check(without_store(name), small_graph())


@pytest.mark.parametrize("broken", SHOULD_FAIL)
def test_a_broken_strategy_is_caught(broken: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    (check,) = [check for check in CHECKS if check.__name__ == SHOULD_FAIL[broken]]
    with pytest.raises(ContractError):
        check(lambda: make_strategy(f"{file}:{broken}", seed=3, fanout=4), small_graph())
