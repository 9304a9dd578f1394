"""What every strategy must do; a new one gets these checks for free by being registered."""

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from ocgl.graph import Batch, Graph, Labels
from ocgl.state import State
from ocgl.strategies import Learner, Strategy
from ocgl.streams import Stream, class_stream
from ocgl.types import IntArray

Make = Callable[[], Strategy]


def same(a: State, b: State) -> bool:
    """Tell whether two states are equal to the bit."""
    arrays = a.arrays.keys() == b.arrays.keys() and all(
        np.array_equal(a.arrays[name], b.arrays[name], equal_nan=True) for name in a.arrays
    )
    return arrays and a.facts == b.facts


def batches(learner: Learner, stream: Stream) -> Iterator[Batch]:
    """Let the stream's nodes arrive, and give its batches one by one."""
    for step in stream:
        learner.arrive(step.arrival)
        labels = step.labels
        if labels is not None:
            yield learner.batch(labels)


def taught(strategy: Strategy, stream: Stream, count: int | None = None) -> Learner:
    """Teach a strategy the first batches of a stream."""
    learner = Learner(strategy)
    for batch in islice(batches(learner, stream), count):
        learner.learn(batch)
    return learner


def predicts_before_learning(make: Make, graph: Graph) -> None:
    learner = Learner(make())
    learner.arrive(class_stream(graph).step(0).arrival)
    assert (learner.predict(learner.store.ids) == -1).all()


def predicting_is_pure(make: Make, graph: Graph) -> None:
    learner = taught(make(), class_stream(graph), 12)
    before = learner.state()
    first = learner.predict(learner.store.ids)
    assert np.array_equal(first, learner.predict(learner.store.ids))
    assert same(before, learner.state())
    quiet, asked = Learner(make()), Learner(make())
    for learner, asks in ((quiet, False), (asked, True)):
        for batch in batches(learner, class_stream(graph)):
            learner.learn(batch)
            if asks:
                learner.predict(learner.store.ids[:3])
    assert same(quiet.state(), asked.state())


def same_seed_same_result(make: Make, graph: Graph) -> None:
    stream = class_stream(graph)
    first = taught(make(), stream).state()
    np.random.seed(123)  # noqa: NPY002 - global state must not matter
    np.random.random()  # noqa: NPY002
    import torch

    torch.manual_seed(77)
    assert same(first, taught(make(), stream).state())


def a_clone_is_independent(make: Make, graph: Graph) -> None:
    stream = class_stream(graph)
    learner = taught(make(), stream, 6)
    frozen = learner.strategy.state()
    twin = learner.strategy.clone()
    assert same(frozen, twin.state())
    for batch in islice(batches(Learner(make()), stream), 6):
        learner.strategy.learn(batch)
    assert same(frozen, twin.state())
    assert not same(frozen, learner.strategy.state())


def state_continues_bit_equal(make: Make, graph: Graph) -> None:
    stream = class_stream(graph)
    whole = make()
    resumed: Strategy | None = None
    source = Learner(make())
    for number, batch in enumerate(batches(source, stream)):
        whole.learn(batch)
        if resumed is not None:
            resumed.learn(batch)
        if number == 7:
            resumed = make()
            resumed.load_state(whole.state())
    assert resumed is not None and same(whole.state(), resumed.state())


def state_before_learning_can_be_kept(make: Make, graph: Graph) -> None:
    fresh = make()
    fresh.load_state(make().state())
    assert same(
        taught(fresh, class_stream(graph), 3).strategy.state(), taught(make(), class_stream(graph), 3).strategy.state()
    )


def outputs_are_the_training_labels_seen(make: Make, graph: Graph) -> None:
    learner = Learner(make())
    seen: set[int] = set()
    for batch in batches(learner, class_stream(graph)):
        old = learner.strategy.labels.tolist()
        learner.learn(batch)
        seen |= set(batch.labels.tolist())
        now = learner.strategy.labels.tolist()
        assert now[: len(old)] == old and set(now) == seen


def unlabelled_nodes_teach_nothing(make: Make, graph: Graph) -> None:
    learner = taught(make(), class_stream(graph), 5)
    before = learner.strategy.state()
    ids = learner.store.ids[:4]
    learner.learn(Labels(ids, np.full(4, -1)))
    assert same(before, learner.strategy.state())
    mixed = np.array([-1, 0, -1, 1])
    learner.learn(Labels(ids, mixed))
    assert not same(before, learner.strategy.state())


def batches_of_one_node(make: Make, graph: Graph) -> None:
    learner = taught(make(), class_stream(graph, batch_size=1))
    assert (learner.predict(learner.store.ids) >= 0).all()


def renaming_tasks_changes_nothing(make: Make, graph: Graph) -> None:
    from dataclasses import replace

    stream = class_stream(graph)
    shuffled = np.random.default_rng(3).permutation(stream.tasks)
    renamed = replace(
        stream, step_task=shuffled[stream.step_task], scored=shuffled[stream.scored], starts=stream.starts[::-1]
    )
    assert same(taught(make(), stream).state(), taught(make(), renamed).state())


def held_out_labels_change_nothing(make: Make, graph: Graph) -> None:
    from dataclasses import replace

    stream = class_stream(graph)
    garbage = graph.y.copy()
    held = stream.role != 0
    garbage[held] = np.random.default_rng(0).integers(100, size=int(held.sum()))
    other = replace(stream, graph=replace(graph, y=garbage))
    assert same(taught(make(), stream).state(), taught(make(), other).state())


def memory_stays_bounded(make: Make, graph: Graph) -> None:
    """What is kept depends on classes and settings, not on how long the stream is."""
    stream = class_stream(graph)
    learner = taught(make(), stream)
    ids: IntArray = stream.held_out(0)
    for _ in range(6):
        for part in np.array_split(ids, 10):
            learner.learn(Labels(part, graph.y[part]))
    held = learner.strategy.memory_bytes
    counted = sum(array.nbytes for array in learner.strategy.state().arrays.values())
    assert counted <= held + 4096
    for _ in range(6):
        for part in np.array_split(ids, 10):
            learner.learn(Labels(part, graph.y[part]))
    assert learner.strategy.memory_bytes == held


def updates_stay_within_the_look_s_bound(make: Make, graph: Graph) -> None:
    learner = Learner(make())
    for batch in batches(learner, class_stream(graph)):
        look = learner.strategy.look
        bound = look.bound(len(batch.labels), learner.store.features.row_bound)
        assert batch.neighborhood.cost.within(bound)


def works_without_a_store(make: Make, graph: Graph) -> None:
    """Neighbourhoods that arrive from outside give the same parameters to the bit."""
    local, remote = make(), make()
    if local.needs_store:
        return
    for batch in batches(Learner(make()), class_stream(graph)):
        local.learn(batch)
        remote.learn(Batch(batch.neighborhood.detached(), batch.labels))
    assert same(local.state(), remote.state())
    assert np.array_equal(local.predict(batch.neighborhood), remote.predict(batch.neighborhood.detached()))


CHECKS: list[Callable[[Make, Graph], None]] = [
    predicts_before_learning,
    predicting_is_pure,
    same_seed_same_result,
    a_clone_is_independent,
    state_continues_bit_equal,
    state_before_learning_can_be_kept,
    outputs_are_the_training_labels_seen,
    unlabelled_nodes_teach_nothing,
    batches_of_one_node,
    renaming_tasks_changes_nothing,
    held_out_labels_change_nothing,
    memory_stays_bounded,
    updates_stay_within_the_look_s_bound,
    works_without_a_store,
]
