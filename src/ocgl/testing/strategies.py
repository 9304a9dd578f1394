"""What every strategy must do. A new one is checked with `ocgl check NAME` (or path/to/file.py:Class)."""

import gc
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from ocgl.errors import OcglError, WrongSamplingError
from ocgl.experiments.stepping import arrivals
from ocgl.graph import Batch, Graph, Labels
from ocgl.rng import generator
from ocgl.state import State
from ocgl.strategies import CachedPredictor, Learner, Strategy
from ocgl.streams import TRAIN, Stream, class_stream

Make = Callable[[], Strategy]


class ContractError(OcglError):
    """A strategy does not do what every strategy must."""


def require(holds: bool, what: str) -> None:
    """Raise with `what` unless it holds."""
    if not holds:
        raise ContractError(what)


def small_graph(nodes: int = 120, edges: int = 400, classes: int = 6, width: int = 5, seed: int = 0) -> Graph:
    """Make a graph with class-dependent features, times and domains, and a few unlabelled nodes."""
    rng = generator(seed, "small graph")
    y = rng.integers(classes, size=nodes)
    x = rng.normal(size=(nodes, width)) + 3 * rng.normal(size=(classes, width))[y]
    y[rng.random(nodes) < 0.05] = -1
    pairs = rng.integers(nodes, size=(2, edges))
    return Graph.from_edges("random", pairs, y, x, rng.integers(20, size=nodes), rng.integers(3, size=nodes))


def same(a: State, b: State) -> bool:
    """Tell whether two states are equal to the bit."""
    arrays = a.arrays.keys() == b.arrays.keys() and all(
        np.array_equal(a.arrays[name], b.arrays[name], equal_nan=True) for name in a.arrays
    )
    return arrays and a.facts == b.facts


def batches(learner: Learner, stream: Stream) -> Iterator[Batch]:
    """Let the stream's nodes arrive step by step; yield each batch before it is learned."""
    return (batch for _, batch in arrivals(learner, stream))


def taught(strategy: Strategy, stream: Stream, count: int | None = None) -> Learner:
    """Teach a strategy the first batches of a stream."""
    learner = Learner(strategy)
    for batch in islice(batches(learner, stream), count):
        learner.learn(batch)
    return learner


def held_bytes(owner: object) -> int:
    """Count the bytes of all arrays that an object holds on to, however deep, but for stores and code."""
    import torch

    visited, total, queue = {id(owner)}, 0, [owner]
    while queue:
        item = queue.pop()
        if isinstance(item, np.ndarray):
            total += 0 if isinstance(item.base, np.ndarray) else item.nbytes
        elif isinstance(item, torch.Tensor):
            total += item.untyped_storage().nbytes()
        for part in gc.get_referents(item):
            code = isinstance(part, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType)
            if not code and id(part) not in visited:
                visited.add(id(part))
                queue.append(part)
    return total


def predicts_before_learning(make: Make, graph: Graph) -> None:
    """Before anything is learned, the answer is -1."""
    learner = Learner(make())
    learner.arrive(class_stream(graph).step(0).arrival)
    require(bool((learner.predict(learner.store.ids) == -1).all()), "predicts a label before any was learned")


def predicting_is_pure(make: Make, graph: Graph) -> None:
    """Asking changes neither the state nor anything that is learned later."""
    learner = taught(make(), class_stream(graph), 12)
    before = learner.state()
    first = learner.predict(learner.store.ids)
    require(np.array_equal(first, learner.predict(learner.store.ids)), "gives another answer when asked again")
    require(same(before, learner.state()), "predicting changes the state")
    quiet, asked = Learner(make()), Learner(make())
    for learner in (quiet, asked):
        for batch in batches(learner, class_stream(graph)):
            learner.learn(batch)
            if learner is asked:
                learner.predict(learner.store.ids[:3])
    require(same(quiet.state(), asked.state()), "learns otherwise when asked in between")


def same_seed_same_result(make: Make, graph: Graph) -> None:
    """The seed alone decides; global random state does not."""
    import torch

    stream = class_stream(graph)
    first = taught(make(), stream).state()
    kept, torch_kept = np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002 - it is this state we test
    try:
        np.random.seed(123)  # noqa: NPY002
        torch.manual_seed(77)
        again = taught(make(), stream).state()
    finally:
        np.random.set_state(kept)  # noqa: NPY002
        torch.random.set_rng_state(torch_kept)
    require(same(first, again), "the same seed gives another result: global random state, or hidden state, is used")


def a_clone_is_independent(make: Make, graph: Graph) -> None:
    """A clone is equal, and stays as it is while the other learns on."""
    stream = class_stream(graph)
    learner = taught(make(), stream, 6)
    frozen = learner.strategy.state()
    twin = learner.strategy.clone()
    require(same(frozen, twin.state()), "a clone differs")
    for batch in islice(batches(Learner(make()), stream), 6):
        learner.strategy.learn(batch)
    require(same(frozen, twin.state()), "a clone changes with the original")
    require(not same(frozen, learner.strategy.state()), "learning changes nothing")


def state_continues_bit_equal(make: Make, graph: Graph) -> None:
    """A strategy that takes over a state goes on as the one it came from."""
    whole, resumed = make(), make()
    for number, batch in enumerate(batches(Learner(make()), class_stream(graph))):
        whole.learn(batch)
        if number == 7:
            resumed.load_state(whole.state())
        elif number > 7:
            resumed.learn(batch)
    require(same(whole.state(), resumed.state()), "goes on otherwise from a saved state")


def state_before_learning_can_be_kept(make: Make, graph: Graph) -> None:
    """A state without anything learned is a state, too."""
    stream, fresh = class_stream(graph), make()
    fresh.load_state(make().state())
    require(
        same(taught(fresh, stream, 3).strategy.state(), taught(make(), stream, 3).strategy.state()),
        "begins otherwise from a saved empty state",
    )


def outputs_are_the_training_labels_seen(make: Make, graph: Graph) -> None:
    """A class gets its output when first neighborhood in training, after those it has already."""
    learner = Learner(make())
    known: set[int] = set()
    for batch in batches(learner, class_stream(graph)):
        old = learner.strategy.labels.tolist()
        learner.learn(batch)
        known |= set(batch.labels.tolist())
        now = learner.strategy.labels.tolist()
        require(now[: len(old)] == old and set(now) == known, "outputs are not the training labels neighborhood")


def unlabelled_nodes_teach_nothing(make: Make, graph: Graph) -> None:
    """A batch without labels changes nothing; one with some is learned."""
    learner = taught(make(), class_stream(graph), 5)
    before = learner.strategy.state()
    ids = learner.store.ids[:4]
    learner.learn(Labels(ids, np.full(4, -1)))
    require(same(before, learner.strategy.state()), "learns from nodes without labels")
    learner.learn(Labels(ids, np.array([-1, 0, -1, 1])))
    require(not same(before, learner.strategy.state()), "does not learn from a batch with some labels")


def batches_of_one_node(make: Make, graph: Graph) -> None:
    """A batch may be a single node."""
    learner = taught(make(), class_stream(graph, batch_size=1))
    require(bool((learner.predict(learner.store.ids) >= 0).all()), "knows no label after batches of one node")


def renaming_tasks_changes_nothing(make: Make, graph: Graph) -> None:
    """Tasks are the evaluator's business."""
    stream = class_stream(graph)
    shuffled = np.random.default_rng(3).permutation(stream.tasks)
    renamed = replace(stream, step_task=shuffled[stream.step_task], scored=shuffled[stream.scored])
    require(same(taught(make(), stream).state(), taught(make(), renamed).state()), "task numbers reach the learner")


def held_out_labels_change_nothing(make: Make, graph: Graph) -> None:
    """Labels of validation and test nodes never reach the learner."""
    stream = class_stream(graph)
    garbage = graph.y.copy()
    held = stream.role != TRAIN
    garbage[held] = np.random.default_rng(0).integers(100, size=int(held.sum()))
    other = replace(stream, graph=replace(graph, y=garbage))
    require(same(taught(make(), stream).state(), taught(make(), other).state()), "held-out labels reach the learner")


def memory_stays_bounded(make: Make, graph: Graph) -> None:
    """What is kept depends on classes and settings, not on the length of the stream, and is declared."""
    stream = class_stream(graph)
    learner = taught(make(), stream)
    parts = np.array_split(stream.held_out(TRAIN), 10)

    def again(times: int) -> int:
        for part in parts * times:
            learner.learn(Labels(part, graph.y[part]))
        return held_bytes(learner.strategy)

    first = again(6)
    declared = learner.strategy.memory_bytes
    require(again(12) <= first + 1024, "keeps more and more of the stream")
    require(learner.strategy.memory_bytes == declared, "declares more and more memory")
    stored = sum(array.nbytes for array in learner.strategy.state().arrays.values())
    require(stored <= declared + 1024, f"its state holds {stored} bytes, it declares {declared}")
    require(first <= declared + 65536, f"holds {first} bytes, declares {declared}")


def updates_stay_within_the_bound(make: Make, graph: Graph) -> None:
    """No update reads more than was declared, whatever the graph; what is read from the store counts."""
    learner = Learner(make())
    for batch in batches(learner, class_stream(graph)):
        learner.learn(batch)
        bound = learner.strategy.update_bound(len(batch.labels), learner.store.features.row_bound)
        require(batch.cost.within(bound), "an update reads more than its bound")


def works_without_a_store(make: Make, graph: Graph) -> None:
    """Neighbourhoods from outside give the same parameters to the bit, where the method needs no store."""
    local, remote = make(), make()
    if local.needs_store:
        return
    for batch in batches(Learner(make()), class_stream(graph)):
        outside = Batch(batch.neighborhood.detached(), batch.labels)
        local.learn(batch)
        remote.learn(outside)
    require(same(local.state(), remote.state()), "learns otherwise from neighbourhoods that come from outside")
    answers = local.predict(batch.neighborhood), remote.predict(outside.neighborhood)
    require(np.array_equal(*answers), "answers otherwise for neighbourhoods that come from outside")


def cached_sums_give_the_same_predictions(make: Make, graph: Graph) -> None:
    """Nodes asked again and again from kept sums get the answers that new looks give."""
    learner = Learner(make())
    watch = CachedPredictor(learner)
    for batch in batches(learner, class_stream(graph)):
        learner.learn(batch)
        ids = learner.store.ids[::5]
        try:
            answers = watch(ids)
        except WrongSamplingError as error:
            raise ContractError(
                f"cannot answer from kept sums ({error}); say so in supports_cached_aggregates"
            ) from error
        require(np.array_equal(answers, learner.predict(ids)), "cached sums give other predictions")


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
    updates_stay_within_the_bound,
    works_without_a_store,
    cached_sums_give_the_same_predictions,
]
