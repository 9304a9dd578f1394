"""Which nodes arrive with which task, and which task each node is scored in."""

from dataclasses import dataclass

import numpy as np

from ocgl.errors import StreamError
from ocgl.graph import Graph
from ocgl.rng import generator
from ocgl.streams.config import StreamConfig
from ocgl.types import DoubleArray, IntArray


@dataclass(frozen=True, eq=False)
class Plan:
    """Per node: `arrives` with a task (-1: never), and is `scored` in a task (-1: in none).

    `order` has the nodes in order of arrival, task after task. `classes` are each task's labels, where tasks are
    made of classes. `all_open`: every task counts as seen from the start.
    """

    arrives: IntArray
    scored: IntArray
    order: IntArray
    classes: tuple[tuple[int, ...], ...] | None = None
    all_open: bool = False


def plan(graph: Graph, config: StreamConfig) -> Plan:
    """Lay out the tasks as the configuration says."""
    if config.kind == "time":
        return _by_time(graph, config)
    if config.kind == "domain":
        return _by_domain(graph, config)
    classes = class_tasks(graph, config)
    scored = _tasks_of_labels(graph.y, classes)
    rng = generator(config.stream_seed, "order")
    arrives = _spread_unlabelled(graph, scored, len(classes), rng)
    if config.kind == "blurry":
        arrives = _blurred(graph.y, scored, arrives, config.blurry_share, len(classes), rng)
    if config.kind == "iid":
        return _shuffled(arrives, scored, classes, rng)
    return Plan(arrives, scored, _shuffled_within(arrives, rng), classes)


def class_tasks(graph: Graph, config: StreamConfig) -> tuple[tuple[int, ...], ...]:
    """Group the classes, in order, k to a task; classes with one member and those left over are dropped."""
    labels, counts = np.unique(graph.y[graph.y >= 0], return_counts=True)
    usable = [int(label) for label, count in zip(labels, counts, strict=True) if count >= 2]
    if isinstance(config.class_order, tuple):
        if len(set(config.class_order)) != len(config.class_order) or not set(config.class_order) <= set(usable):
            raise StreamError(f"class_order {config.class_order} must name different labels among {usable}")
        usable = list(config.class_order)
    elif config.class_order == "random":
        generator(config.stream_seed, "class_order").shuffle(usable)
    if not len(labels):
        raise StreamError(f"{graph.name} has no labelled node to learn from")
    k = config.classes_per_task
    if len(usable) < k:
        raise StreamError(f"{len(usable)} usable classes do not fill a task of {k}")
    return tuple(tuple(usable[i : i + k]) for i in range(0, len(usable) - k + 1, k))


def _tasks_of_labels(y: IntArray, classes: tuple[tuple[int, ...], ...]) -> IntArray:
    labels = np.array(classes, np.int64)
    by_label = np.argsort(labels, axis=None)
    known = labels.ravel()[by_label]
    nearest = np.minimum(np.searchsorted(known, y), len(known) - 1)
    return np.where(known[nearest] == y, by_label[nearest] // labels.shape[1], -1)


def _spread_unlabelled(graph: Graph, scored: IntArray, tasks: int, rng: np.random.Generator) -> IntArray:
    """Let nodes without a label arrive anywhere: they belong to no class."""
    arrives = scored.copy()
    unlabelled = graph.y < 0
    arrives[unlabelled] = rng.integers(tasks, size=int(unlabelled.sum()))
    return arrives


def _blurred(
    y: IntArray, scored: IntArray, arrives: IntArray, share: float, tasks: int, rng: np.random.Generator
) -> IntArray:
    """Move a share of each class's nodes to a uniformly drawn other task."""
    if tasks < 2:
        raise StreamError("a blurry stream needs at least two tasks")
    moved = arrives.copy()
    for label in np.unique(y[scored >= 0]):
        members = np.nonzero(y == label)[0]
        chosen = rng.choice(members, size=round(share * len(members)), replace=False)
        others = rng.integers(tasks - 1, size=len(chosen))
        moved[chosen] = others + (others >= scored[chosen])
    return moved


def _shuffled_within(arrives: IntArray, rng: np.random.Generator) -> IntArray:
    """One random permutation of all nodes of each task."""
    present = rng.permutation(np.nonzero(arrives >= 0)[0])
    return present[np.argsort(arrives[present], kind="stable")]


def _shuffled(
    arrives: IntArray, scored: IntArray, classes: tuple[tuple[int, ...], ...], rng: np.random.Generator
) -> Plan:
    """Shuffle everything; cut into as many equal parts as there are tasks."""
    order = rng.permutation(np.nonzero(arrives >= 0)[0])
    return Plan(_equal_parts(order, len(classes), len(arrives)), scored, order, classes, all_open=True)


def _equal_parts(order: IntArray, parts: int, nodes: int) -> IntArray:
    arrives = np.full(nodes, -1, np.int64)
    arrives[order] = np.arange(len(order)) * parts // len(order)
    return arrives


def _by_time(graph: Graph, config: StreamConfig) -> Plan:
    """Sort by time, ties at random; tasks are equal shares of the nodes, or equal spans of time."""
    if config.time_tasks > graph.nodes:
        text = f"{graph.name} has {graph.nodes} nodes, too few for time_tasks={config.time_tasks}"
        raise StreamError(f"{text}; set fewer time_tasks")
    times = timestamps(graph)
    tie = generator(config.stream_seed, "order").permutation(graph.nodes)
    order = np.lexsort((tie, times))
    if config.ti_bins == "equal_nodes":
        arrives = _equal_parts(order, config.time_tasks, graph.nodes)
    else:
        edges = np.linspace(times.min(), times.max(), config.time_tasks + 1)[1:-1]
        arrives = _renumbered(np.searchsorted(edges, times, side="right"))
    return Plan(arrives, np.where(graph.y >= 0, arrives, -1), order)


def timestamps(graph: Graph) -> DoubleArray:
    """Give the nodes' times, or their row numbers where the dataset has none."""
    return np.arange(graph.nodes, dtype=np.float64) if graph.time is None else graph.time


def _by_domain(graph: Graph, config: StreamConfig) -> Plan:
    """One task per domain, in order of the domain's number."""
    if graph.domain is None:
        raise StreamError(f"{graph.name} has no `domain` column, which a domain-incremental stream needs")
    arrives = _renumbered(graph.domain)
    order = _shuffled_within(arrives, generator(config.stream_seed, "order"))
    return Plan(arrives, np.where(graph.y >= 0, arrives, -1), order)


def _renumbered(values: IntArray) -> IntArray:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
