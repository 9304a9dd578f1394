"""Description of a dataset: files, URLs, checksums and expected statistics."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from ocgl.errors import DatasetCorruptError
from ocgl.graph import Graph

Convention = Literal["raw", "twice raw", "symmetric", "undirected"]
"""How the paper's table counts edges: entries of the file (raw), twice that number (twice raw), or, without duplicates
and self-loops, both directions (symmetric) or one (undirected)."""


@dataclass(frozen=True)
class Statistics:
    """Expected size of a dataset, as in the paper's table.

    Args:
        nodes: number of nodes.
        edges: number of edges, counted by the convention `counted`.
        features: number of features.
        classes: number of classes.
        counted: convention for counting edges.
        members: number of nodes of each class, if known.
    """

    nodes: int
    edges: int
    features: int
    classes: int
    counted: Convention = "raw"
    members: tuple[int, ...] = ()


@dataclass(frozen=True)
class Used:
    """What streams use of a dataset: without classes of one node, and without a last class that fills no task of two.

    Args:
        nodes: number of nodes.
        classes: number of classes.
        edges: number of edges, counted as those of the whole dataset; None if that number is not known.
    """

    nodes: int
    classes: int
    edges: int | None = None


@dataclass(frozen=True)
class Parsed:
    """A parsed graph.

    Args:
        graph: the graph.
        raw_edges: number of edges that its file lists, with duplicates.
    """

    graph: Graph
    raw_edges: int

    def statistics(self, like: Statistics) -> Statistics:
        """Return the statistics of the graph, with edges and class members counted as in `like`."""
        graph = self.graph
        edges = {
            "raw": self.raw_edges,
            "twice raw": 2 * self.raw_edges,
            "symmetric": 2 * graph.edges,
            "undirected": graph.edges,
        }
        members = tuple(int((graph.y == label).sum()) for label in range(len(like.members)))
        return Statistics(graph.nodes, edges[like.counted], graph.width, graph.classes, like.counted, members)

    def used(self, like: Statistics) -> Used:
        """Return what streams use of the graph."""
        graph = self.graph
        labels, counts = np.unique(graph.y[graph.y >= 0], return_counts=True)
        usable = labels[counts >= 2]
        usable = usable[: len(usable) - len(usable) % 2]
        kept = (graph.y < 0) | np.isin(graph.y, usable)
        whole = self.statistics(like).edges
        if kept.all():
            return Used(graph.nodes, len(usable), whole)
        ends = np.repeat(kept, np.diff(graph.indptr)) & kept[graph.indices]
        lost = graph.edges - int(ends.sum()) // 2
        return Used(int(kept.sum()), len(usable), whole - lost * (2 if like.counted == "symmetric" else 1))


@dataclass(frozen=True)
class Download:
    """A file to download: a raw file, or a zip archive of raw files.

    Args:
        url: where to download it.
        file: its file name.
        sha256: its checksum; None if none is published, then the first successful load is trusted.
        size: its size in bytes, if known.
        holds: raw files in the archive; empty for a raw file.
    """

    url: str
    file: str
    sha256: str | None = None
    size: int | None = None
    holds: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the raw files that it provides."""
        return self.holds or (self.file,)


@dataclass(frozen=True)
class Spec:
    """Description of a dataset. Its raw files are in `<data root>/<folder>/raw`.

    Args:
        name: name for `load_dataset`.
        folders: folders to search; downloads go to the first one.
        downloads: files to download.
        statistics: expected size.
        parse: function that reads a folder that contains only the raw files.
        used: what streams use of it.
        streams: number of tasks by kind of stream.
        structure: file name of the graph without features; default: `<name>.npz`.
        kind: whether the dataset is in the paper.
    """

    name: str
    folders: tuple[str, ...]
    downloads: tuple[Download, ...]
    statistics: Statistics
    parse: Callable[[str, Path], Parsed]
    used: Used
    streams: dict[str, int] = field(default_factory=dict)
    structure: str = ""
    kind: Literal["paper", "extra"] = "paper"

    def structure_file(self, root: Path) -> Path:
        """Return the path of the graph without features; the file may be missing."""
        return root / "graphs" / (self.structure or f"{self.name}.npz")


def check_statistics(found: Statistics | Used, expected: Statistics | Used, source: str) -> None:
    """Raise DatasetCorruptError if the statistics of a file differ from the expected ones; what is unknown may be any.

    >>> check_statistics(Statistics(3, 2, 1, 1), Statistics(3, 2, 1, 2), "toy.npz")
    Traceback (most recent call last):
    ocgl.errors.DatasetCorruptError: toy.npz does not hold what it should: classes is 1, expected 2
    """
    for name, value in vars(expected).items():
        if value is not None and getattr(found, name) != value:
            difference = f"{name} is {getattr(found, name)}, expected {value}"
            raise DatasetCorruptError(f"{source} does not hold what it should: {difference}")
