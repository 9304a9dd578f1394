"""Where one step of the stream ends and the next begins, and when labels come."""

import numpy as np

from ocgl.rng import generator
from ocgl.streams.config import StreamConfig
from ocgl.streams.split import TRAIN
from ocgl.types import IntArray


def step_ends(tasks: IntArray, role: IntArray, config: StreamConfig) -> IntArray:
    """Give the position after the last arrival of each step, from task and role in order of arrival."""
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
        return np.append(ends[:-1], len(role))  # what trails joins the last full batch
    return np.append(ends, len(role))


def label_steps(order: IntArray, role: IntArray, ends: IntArray, config: StreamConfig) -> tuple[IntArray, IntArray]:
    """Give the training nodes in the order in which their labels come, and how many have come after each step.

    A step brings at most as many labels as a batch has nodes: what is due beyond that waits its turn, so that the
    cost of an update stays bounded. Labels due after the last step never come.
    """
    trained = role == TRAIN
    nodes = order[trained]
    arrived = np.searchsorted(ends, np.nonzero(trained)[0], side="right")
    rng = generator(config.stream_seed, "labels")
    if config.missing_labels:
        comes = rng.random(len(nodes)) >= config.missing_labels
        nodes, arrived = nodes[comes], arrived[comes]
    if config.label_delay == 0:
        return nodes, np.searchsorted(arrived, np.arange(len(ends)), side="right")
    low, high = config.label_delay if isinstance(config.label_delay, tuple) else (config.label_delay,) * 2
    due = arrived + rng.integers(low, high + 1, size=len(nodes))
    queue = np.argsort(due, kind="stable")
    due_by = np.searchsorted(due[queue], np.arange(len(ends)), side="right")
    come = _paced(due_by, config.batch_size)
    return nodes[queue][: come[-1]], come


def _paced(due_by: IntArray, most: int) -> IntArray:
    come = np.empty_like(due_by)
    total = 0
    for step, due in enumerate(due_by.tolist()):
        total = min(due, total + most)
        come[step] = total
    return come
