"""The stream: what arrives when, which labels come when, and what is held out."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import ClassVar, cast
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np

from ocgl.errors import BeyondPrefixError, GraphError, StreamError
from ocgl.graph import Arrival, Graph, Labels
from ocgl.kernels import kernel
from ocgl.state import write_whole
from ocgl.streams.split import TEST, TRAIN, VALIDATION
from ocgl.types import AnyArray, IntArray, Json, PositionArray

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    IndexError,
    RuntimeError,
    BadZipFile,
    ZlibError,
    GraphError,
)


@kernel
def _earlier_edges(indptr: IntArray, indices: PositionArray, position: IntArray, ids: IntArray) -> IntArray:
    """List the edges of these nodes to nodes before them."""
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


def _checksum(facts: str, arrays: dict[str, AnyArray]) -> str:
    """Cover what the content hash, one of the facts, leaves out: names, notes, and the arrays' types and shapes."""
    kinds = [[name, array.dtype.str, array.shape] for name, array in sorted(arrays.items())]
    return hashlib.sha256(json.dumps([facts, kinds]).encode()).hexdigest()


@dataclass(frozen=True)
class Step:
    """One step: some nodes arrive, some labels become known. `task` is for the judge and the log, not for learners."""

    stream: "Stream"
    index: int
    task: int
    ids: IntArray

    @property
    def arrival(self) -> Arrival:
        """The nodes that arrive, with features and edges to nodes that have arrived."""
        return self.stream.arrival(self.ids)

    @property
    def labels(self) -> Labels | None:
        """The labels that become known, if any."""
        return self.stream.labels_at(self.index)


@dataclass(frozen=True, eq=False)
class Stream:
    """A graph in order of arrival, cut into steps.

    Iterating gives the steps. `role` and `scored` (by node) are the judge's: train, validation or test, and the
    task in which a node is scored (a prefix may hold nodes of tasks cut off; those are not scored). `starts[j]` and
    `ends[j]` are the step from which task j counts as seen and the step after which its row of the performance
    matrix is filled. `base` counts the nodes of the whole stream, also in a prefix of it: buffers are shares of it.
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

    def __len__(self) -> int:
        return len(self.step_task)

    def __iter__(self) -> Iterator[Step]:
        return (self.step(index) for index in range(len(self)))

    @property
    def tasks(self) -> int:
        """How many tasks the judge scores."""
        return len(self.ends)

    @property
    def is_prefix(self) -> bool:
        """Whether later tasks have been cut off."""
        return self.tasks < self.whole_tasks

    def step(self, index: int) -> Step:
        """Give a step by its number."""
        if not 0 <= index < len(self):
            error = BeyondPrefixError if self.is_prefix else StreamError
            raise error(f"step {index} is outside this stream of {len(self)} steps and {self.tasks} tasks")
        begin = int(self.cuts[index - 1]) if index else 0
        return Step(self, index, int(self.step_task[index]), self.order[begin : self.cuts[index]])

    @cached_property
    def position(self) -> IntArray:
        """Each node's place in the order of arrival; nodes that never arrive come after all."""
        position = np.full(self.graph.nodes, np.iinfo(np.int64).max)
        position[self.order] = np.arange(len(self.order))
        return position

    def arrival(self, ids: IntArray) -> Arrival:
        """Give nodes as they arrive."""
        if self.graph.x is None:
            raise StreamError(f"{self.graph.name} has no features: there is nothing to learn from")
        edges = self.edges_back(ids)
        times = self.position if self.graph.time is None else self.graph.time
        return Arrival(ids, self.graph.x[ids], edges, times[ids].astype(np.float64))

    def edges_back(self, ids: IntArray) -> IntArray:
        """Give the edges (2 x E ids) of nodes to those that arrive before them."""
        return _earlier_edges(self.graph.indptr, self.graph.indices, self.position, ids)

    def labels_at(self, index: int) -> Labels | None:
        """Give the labels that become known in a step."""
        begin = int(self.label_cuts[index - 1]) if index else 0
        ids = self.label_order[begin : self.label_cuts[index]]
        return self.labels_of(ids) if len(ids) else None

    def labels_of(self, ids: IntArray) -> Labels:
        """Give the labels of training nodes."""
        if (self.role[ids] != TRAIN).any():
            raise StreamError("labels of held-out nodes are not given away")
        return Labels(ids, self.graph.y[ids], self.candidates(ids))

    def candidates(self, ids: IntArray) -> IntArray | None:
        """Give the classes each node can have, in a task-incremental stream; None elsewhere."""
        return self.task_classes[self.scored[ids]] if self.config["kind"] == "task" else None

    def held_out(self, role: int) -> IntArray:
        """Give the nodes of a role, in order of arrival."""
        nodes: IntArray = self.order[self.role[self.order] == role]
        return nodes

    def prefix(self, tasks: int) -> "Stream":
        """Give the stream up to the end of a task, with nothing in it that comes later: what tuning may see."""
        if not 1 <= tasks <= self.tasks:
            error = BeyondPrefixError if self.is_prefix else StreamError
            raise error(f"a prefix of {tasks} tasks of a stream of {self.tasks}")
        steps = int(self.ends[:tasks].max()) + 1
        arrived = self.order[: self.cuts[steps - 1]]
        kept = np.sort(arrived)
        here = np.unique(self.scored[kept])  # in a blurry or straddling stream, later tasks have begun
        new = np.full(self.graph.nodes, -1, np.int64)
        new[kept] = np.arange(len(kept))
        return replace(
            self,
            graph=self.graph.induced(kept),
            order=new[arrived],
            cuts=self.cuts[:steps],
            label_order=new[self.label_order[: self.label_cuts[steps - 1]]],
            label_cuts=self.label_cuts[:steps],
            step_task=self.step_task[:steps],
            role=self.role[kept],
            scored=self.scored[kept],
            starts=self.starts[:tasks],
            ends=self.ends[:tasks],
            task_classes=np.where(np.isin(np.arange(len(self.task_classes)), here)[:, None], self.task_classes, -1),
        )

    @cached_property
    def content_hash(self) -> str:
        """Identify the stream by what it holds: the graph, the order, the split, the labels' times, the tasks."""
        digest = hashlib.sha256(self.graph.content_hash.encode())
        for name in self.ARRAYS:
            digest.update(name.encode() + np.ascontiguousarray(getattr(self, name), np.int64).tobytes())
        digest.update(json.dumps([self.base, self.config, self.whole_tasks], sort_keys=True).encode())
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write graph and stream to one .npz file, whole or not at all."""
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
        facts = json.dumps(content)
        arrays |= {"facts": np.array(facts), "checksum": np.array(_checksum(facts, arrays))}
        buffer = BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        write_whole(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> "Stream":
        """Read a file that `save` wrote, and check that it is what was written."""
        try:
            stream, fits = cls._read(path)
        except KeyError as error:
            raise StreamError(f"{path} holds no stream: it has no {error.args[0]}") from error
        except UNREADABLE as error:
            raise StreamError(f"{path} holds no stream: {error}") from error
        if not fits:
            raise StreamError(f"{path} was changed after it was written: its content hash differs")
        return stream

    @classmethod
    def _read(cls, path: str | Path) -> tuple["Stream", bool]:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("it is a single array, not an .npz archive")
        with file:
            arrays = {name: file[name] for name in file.files}
        text, checksum = str(arrays.pop("facts")), arrays.pop("checksum", None)
        whole = checksum is None or str(checksum) == _checksum(text, arrays)  # older files have none
        facts = cast(Json, json.loads(text))
        columns = {k.removeprefix("graph_"): v for k, v in arrays.items() if k.startswith("graph_")}
        graph = Graph.from_columns(facts["name"], columns, tuple(facts["notes"]))
        rest = {name: arrays[name] for name in cls.ARRAYS}
        stream = cls(graph, **rest, base=facts["base"], config=facts["config"], whole_tasks=facts["whole_tasks"])
        return stream, whole and stream.content_hash == facts["hash"]

    def statistics(self) -> Json:
        """Count what the stream holds."""
        return {
            "steps": len(self),
            "tasks": self.tasks,
            "nodes": len(self.order),
            "train": len(self.held_out(TRAIN)),
            "validation": len(self.held_out(VALIDATION)),
            "test": len(self.held_out(TEST)),
            "labels": len(self.label_order),
        }
