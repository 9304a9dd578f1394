"""Checks that the arrays of a stream are one: nothing lies out of range, and what claims an order has it."""

from typing import TYPE_CHECKING

import numpy as np

from ocgl.errors import StreamError
from ocgl.streams.schedule import change_steps
from ocgl.streams.split import NONE, TRAIN
from ocgl.types import AnyArray, IntArray

if TYPE_CHECKING:
    from ocgl.streams.stream import Stream


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise StreamError(text)


def check_stream(stream: "Stream") -> None:
    """Raise `StreamError` if a stream cannot be played, or is not in the order that its kind claims."""
    nodes, steps, tasks = stream.graph.nodes, len(stream.step_task), len(stream.ends)
    for name in stream.ARRAYS:
        array: AnyArray = getattr(stream, name)
        _require(array.dtype.kind in "iu", f"{name} must be integers, not {array.dtype}")
        _require(array.ndim == (2 if name == "task_classes" else 1), f"{name} has {array.ndim} dimensions")
    _require(steps > 0 and tasks > 0, "it has no step or no task")
    _distinct("order", stream.order, nodes)
    _distinct("label_order", stream.label_order, nodes)
    _cuts("cuts", stream.cuts, steps, len(stream.order), rising=True)
    _cuts("label_cuts", stream.label_cuts, steps, len(stream.label_order), rising=False)
    whole = max(stream.whole_tasks, tasks)  # the last batch of a prefix may belong to the task after it
    _within("step_task", stream.step_task, 0, whole, steps)
    _within("role", stream.role, TRAIN, NONE + 1, nodes)
    _within("scored", stream.scored, -1, whole, nodes)
    _within("starts", stream.starts, 0, steps + 1, tasks)
    _within("ends", stream.ends, 0, steps, tasks)
    _require(len(stream.task_classes) >= tasks, "task_classes must have a row for each task")
    _require(stream.config["kind"] != "task" or stream.task_classes.shape[1] > 0, "its tasks have no classes")
    changes = stream.graph.changes
    if (changes is None) != (stream.change_steps is None):
        raise StreamError("it has changes without their steps, or steps without changes")
    if changes is not None and stream.change_steps is not None:
        expected = change_steps(stream.graph, stream.order, stream.cuts)
        same = np.array_equal(stream.change_steps, expected) or stream.is_prefix
        _require(same and len(stream.change_steps) == len(changes), "its changes do not happen when they should")
    arrived = np.isin(stream.label_order, stream.order).all()
    _require(bool(arrived), "a label comes of a node that never arrives")
    _require(bool((stream.role[stream.label_order] == TRAIN).all()), "a label of a held-out node is given away")
    counts = [stream.base.get(key) for key in ("all", "labelled", "train")]
    _require(all(isinstance(count, int) for count in counts), "its node counts are missing")
    if stream.config["kind"] in ("time", "order"):
        given = None if stream.config["kind"] == "order" else stream.graph.time
        times = np.arange(nodes) if given is None else given
        later = np.diff(times[stream.order]) < 0
        text = "it claims an order of time, but node {} arrives after node {} and is of an earlier time"
        if later.any():
            at = int(np.nonzero(later)[0][0])
            raise StreamError(text.format(int(stream.order[at + 1]), int(stream.order[at])))


def _distinct(name: str, ids: IntArray, nodes: int) -> None:
    _within(name, ids, 0, nodes, len(ids))
    _require(len(np.unique(ids)) == len(ids), f"a node occurs twice in {name}")


def _within(name: str, values: IntArray, low: int, high: int, length: int) -> None:
    _require(len(values) == length, f"{name} has {len(values)} entries instead of {length}")
    inside = not len(values) or (int(values.min()) >= low and int(values.max()) < high)
    _require(inside, f"{name} must lie in {low}..{high - 1}")


def _cuts(name: str, cuts: IntArray, steps: int, end: int, rising: bool) -> None:
    _require(len(cuts) == steps, f"{name} has {len(cuts)} entries instead of {steps}")
    differences = np.diff(cuts, prepend=0)
    sound = bool((differences > 0 if rising else differences >= 0).all()) and int(cuts[-1]) == end
    _require(sound, f"{name} must rise to {end}")
