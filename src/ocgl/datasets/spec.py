"""What is known of a dataset before it is loaded: files, addresses, checksums, statistics."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ocgl.errors import DatasetCorruptError
from ocgl.graph import Graph

Convention = Literal["raw", "twice raw", "symmetric", "undirected"]
"""How the paper's table counts edges: raw entries of the file, both directions of each of them (duplicates counted),
or after duplicates and self-loops are gone, both directions (symmetric) or one (undirected)."""


@dataclass(frozen=True)
class Statistics:
    """What a dataset must hold, in the paper's convention; `members` are the sizes of the classes, if known."""

    nodes: int
    edges: int
    features: int
    classes: int
    counted: Convention = "raw"
    members: tuple[int, ...] = ()


@dataclass(frozen=True)
class Parsed:
    """A graph, and how many edges its file lists before any are merged."""

    graph: Graph
    raw_edges: int

    def statistics(self, like: Statistics) -> Statistics:
        """Measure, with edges and classes counted as in `like`."""
        graph = self.graph
        edges = {
            "raw": self.raw_edges,
            "twice raw": 2 * self.raw_edges,
            "symmetric": 2 * graph.edges,
            "undirected": graph.edges,
        }
        members = tuple(int((graph.y == label).sum()) for label in range(len(like.members)))
        return Statistics(graph.nodes, edges[like.counted], graph.width, graph.classes, like.counted, members)


@dataclass(frozen=True)
class Download:
    """A file at an address; a zip `holds` raw files, any other file is one itself.

    `sha256` is None where no checksum is published; such a file is trusted on its first successful load.
    """

    url: str
    file: str
    sha256: str | None = None
    size: int | None = None
    holds: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The raw files it gives."""
        return self.holds or (self.file,)


@dataclass(frozen=True)
class Spec:
    """A dataset by name. `parse` reads a folder that holds the raw files, and nothing else.

    Raw files lie in `<data root>/<folder>/raw`, a download goes to the first of the folders. `used` is the number of
    nodes left after the streams drop a class. `streams` gives the number of tasks by kind of stream.
    """

    name: str
    folders: tuple[str, ...]
    downloads: tuple[Download, ...]
    statistics: Statistics
    parse: Callable[[str, Path], Parsed]
    used: int
    streams: dict[str, int] = field(default_factory=dict)
    structure: str = ""
    kind: Literal["paper", "extra"] = "paper"

    def structure_file(self, root: Path) -> Path:
        """Where the graph without features would lie."""
        return root / "graphs" / (self.structure or f"{self.name}.npz")


def check_statistics(found: Statistics, expected: Statistics, source: str) -> None:
    """Compare, and name the file whose content differs.

    >>> check_statistics(Statistics(3, 2, 1, 1), Statistics(3, 2, 1, 2), "toy.npz")
    Traceback (most recent call last):
    ocgl.errors.DatasetCorruptError: toy.npz does not hold what it should: classes is 1, expected 2
    """
    for name, value in vars(expected).items():
        if getattr(found, name) != value:
            difference = f"{name} is {getattr(found, name)}, expected {value}"
            raise DatasetCorruptError(f"{source} does not hold what it should: {difference}")
