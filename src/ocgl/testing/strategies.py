"""Checks that every strategy must pass, run by `ocgl check NAME` (or `ocgl check path/to/file.py:Class`).

A check takes a function that makes a new strategy, and a graph. It raises `ContractError` if the strategy fails.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ocgl.errors import OcglError, WrongSamplingError
from ocgl.experiments.stepping import arrivals
from ocgl.graph import Batch, Graph, Labels
from ocgl.graph.changes import draw_changes
from ocgl.graph.features import dense
from ocgl.rng import generator
from ocgl.state import State
from ocgl.strategies import CachedPredictor, Learner, Strategy
from ocgl.strategies._core.registry import is_findable
from ocgl.streams import TRAIN, Step, Stream, class_stream
from ocgl.testing.memory import held_bytes
from ocgl.testing.reference_store import ReferenceStore, rows_at
from ocgl.testing.reload import in_new_process, scores_of_the_rest, state_after

Make = Callable[[], Strategy]
"""Makes a new strategy, the same one every time."""


class ContractError(OcglError):
    """A strategy fails a check that every strategy must pass."""


def require(holds: bool, failure: str) -> None:
    """Raise `ContractError` with the message `failure` unless the condition holds."""
    if not holds:
        raise ContractError(failure)


def small_graph(nodes: int = 120, edges: int = 400, classes: int = 6, width: int = 5, seed: int = 0) -> Graph:
    """Draw a random graph with class-dependent features, times, domains, and a few unlabelled nodes."""
    rng = generator(seed, "small graph")
    y = rng.integers(classes, size=nodes)
    x = rng.normal(size=(nodes, width)) + 3 * rng.normal(size=(classes, width))[y]
    y[rng.random(nodes) < 0.05] = -1
    pairs = rng.integers(nodes, size=(2, edges))
    return Graph.from_edges("random", pairs, y, x, rng.integers(20, size=nodes), rng.integers(3, size=nodes))


def same(a: State, b: State) -> bool:
    """Return whether two states are bit-equal in what was learned; who has saved them does not count."""
    arrays = a.arrays.keys() == b.arrays.keys() and all(
        np.array_equal(a.arrays[name], b.arrays[name], equal_nan=True) for name in a.arrays
    )
    return arrays and _without_identity(a.facts) == _without_identity(b.facts)


def _without_identity(facts: Any) -> Any:
    if not isinstance(facts, dict):
        return facts
    return {key: _without_identity(value) for key, value in facts.items() if key != "identity"}


def batches(learner: Learner, stream: Stream) -> Iterator[Batch]:
    """Add the nodes of a stream to a learner step by step; yield each batch, which the caller may learn."""
    return (batch for _, batch in arrivals(learner, stream))


def taught(strategy: Strategy, stream: Stream, count: int | None = None) -> Learner:
    """Return a learner that has learned the first batches of a stream.

    Args:
        strategy: the strategy to train.
        stream: the stream to train on.
        count: number of batches; all if None.
    """
    learner = Learner(strategy)
    for batch in islice(batches(learner, stream), count):
        learner.learn(batch)
    return learner


def predicts_minus_one_before_learning(make: Make, graph: Graph) -> None:
    """Check that an untrained strategy predicts -1."""
    learner = Learner(make())
    learner.arrive(class_stream(graph).step(0).arrival)
    require(
        bool((learner.predict(learner.store.ids) == -1).all()),
        "predicts a class before it has learned one; it must predict -1",
    )


def predicting_changes_nothing(make: Make, graph: Graph) -> None:
    """Check that predictions change neither the state nor later updates."""
    learner = taught(make(), class_stream(graph), 12)
    before = learner.state()
    first = learner.predict(learner.store.ids)
    require(
        np.array_equal(first, learner.predict(learner.store.ids)),
        "a second prediction for the same nodes differs from the first",
    )
    require(same(before, learner.state()), "a prediction changes the state")
    without, predicting = Learner(make()), Learner(make())
    for learner in (without, predicting):
        for batch in batches(learner, class_stream(graph)):
            learner.learn(batch)
            if learner is predicting:
                learner.predict(learner.store.ids[:3])
    require(same(without.state(), predicting.state()), "predictions between updates change what is learned")


def same_seed_same_result(make: Make, graph: Graph) -> None:
    """Check that the seed determines the result, whatever the global random state is."""
    import torch

    stream = class_stream(graph)
    first = taught(make(), stream).state()
    numpy_state, torch_state = np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002 - under test here
    try:
        np.random.seed(123)  # noqa: NPY002
        torch.manual_seed(77)
        again = taught(make(), stream).state()
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.random.set_rng_state(torch_state)
    require(
        same(first, again), "the same seed gives another result: the strategy uses global randomness or hidden state"
    )


def clone_is_independent(make: Make, graph: Graph) -> None:
    """Check that a clone is equal to the original, and does not change when the original learns."""
    stream = class_stream(graph)
    learner = taught(make(), stream, 6)
    before = learner.strategy.state()
    clone = learner.strategy.clone()
    require(same(before, clone.state()), "a clone differs from the original")
    require(
        same_answers(learner.strategy, clone, learner), "a clone predicts otherwise: part of its state is not saved"
    )
    for batch in islice(batches(Learner(make()), stream), 6):
        learner.strategy.learn(batch)
    require(same(before, clone.state()), "a clone changes when the original learns")
    require(not same(before, learner.strategy.state()), "learning does not change the state")


def loaded_state_continues_bit_equal(make: Make, graph: Graph) -> None:
    """Check that a strategy with a loaded state learns bit-equal to the original."""
    original, resumed = make(), make()
    for number, batch in enumerate(batches(Learner(make()), class_stream(graph))):
        original.learn(batch)
        if number == 7:
            resumed.load_state(original.state())
        elif number > 7:
            resumed.learn(batch)
    require(same(original.state(), resumed.state()), "learns differently after a saved state is loaded")
    learner = taught(make(), class_stream(graph))
    fresh = make()
    fresh.load_state(learner.strategy.state())
    failure = "predicts differently after a saved state is loaded: part of its state is not saved"
    require(same_answers(learner.strategy, fresh, learner), failure)


def same_answers(first: Strategy, second: Strategy, learner: Learner) -> bool:
    """Return whether two strategies know the same classes and give the same scores for nodes of a store."""
    neighborhood = learner.store.sample(learner.store.ids, first.sampling, 0)
    if not np.array_equal(first.labels, second.labels):
        return False
    return np.array_equal(first.scores(neighborhood), second.scores(neighborhood), equal_nan=True)


def continues_in_a_new_process(make: Make, graph: Graph) -> None:
    """Check that a saved state predicts, and learns on, in a new process as it does here.

    A class that is defined inside a function cannot be found by another process; it is not checked.
    """
    stream = class_stream(graph)
    strategy = make()
    if not is_findable(strategy):
        return
    half = 6
    here = scores_of_the_rest(Learner(make()), stream, half, None)
    saved = state_after(Learner(strategy), stream, half)
    with tempfile.TemporaryDirectory(prefix="ocgl-check-") as folder:
        there = in_new_process(strategy, saved, stream, half, Path(folder))
    for when, own, other in zip(("", "after learning on "), here, there, strict=True):
        failure = f"predicts differently {when}in a new process: part of its state is not saved, or is drawn anew"
        require(own.shape == other.shape and np.array_equal(own, other, equal_nan=True), failure)


def state_is_a_copy(make: Make, graph: Graph) -> None:
    """Check that a state that was taken stays as it is while the strategy learns on."""
    stream = class_stream(graph)
    learner = taught(make(), stream)
    state = learner.strategy.state()
    before = {name: array.copy() for name, array in state.arrays.items()}
    parts = np.array_split(stream.held_out(TRAIN), 10)
    for part in parts * 8:
        learner.learn(Labels(part, graph.y[part]))
    changed = [name for name, array in before.items() if not np.array_equal(array, state.arrays[name], equal_nan=True)]
    require(not changed, f"a saved state changes while the strategy learns on: {', '.join(changed)}")


def untrained_state_can_be_loaded(make: Make, graph: Graph) -> None:
    """Check that the state of an untrained strategy can be saved and loaded."""
    stream, fresh = class_stream(graph), make()
    fresh.load_state(make().state())
    require(
        same(taught(fresh, stream, 3).strategy.state(), taught(make(), stream, 3).strategy.state()),
        "learns differently after the state of an untrained strategy is loaded",
    )


def outputs_are_the_training_classes_so_far(make: Make, graph: Graph) -> None:
    """Check that each class gets an output with its first training label, after the existing outputs."""
    learner = Learner(make())
    known: set[int] = set()
    for batch in batches(learner, class_stream(graph)):
        old = learner.strategy.labels.tolist()
        learner.learn(batch)
        known |= set(batch.labels.tolist())
        now = learner.strategy.labels.tolist()
        require(
            now[: len(old)] == old and set(now) == known,
            "the outputs are not the classes of the training labels so far",
        )


def unlabelled_nodes_change_nothing(make: Make, graph: Graph) -> None:
    """Check that a batch without labels changes nothing, and that one with some labels is learned."""
    learner = taught(make(), class_stream(graph), 5)
    before = learner.strategy.state()
    ids = learner.store.ids[:4]
    learner.learn(Labels(ids, np.full(4, -1)))
    require(same(before, learner.strategy.state()), "learns from nodes without labels")
    learner.learn(Labels(ids, np.array([-1, 0, -1, 1])))
    require(not same(before, learner.strategy.state()), "does not learn from a batch with some labels")


def learns_batches_of_one_node(make: Make, graph: Graph) -> None:
    """Check that a strategy learns from batches of one node."""
    learner = taught(make(), class_stream(graph, batch_size=1))
    require(bool((learner.predict(learner.store.ids) >= 0).all()), "predicts no class after batches of one node")


def renaming_tasks_changes_nothing(make: Make, graph: Graph) -> None:
    """Check that a strategy does not depend on the numbers of the tasks."""
    stream = class_stream(graph)
    shuffled = np.random.default_rng(3).permutation(stream.tasks)
    renamed = replace(stream, step_task=shuffled[stream.step_task], scored=shuffled[stream.scored])
    require(
        same(taught(make(), stream).state(), taught(make(), renamed).state()),
        "the numbers of the tasks change what is learned",
    )


def held_out_labels_change_nothing(make: Make, graph: Graph) -> None:
    """Check that a strategy does not depend on the labels of validation and test nodes."""
    stream = class_stream(graph)
    garbage = graph.y.copy()
    held = stream.role != TRAIN
    garbage[held] = np.random.default_rng(0).integers(100, size=int(held.sum()))
    other = replace(stream, graph=replace(graph, y=garbage))
    require(
        same(taught(make(), stream).state(), taught(make(), other).state()),
        "labels of held-out nodes change what is learned",
    )


def memory_stays_bounded(make: Make, graph: Graph) -> None:
    """Check that memory does not grow with the length of the stream, and that `memory_bytes` declares it."""
    stream = class_stream(graph)
    learner = taught(make(), stream)
    parts = np.array_split(stream.held_out(TRAIN), 10)

    def bytes_after(times: int) -> int:
        for part in parts * times:
            learner.learn(Labels(part, graph.y[part]))
        return held_bytes(learner.strategy)

    first = bytes_after(6)
    declared = learner.strategy.memory_bytes
    require(bytes_after(12) <= first + 1024, "its memory grows with the length of the stream")
    require(learner.strategy.memory_bytes == declared, "its memory_bytes grows with the length of the stream")
    stored = sum(array.nbytes for array in learner.strategy.state().arrays.values())
    require(stored <= declared + 1024, f"its state has {stored} bytes, but memory_bytes is {declared}")
    require(first <= declared + 65536, f"it uses {first} bytes, but memory_bytes is {declared}")


def updates_stay_within_the_bound(make: Make, graph: Graph) -> None:
    """Check that no update reads more than `update_bound` declares, reads from the graph store included."""
    learner = Learner(make())
    for batch in batches(learner, class_stream(graph)):
        learner.learn(batch)
        bound = learner.strategy.update_bound(len(batch.labels), learner.store.features.row_bound)
        require(batch.cost.within(bound), "an update reads more than update_bound declares")


def works_without_a_store(make: Make, graph: Graph) -> None:
    """Check that a strategy that needs no store learns bit-equal from neighbourhoods without one."""
    attached, detached = make(), make()
    if attached.needs_store:
        return
    for batch in batches(Learner(make()), class_stream(graph)):
        without_store = Batch(batch.neighborhood.detached(), batch.labels)
        attached.learn(batch)
        detached.learn(without_store)
    require(same(attached.state(), detached.state()), "learns differently from neighbourhoods without a store")
    predictions = attached.predict(batch.neighborhood), detached.predict(without_store.neighborhood)
    require(np.array_equal(*predictions), "predicts differently for neighbourhoods without a store")


def cached_sums_give_the_same_predictions(make: Make, graph: Graph) -> None:
    """Check that predictions from cached neighbourhood sums equal those from new samples."""
    learner = Learner(make())
    cached_predictor = CachedPredictor(learner)
    for batch in batches(learner, class_stream(graph)):
        learner.learn(batch)
        ids = learner.store.ids[::5]
        try:
            predictions = cached_predictor(ids)
        except WrongSamplingError as error:
            raise ContractError(
                f"cannot predict from cached sums ({error}); make supports_cached_aggregates return False"
            ) from error
        require(np.array_equal(predictions, learner.predict(ids)), "cached sums give other predictions")


def changing(graph: Graph, share: float = 0.15, seed: int = 0) -> Graph:
    """Return the graph with later edges, new features and removals, drawn as those of `sbm:...,churn=` are."""
    assert graph.x is not None
    return replace(graph, changes=draw_changes(graph, share, generator(seed, "changes")))


def follows_a_changing_graph(make: Make, graph: Graph) -> None:
    """Check that later edges, new features and removals are followed: no removed node and no stale sum is used.

    The strategy must predict as it does on a store that was made anew with the same graph, it must learn from nodes
    that are there, with their present features, and its state must be that of an undisturbed run after a reload.
    """
    stream = class_stream(changing(graph))
    learner, resumed = Learner(make()), Learner(make())
    cached, slow = CachedPredictor(learner), ReferenceStore()
    for number, (step, batch) in enumerate(arrivals(learner, stream)):
        _follow(slow, step)
        nodes = batch.neighborhood.nodes
        require(bool(learner.store.is_present(nodes).all()), "learns from a node that was removed")
        require(np.array_equal(dense(batch.neighborhood.rows()), rows_at(slow, nodes.tolist())), "learns old features")
        learner.learn(batch)
        if number == 8:
            resumed.load_state(learner.state())
            stream.replay(resumed, step.index + 1)
        elif number > 8:
            step.apply(resumed)
            resumed.learn(step.labels)
        ids = learner.store.ids[::3]
        answers = learner.predict(ids)
        if number % 4 == 0:
            anew = Learner(make())
            anew.strategy.load_state(learner.strategy.state())
            stream.replay(anew, step.index + 1)
            require(np.array_equal(anew.predict(ids), answers), "predicts otherwise than on a store made anew")
        if learner.strategy.supports_cached_aggregates(learner.store.features):
            require(np.array_equal(cached(ids), answers), "cached sums are stale after a change of the graph")
    require(same(learner.state(), resumed.state()), "learns differently after a reload in a changing graph")


def _follow(slow: ReferenceStore, step: Step) -> None:
    """Make the changes of a step in the slow store."""
    arrival, changes = step.arrival, step.changes
    slow.add(arrival.ids.tolist(), dense(arrival.rows), list(zip(*arrival.edges.tolist(), strict=True)))
    if changes is None:
        return
    if changes.later_edges.size:
        slow.add_edges(list(zip(*changes.later_edges.tolist(), strict=True)))
    if len(changes.updated) and changes.rows is not None:
        slow.update(changes.updated.tolist(), dense(changes.rows))
    if changes.removed_edges.size:
        slow.remove_edges(list(zip(*changes.removed_edges.tolist(), strict=True)))
    if len(changes.removed):
        slow.remove(changes.removed.tolist())


CHECKS: list[Callable[[Make, Graph], None]] = [
    predicts_minus_one_before_learning,
    predicting_changes_nothing,
    same_seed_same_result,
    clone_is_independent,
    loaded_state_continues_bit_equal,
    continues_in_a_new_process,
    state_is_a_copy,
    untrained_state_can_be_loaded,
    outputs_are_the_training_classes_so_far,
    unlabelled_nodes_change_nothing,
    learns_batches_of_one_node,
    renaming_tasks_changes_nothing,
    held_out_labels_change_nothing,
    memory_stays_bounded,
    updates_stay_within_the_bound,
    works_without_a_store,
    cached_sums_give_the_same_predictions,
    follows_a_changing_graph,
]
