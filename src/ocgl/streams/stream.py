"""The stream: order of arrival of nodes and labels, tasks, and held-out nodes."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import ClassVar, Protocol, cast

import numpy as np

from ocgl.checked import read_npz
from ocgl.errors import BeyondPrefixError, DamagedFileError, GraphError, StreamError, StreamFileError
from ocgl.files import write_whole
from ocgl.graph import Arrival, Graph, Labels
from ocgl.kernels import kernel
from ocgl.streams.checks import check_stream
from ocgl.streams.config import StreamConfig
from ocgl.streams.schedule import NEVER, Changeable, StepChanges, Timeline
from ocgl.streams.split import TEST, TRAIN, VALIDATION
from ocgl.types import AnyArray, BoolArray, IntArray, Json, PositionArray

_REPLAY = 100_000
"""Nodes that arrive at once when the beginning of a stream is played again."""
UNREADABLE = (ValueError, TypeError, LookupError, GraphError, RecursionError)


@kernel
def _earlier_edges(indptr: IntArray, indices: PositionArray, position: IntArray, ids: IntArray) -> IntArray:
    """Return the edges of these nodes to nodes that arrive before them, of shape [2, num_edges]."""
    count = 0
    for v in ids:
        for e in range(indptr[v], indptr[v + 1]):
            count += position[indices[e]] < position[v]
    edges = np.empty((2, count), np.int64)
    count = 0
    for v in ids:
        for e in range(indptr[v], indptr[v + 1]):
            if position[indices[e]] < position[v]:
                edges[0, count] = v
                edges[1, count] = indices[e]
                count += 1
    return edges


@kernel
def _edges_at_arrival(
    indptr: IntArray,
    indices: PositionArray,
    position: IntArray,
    ids: IntArray,
    arrives: IntArray,
    removed_at: IntArray,
    late: IntArray,
) -> IntArray:
    """Return the edges of `_earlier_edges` without those that come later, and those to removed nodes."""
    found = _earlier_edges(indptr, indices, position, ids)
    count = 0
    for e in range(found.shape[1]):
        v, u = found[0, e], found[1, e]
        key = min(u, v) * len(position) + max(u, v)
        at = np.searchsorted(late, key)
        if removed_at[u] >= arrives[v] and not (at < len(late) and late[at] == key):
            found[0, count], found[1, count] = v, u
            count += 1
    return found[:, :count].copy()


def _checksum(facts: str, arrays: dict[str, AnyArray]) -> str:
    """Return a hash of what the content hash leaves out: names, notes, and the types and shapes of the arrays."""
    kinds = [[name, array.dtype.str, array.shape] for name, array in sorted(arrays.items())]
    return hashlib.sha256(json.dumps([facts, kinds]).encode()).hexdigest()


class Arrivable(Changeable, Protocol):
    """What a stream can be played into: a learner, or a store."""

    def arrive(self, arrival: Arrival) -> None:
        """Add nodes with their edges."""
        ...


@dataclass(frozen=True)
class Step:
    """One step of a stream: nodes arrive, and labels become known.

    Args:
        stream: the stream.
        index: number of the step, from 0.
        task: task of the step; only the evaluator may use it.
        ids: nodes that arrive.
    """

    stream: "Stream"
    index: int
    task: int
    ids: IntArray

    @property
    def arrival(self) -> Arrival:
        """The arriving nodes, with features and edges to nodes that have arrived."""
        return self.stream.arrival(self.ids)

    @property
    def labels(self) -> Labels | None:
        """The labels that become known, None without any."""
        return self.stream.labels_at(self.index)

    @property
    def changes(self) -> StepChanges | None:
        """Later edges, new features and removals of the step, after its nodes have arrived; None without any."""
        return self.stream.changes_at(self.index)

    def apply(self, learner: Arrivable) -> None:
        """Let the nodes of the step arrive, and make its changes, in a learner or a store."""
        learner.arrive(self.arrival)
        changes = self.changes
        if changes is not None:
            changes.apply(learner)


@dataclass(frozen=True, eq=False)
class Stream:
    """A graph in order of arrival, cut into steps. Iterating yields the steps.

    Only the evaluator may use `role`, `scored`, `starts` and `ends`.

    Args:
        graph: the graph.
        order: nodes in order of arrival.
        cuts: end position (exclusive) of each step in `order`.
        label_order: training nodes in the order their labels become known.
        label_cuts: end position (exclusive) of each step in `label_order`.
        step_task: task of each step.
        role: role of each node: TRAIN, VALIDATION, TEST or NONE.
        scored: task in which each node is scored, -1 for none. A prefix can contain nodes of later tasks, which are
            not scored.
        starts: first step from which each task is scored.
        ends: step after which each task's row of the performance matrix is filled.
        task_classes: labels of each task, of shape [num_tasks, classes_per_task]; no columns where tasks do not
            consist of classes.
        base: node counts of the whole stream, also in a prefix; buffer sizes are fractions of them.
        config: the stream's options as JSON.
        whole_tasks: number of tasks of the whole stream.
        change_steps: step of each change of the graph, `NEVER` for one that does not happen; None if it has none.
    """

    ARRAYS: ClassVar[tuple[str, ...]] = (
        "order", "cuts", "label_order", "label_cuts", "step_task", "role", "scored", "starts", "ends", "task_classes",
    )  # fmt: skip

    graph: Graph
    order: IntArray
    cuts: IntArray
    label_order: IntArray
    label_cuts: IntArray
    step_task: IntArray
    role: IntArray
    scored: IntArray
    starts: IntArray
    ends: IntArray
    task_classes: IntArray
    base: dict[str, int]
    config: Json
    whole_tasks: int
    change_steps: IntArray | None = None

    def __len__(self) -> int:
        return len(self.step_task)

    def __iter__(self) -> Iterator[Step]:
        return (self.step(index) for index in range(len(self)))

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.ends)

    @property
    def is_prefix(self) -> bool:
        """Whether this is a prefix of a longer stream."""
        return self.tasks < self.whole_tasks

    def step(self, index: int) -> Step:
        """Return the step with this index."""
        if not 0 <= index < len(self):
            error = BeyondPrefixError if self.is_prefix else StreamError
            raise error(f"step {index} is outside this stream of {len(self)} steps and {self.tasks} tasks")
        begin = int(self.cuts[index - 1]) if index else 0
        return Step(self, index, int(self.step_task[index]), self.order[begin : self.cuts[index]])

    @cached_property
    def position(self) -> IntArray:
        """Position of each node in the order of arrival; the largest int64 for nodes that never arrive."""
        position = np.full(self.graph.nodes, np.iinfo(np.int64).max)
        position[self.order] = np.arange(len(self.order))
        return position

    def arrival(self, ids: IntArray) -> Arrival:
        """Return the arrival of these nodes, with features, edges and times."""
        if self.graph.x is None:
            raise StreamError(f"{self.graph.name} has no features to learn from; use a graph with features")
        edges = self.edges_back(ids)
        times = self.position if self.graph.time is None else self.graph.time
        return Arrival(ids, self.graph.x[ids], edges, times[ids].astype(np.float64))

    @cached_property
    def timeline(self) -> Timeline | None:
        """The changes by step; None if the graph has none."""
        if self.change_steps is None or self.graph.changes is None:
            return None
        return Timeline(self.graph.changes, self.change_steps, self.graph.nodes)

    @cached_property
    def _arrival_steps(self) -> IntArray:
        """Step in which each node arrives."""
        steps = np.searchsorted(self.cuts, np.arange(len(self.order)), side="right")
        found = np.full(self.graph.nodes, NEVER)
        found[self.order] = steps
        return found

    def changes_at(self, index: int) -> StepChanges | None:
        """Return the changes of a step; None if the graph has none."""
        return None if self.timeline is None else self.timeline.at(index)

    def are_there(self, ids: IntArray, step: int) -> BoolArray | None:
        """Return for each node whether it was not removed by the end of a step; None if no node is ever removed."""
        return None if self.timeline is None else self.timeline.removed_at[ids] > step

    def replay(self, learner: Arrivable, steps: int) -> None:
        """Let the nodes of the first steps arrive, with all changes, without labels."""
        if self.timeline is not None:
            for index in range(steps):
                self.step(index).apply(learner)
            return
        arrived = self.order[: self.cuts[steps - 1] if steps else 0]
        for begin in range(0, len(arrived), _REPLAY):
            learner.arrive(self.arrival(arrived[begin : begin + _REPLAY]))

    def edges_back(self, ids: IntArray) -> IntArray:
        """Return the edges that nodes have when they arrive, to nodes that are there, of shape [2, num_edges]."""
        if self.timeline is not None:
            graph, line = self.graph, self.timeline
            known = (graph.indptr, graph.indices, self.position, ids, self._arrival_steps)
            return _edges_at_arrival(*known, line.removed_at, line.late)
        return _earlier_edges(self.graph.indptr, self.graph.indices, self.position, ids)

    def labels_at(self, index: int) -> Labels | None:
        """Return the labels that become known in a step, None without any."""
        begin = int(self.label_cuts[index - 1]) if index else 0
        ids = self.label_order[begin : self.label_cuts[index]]
        return self.labels_of(ids) if len(ids) else None

    def labels_of(self, ids: IntArray) -> Labels:
        """Return the labels of training nodes."""
        if (self.role[ids] != TRAIN).any():
            raise StreamError("a stream returns the labels of training nodes only; the evaluator holds the others")
        return Labels(ids, self.graph.y[ids], self.candidates(ids))

    def candidates(self, ids: IntArray) -> IntArray | None:
        """Return the classes each node can have, one row per node; None unless the stream is task-incremental."""
        return self.task_classes[self.scored[ids]] if self.config["kind"] == "task" else None

    def held_out(self, role: int) -> IntArray:
        """Return the nodes with this role, in order of arrival."""
        nodes: IntArray = self.order[self.role[self.order] == role]
        return nodes

    def prefix(self, tasks: int) -> "Stream":
        """Return the stream up to the end of its first `tasks` tasks, without anything later; tuning uses it."""
        if not 1 <= tasks <= self.tasks:
            error = BeyondPrefixError if self.is_prefix else StreamError
            raise error(f"cannot take a prefix of {tasks} tasks of a stream of {self.tasks} tasks")
        steps = int(self.ends[:tasks].max()) + 1
        arrived = self.order[: self.cuts[steps - 1]]
        nodes = np.sort(arrived)
        present = np.unique(self.scored[nodes])  # in a blurry or straddling stream, later tasks have begun
        new = np.full(self.graph.nodes, -1, np.int64)
        new[nodes] = np.arange(len(nodes))
        changes, change_steps = self.graph.changes, self.change_steps
        if changes is not None and change_steps is not None:
            change_steps = change_steps[changes.within(new)]
            change_steps = np.where(change_steps < steps, change_steps, NEVER)
        return replace(
            self,
            change_steps=change_steps,
            graph=self.graph.induced(nodes),
            order=new[arrived],
            cuts=self.cuts[:steps],
            label_order=new[self.label_order[: self.label_cuts[steps - 1]]],
            label_cuts=self.label_cuts[:steps],
            step_task=self.step_task[:steps],
            role=self.role[nodes],
            scored=self.scored[nodes],
            starts=self.starts[:tasks],
            ends=self.ends[:tasks],
            task_classes=np.where(np.isin(np.arange(len(self.task_classes)), present)[:, None], self.task_classes, -1),
        )

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the graph, the order, the split, the schedule of the labels, and the tasks."""
        digest = hashlib.sha256(self.graph.content_hash.encode())
        for name in self.ARRAYS:
            digest.update(name.encode() + np.ascontiguousarray(getattr(self, name), np.int64).tobytes())
        if self.change_steps is not None:
            digest.update(b"change_steps" + np.ascontiguousarray(self.change_steps).tobytes())
        digest.update(json.dumps([self.base, self.config, self.whole_tasks], sort_keys=True).encode())
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the graph and the stream to one `.npz` file, atomically."""
        content = {
            "name": self.graph.name,
            "notes": self.graph.notes,
            "base": self.base,
            "config": self.config,
            "whole_tasks": self.whole_tasks,
            "hash": self.content_hash,
        }
        arrays: dict[str, AnyArray] = {f"graph_{k}": v for k, v in self.graph.columns().items()}
        arrays |= {name: getattr(self, name) for name in self.ARRAYS}
        if self.change_steps is not None:
            arrays["change_steps"] = self.change_steps
        facts = json.dumps(content)
        arrays |= {"facts": np.array(facts), "checksum": np.array(_checksum(facts, arrays))}
        buffer = BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        write_whole(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> "Stream":
        """Read a file written by `save`, verify its hashes, and check that it is a stream."""
        try:
            arrays = read_npz(Path(path))
            stream, intact = cls._parse(arrays)
        except DamagedFileError as error:
            raise StreamFileError(path, f"it holds no stream: {error.why}") from error
        except KeyError as error:
            raise StreamFileError(path, f"it holds no stream: it has no {error.args[0]}") from error
        except UNREADABLE as error:
            raise StreamFileError(path, f"it holds no stream: {error}") from error
        if not intact:
            raise StreamFileError(path, "it was changed after it was written (a hash differs); create it again")
        return stream

    @classmethod
    def _parse(cls, arrays: dict[str, AnyArray]) -> tuple["Stream", bool]:
        text, checksum = str(arrays.pop("facts")), arrays.pop("checksum", None)
        intact = checksum is None or str(checksum) == _checksum(text, arrays)  # older files have none
        facts = cast(Json, json.loads(text))
        columns = {k.removeprefix("graph_"): v for k, v in arrays.items() if k.startswith("graph_")}
        graph = Graph.from_columns(str(facts["name"]), columns, tuple(facts["notes"]))
        rest = {name: arrays[name] for name in cls.ARRAYS}
        rest |= {name: arrays[name] for name in ("change_steps",) if name in arrays}
        config = StreamConfig.model_validate(facts["config"]).model_dump(mode="json")
        stream = cls(graph, **rest, base=facts["base"], config=config, whole_tasks=facts["whole_tasks"])
        check_stream(stream)
        return stream, intact and stream.content_hash == facts["hash"]

    def statistics(self) -> Json:
        """Return the numbers of steps, tasks, nodes by role, and labels."""
        return {
            "steps": len(self),
            "tasks": self.tasks,
            "nodes": len(self.order),
            "train": len(self.held_out(TRAIN)),
            "validation": len(self.held_out(VALIDATION)),
            "test": len(self.held_out(TEST)),
            "labels": len(self.label_order),
        }
