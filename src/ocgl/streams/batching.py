"""Cuts a stream into steps, and schedules the labels."""

import numpy as np

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


def label_steps(order: IntArray, role: IntArray, ends: IntArray, config: StreamConfig) -> tuple[IntArray, IntArray]:
    """Return the training nodes in the order their labels arrive, and the number of labels after each step.

    A step delivers at most `batch_size` delayed labels, which bounds the cost of an update; further due labels wait
    in a queue. Labels due after the last step never arrive.

    Args:
        order: nodes in order of arrival.
        role: role of each node, in order of arrival.
        ends: end position of each step.
        config: its `label_delay`, `missing_labels` and `batch_size` define the schedule.
    """
    trained = role == TRAIN
    nodes = order[trained]
    arrived = np.searchsorted(ends, np.nonzero(trained)[0], side="right")
    rng = generator(config.stream_seed, "labels")
    if config.missing_labels:
        labelled = rng.random(len(nodes)) >= config.missing_labels
        nodes, arrived = nodes[labelled], arrived[labelled]
    if config.label_delay == 0:
        return nodes, np.searchsorted(arrived, np.arange(len(ends)), side="right")
    low, high = config.label_delay if isinstance(config.label_delay, tuple) else (config.label_delay,) * 2
    due = arrived + rng.integers(low, high + 1, size=len(nodes))
    queue = np.argsort(due, kind="stable")
    due_by = np.searchsorted(due[queue], np.arange(len(ends)), side="right")
    delivered = _rate_limited(due_by, config.batch_size)
    return nodes[queue][: delivered[-1]], delivered


def _rate_limited(due_by: IntArray, most: int) -> IntArray:
    """Return the labels delivered by each step, at most `most` per step, given the labels due by each step."""
    delivered = np.empty_like(due_by)
    total = 0
    for step, due in enumerate(due_by.tolist()):
        total = min(due, total + most)
        delivered[step] = total
    return delivered
