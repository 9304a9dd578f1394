"""Builds streams from graphs."""

from typing import Any

import numpy as np
from pydantic import ValidationError

from ocgl.errors import StreamError, UnknownNameError
from ocgl.graph import Graph
from ocgl.streams.batching import label_steps, label_times, step_ends
from ocgl.streams.config import StreamConfig
from ocgl.streams.schedule import Timeline, change_steps
from ocgl.streams.split import TEST, TRAIN, roles
from ocgl.streams.stream import Stream
from ocgl.streams.tasks import Plan, plan
from ocgl.types import IntArray
from ocgl.validation import explained


def make_stream(graph: Graph, kind: str = "class", **options: Any) -> Stream:
    """Build a stream from a graph.

    Args:
        graph: the graph, with features and labels.
        kind: `class`, `time`, `domain`, `task`, `blurry` or `iid`.
        options: further options of `StreamConfig`.

    >>> ring = Graph.from_edges("ring", np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), np.array([0, 1, 2, 3]) // 2)
    >>> make_stream(ring, "iid", classes_per_task=1, batch_size=1).tasks
    2
    """
    if not isinstance(graph, Graph):
        given = type(graph).__name__
        raise StreamError(f"a stream needs a Graph, not a {given}; from_pyg(data) converts torch_geometric's Data")
    for key in options:
        if key not in StreamConfig.model_fields:
            raise UnknownNameError("stream option", key, StreamConfig.model_fields)
    try:
        config = StreamConfig.model_validate({"kind": kind, **options})
    except ValidationError as error:
        raise explained(error, "stream option ") from error
    return build(graph, config)


def class_stream(graph: Graph, **options: Any) -> Stream:
    """Build a class-incremental stream, by default with two classes per task in label order.

    Args:
        graph: the graph, with features and labels.
        options: further options of `StreamConfig`.
    """
    return make_stream(graph, "class", **options)


def build(graph: Graph, config: StreamConfig) -> Stream:
    """Build the stream that a configuration describes."""
    layout = plan(graph, config)
    role = roles(graph, layout, config)
    if not (role == TRAIN).any():
        raise StreamError(f"{graph.name} has no labelled node to learn from")
    if config.kind in ("time", "order"):
        _check_time_tasks(layout, role, config)
    tasks, role_in_order = layout.arrives[layout.order], role[layout.order]
    cuts = step_ends(tasks, role_in_order, config)
    if graph.changes is not None and graph.changes.unit == "time" and config.kind != "time":
        raise StreamError(f"the changes of {graph.name} have times, so they need a stream by time, not {config.kind}")
    happening, removed_at = None, None
    if graph.changes is not None:
        happening = change_steps(graph, layout.order, cuts)
        removed_at = Timeline(graph.changes, happening, graph.nodes).removed_at
    due = label_times(graph, layout.order, cuts) if config.kind == "time" else None
    label_order, label_cuts = label_steps(layout.order, role_in_order, cuts, config, due, removed_at)
    last = np.searchsorted(tasks, np.arange(int(tasks.max()) + 1), side="right") - 1
    ends = np.searchsorted(cuts, last, side="right")
    return Stream(
        graph=graph,
        order=layout.order,
        cuts=cuts,
        label_order=label_order,
        label_cuts=label_cuts,
        step_task=tasks[cuts - 1],
        role=role,
        scored=layout.scored,
        starts=_starts(layout, tasks, cuts),
        ends=ends,
        task_classes=np.array(layout.classes if layout.classes else np.empty((len(ends), 0)), np.int64),
        base={
            "all": len(layout.order),
            "labelled": int((graph.y[layout.order] >= 0).sum()),
            "train": int((role == TRAIN).sum()),
        },
        config=config.model_dump(mode="json"),
        whole_tasks=len(ends),
        change_steps=happening,
    )


def _check_time_tasks(layout: Plan, role: IntArray, config: StreamConfig) -> None:
    """Raise StreamError if tasks lack training or test nodes.

    With `equal_nodes` no task may lack them; with `equal_timestamps` at most half of the tasks may.
    """
    tasks = int(layout.arrives.max()) + 1
    needed = [TRAIN, TEST] if config.split[2] > 0 else [TRAIN]
    filled = [np.bincount(layout.scored[role == each], minlength=tasks) > 0 for each in needed]
    lacking = tasks - int(np.all(filled, axis=0).sum())
    if lacking > (0 if config.ti_bins == "equal_nodes" else tasks / 2):
        text = f"time_tasks={config.time_tasks} leaves {lacking} of {tasks} tasks without a training or a test node"
        raise StreamError(f"{text}; set fewer time_tasks")


def _starts(layout: Plan, tasks: IntArray, cuts: IntArray) -> IntArray:
    first = np.searchsorted(tasks, np.arange(int(tasks.max()) + 1), side="left")
    return np.zeros(len(first), np.int64) if layout.all_open else np.searchsorted(cuts, first, side="right")
