"""Assigns nodes to tasks: the task with which a node arrives, and the task in which it is scored."""

from dataclasses import dataclass

import numpy as np

from ocgl.errors import StreamError
from ocgl.graph import Graph
from ocgl.rng import generator
from ocgl.streams.config import StreamConfig
from ocgl.types import DoubleArray, IntArray


@dataclass(frozen=True, eq=False)
class Plan:
    """Tasks and order of arrival of the nodes.

    Args:
        arrives: task with which each node arrives, -1 for never.
        scored: task in which each node is scored, -1 for none.
        order: nodes in order of arrival, task by task.
        classes: labels of each task, where tasks consist of classes.
        all_open: whether every task is scored from the start.
    """

    arrives: IntArray
    scored: IntArray
    order: IntArray
    classes: tuple[tuple[int, ...], ...] | None = None
    all_open: bool = False


def plan(graph: Graph, config: StreamConfig) -> Plan:
    """Return the tasks and the order of arrival that a configuration describes."""
    if config.kind in ("time", "order"):
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
    """Return the labels of each task, `classes_per_task` at a time in class order.

    Classes with one node, and classes that do not fill a last task, are dropped.
    """
    labels, counts = np.unique(graph.y[graph.y >= 0], return_counts=True)
    usable = [int(label) for label, count in zip(labels, counts, strict=True) if count >= 2]
    if isinstance(config.class_order, tuple):
        if len(set(config.class_order)) != len(config.class_order) or not set(config.class_order) <= set(usable):
            raise StreamError(f"class_order {config.class_order} must list distinct labels among {usable}")
        usable = list(config.class_order)
    elif config.class_order == "random":
        generator(config.stream_seed, "class_order").shuffle(usable)
    if not len(labels):
        raise StreamError(f"{graph.name} has no labelled node to learn from")
    k = config.classes_per_task
    if len(usable) < k:
        raise StreamError(f"{len(usable)} usable classes do not fill a task of {k}; set fewer classes_per_task")
    return tuple(tuple(usable[i : i + k]) for i in range(0, len(usable) - k + 1, k))


def _tasks_of_labels(y: IntArray, classes: tuple[tuple[int, ...], ...]) -> IntArray:
    """Return the task of each label, -1 for a label of no task."""
    labels = np.array(classes, np.int64)
    by_label = np.argsort(labels, axis=None)
    known = labels.ravel()[by_label]
    nearest = np.minimum(np.searchsorted(known, y), len(known) - 1)
    return np.where(known[nearest] == y, by_label[nearest] // labels.shape[1], -1)


def _spread_unlabelled(graph: Graph, scored: IntArray, tasks: int, rng: np.random.Generator) -> IntArray:
    """Return the task with which each node arrives; nodes without a label get a uniformly drawn task."""
    arrives = scored.copy()
    unlabelled = graph.y < 0
    arrives[unlabelled] = rng.integers(tasks, size=int(unlabelled.sum()))
    return arrives


def _blurred(
    y: IntArray, scored: IntArray, arrives: IntArray, fraction: float, tasks: int, rng: np.random.Generator
) -> IntArray:
    """Move a fraction of each class's nodes to uniformly drawn other tasks."""
    if tasks < 2:
        raise StreamError("a blurry stream needs at least two tasks; set fewer classes_per_task")
    moved = arrives.copy()
    for label in np.unique(y[scored >= 0]):
        members = np.nonzero(y == label)[0]
        chosen = rng.choice(members, size=round(fraction * len(members)), replace=False)
        others = rng.integers(tasks - 1, size=len(chosen))
        moved[chosen] = others + (others >= scored[chosen])
    return moved


def _shuffled_within(arrives: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the nodes ordered by task, in random order within each task."""
    present = rng.permutation(np.nonzero(arrives >= 0)[0])
    return present[np.argsort(arrives[present], kind="stable")]


def _shuffled(
    arrives: IntArray, scored: IntArray, classes: tuple[tuple[int, ...], ...], rng: np.random.Generator
) -> Plan:
    """Shuffle all nodes, and split them into equal parts, one per task."""
    order = rng.permutation(np.nonzero(arrives >= 0)[0])
    return Plan(_equal_parts(order, len(classes), len(arrives)), scored, order, classes, all_open=True)


def _equal_parts(order: IntArray, parts: int, nodes: int) -> IntArray:
    """Return the part of each node when `order` is split into equal parts, -1 for nodes outside `order`."""
    arrives = np.full(nodes, -1, np.int64)
    arrives[order] = np.arange(len(order)) * parts // len(order)
    return arrives


def _by_time(graph: Graph, config: StreamConfig) -> Plan:
    """Order nodes by time, ties at random; tasks have equally many nodes, or equal intervals of time."""
    if config.time_tasks > graph.nodes:
        text = f"{graph.name} has {graph.nodes} nodes, too few for time_tasks={config.time_tasks}"
        raise StreamError(f"{text}; set fewer time_tasks")
    times = timestamps(graph, config.kind)
    tie = generator(config.stream_seed, "order").permutation(graph.nodes)
    order = np.lexsort((tie, times))
    if config.ti_bins == "equal_nodes":
        arrives = _equal_parts(order, config.time_tasks, graph.nodes)
    else:
        boundaries = np.linspace(times.min(), times.max(), config.time_tasks + 1)[1:-1]
        arrives = _renumbered(np.searchsorted(boundaries, times, side="right"))
    return Plan(arrives, np.where(graph.y >= 0, arrives, -1), order)


def timestamps(graph: Graph, kind: str) -> DoubleArray:
    """Return what a stream by time or by row order sorts by: the time of each node, or its row number."""
    if kind == "order":
        return np.arange(graph.nodes, dtype=np.float64)
    if graph.time is None:
        raise StreamError(f"{graph.name} has no times; a stream by the order of its rows is called `order`")
    return graph.time


def _by_domain(graph: Graph, config: StreamConfig) -> Plan:
    """Make one task per domain, in order of domain number."""
    if graph.domain is None:
        raise StreamError(f"{graph.name} has no `domain` column; a domain-incremental stream needs one")
    arrives = _renumbered(graph.domain)
    order = _shuffled_within(arrives, generator(config.stream_seed, "order"))
    return Plan(arrives, np.where(graph.y >= 0, arrives, -1), order)


def _renumbered(values: IntArray) -> IntArray:
    """Map the distinct values, in order, to 0, 1, 2, ..."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
