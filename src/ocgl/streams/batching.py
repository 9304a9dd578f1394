"""Cuts a stream into steps, and schedules the labels."""

import numpy as np

from ocgl.errors import StreamError
from ocgl.graph import Graph
from ocgl.rng import generator
from ocgl.streams.config import StreamConfig
from ocgl.streams.split import TRAIN
from ocgl.types import IntArray


def step_ends(tasks: IntArray, role: IntArray, config: StreamConfig) -> IntArray:
    """Return the end position (exclusive) of each step in the order of arrival.

    Args:
        tasks: task of each node, in order of arrival.
        role: role of each node, in order of arrival.
        config: its `batch_size`, `batching` and `straddle` define the steps.
    """
    ends: list[IntArray] = []
    cuts = np.array([len(tasks)]) if config.straddle else np.append(np.nonzero(np.diff(tasks))[0] + 1, len(tasks))
    begin = 0
    for end in cuts:
        ends.append(begin + _segment_ends(role[begin:end], config))
        begin = int(end)
    return np.concatenate(ends)


def _segment_ends(role: IntArray, config: StreamConfig) -> IntArray:
    size = config.batch_size
    if config.batching == "all":
        return np.append(np.arange(size, len(role), size), len(role))
    trained = np.nonzero(role == TRAIN)[0]
    if len(trained) == 0:
        return np.array([len(role)])
    ends = trained[size - 1 :: size] + 1
    if len(trained) % size == 0:
        return np.append(ends[:-1], len(role))  # trailing held-out nodes join the last full batch
    return np.append(ends, len(role))


def label_times(graph: Graph, order: IntArray, ends: IntArray) -> IntArray | None:
    """Return the step in which each label becomes known by its own time; None if the graph has no such times.

    That is the first step that ends with a node of that time or later. Labels of later times never become known.
    """
    if graph.label_time is None:
        return None
    if graph.time is None:
        raise StreamError("labels have times, but nodes have none; give the graph times")
    latest = np.maximum.accumulate(graph.time[order])[ends - 1]
    return np.searchsorted(latest, graph.label_time, side="left")


def _without_removed(order: IntArray, cuts: IntArray, removed_at: IntArray) -> tuple[IntArray, IntArray]:
    """Return the schedule of labels without those of nodes that were removed by then."""
    step = np.searchsorted(cuts, np.arange(len(order)), side="right")
    kept = removed_at[order] > step
    return order[kept], np.searchsorted(step[kept], np.arange(len(cuts)), side="right")


def label_steps(
    order: IntArray,
    role: IntArray,
    ends: IntArray,
    config: StreamConfig,
    due_at: IntArray | None = None,
    removed_at: IntArray | None = None,
) -> tuple[IntArray, IntArray]:
    """Return the training nodes in the order their labels arrive, and the number of labels after each step.

    A step delivers at most `batch_size` delayed labels, which bounds the cost of an update; further due labels wait
    in a queue. Labels due after the last step never arrive.

    Args:
        order: nodes in order of arrival.
        role: role of each node, in order of arrival.
        ends: end position of each step.
        config: its `label_delay`, `missing_labels` and `batch_size` define the schedule.
        due_at: step in which the label of each node becomes known, where the graph tells; `label_delay` comes on top.
        removed_at: step in which each node is removed, where nodes are; their labels do not come from then on.
    """
    trained = role == TRAIN
    nodes = order[trained]
    arrived = np.searchsorted(ends, np.nonzero(trained)[0], side="right")
    rng = generator(config.stream_seed, "labels")
    if config.missing_labels:
        labelled = rng.random(len(nodes)) >= config.missing_labels
        nodes, arrived = nodes[labelled], arrived[labelled]
    if due_at is not None:
        arrived = np.maximum(arrived, due_at[nodes])
    elif config.label_delay == 0:
        kept = slice(None) if removed_at is None else removed_at[nodes] > arrived
        return nodes[kept], np.searchsorted(arrived[kept], np.arange(len(ends)), side="right")
    low, high = config.label_delay if isinstance(config.label_delay, tuple) else (config.label_delay,) * 2
    due = arrived + rng.integers(low, high + 1, size=len(nodes))
    if removed_at is not None:
        nodes, due = nodes[due < removed_at[nodes]], due[due < removed_at[nodes]]
    queue = np.argsort(due, kind="stable")
    due_by = np.searchsorted(due[queue], np.arange(len(ends)), side="right")
    delivered = _rate_limited(due_by, config.batch_size)
    found = nodes[queue][: delivered[-1]], delivered
    return found if removed_at is None else _without_removed(*found, removed_at)  # removed while their labels waited


def _rate_limited(due_by: IntArray, most: int) -> IntArray:
    """Return the labels delivered by each step, at most `most` per step, given the labels due by each step."""
    delivered = np.empty_like(due_by)
    total = 0
    for step, due in enumerate(due_by.tolist()):
        total = min(due, total + most)
        delivered[step] = total
    return delivered
