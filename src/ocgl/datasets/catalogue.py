"""What there is to load, for a person to read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ocgl.datasets import fetch, sbm
from ocgl.datasets.paths import data_root
from ocgl.datasets.registry import SPECS
from ocgl.datasets.spec import Spec


@dataclass(frozen=True)
class Entry:
    """A dataset: its size as in the paper's table, and whether it can be loaded without a download.

    `edges` are counted as `counted` says, `used` is the number of nodes after the streams drop a class, `streams`
    gives the number of tasks by kind of stream.
    """

    name: str
    kind: Literal["paper", "extra", "embedded"]
    nodes: int
    edges: int
    counted: str
    features: int
    classes: int
    used: int
    streams: dict[str, int]
    on_disk: Literal["yes", "structure only", "no", "embedded"]


def catalogue(root: Path | None = None) -> list[Entry]:
    """List the datasets, and which of them lie below the data root.

    >>> [entry.name for entry in catalogue() if entry.kind == "extra"]
    ['coauthor-cs']
    """
    folder = data_root(root)
    made_up = {"sbm": sbm.Parameters()} | {f"sbm:{name}": preset for name, preset in sbm.PRESETS.items()}
    return [
        *(_listed(spec, folder) for spec in SPECS.values()),
        Entry("digits", "embedded", 1797, 9929, "undirected", 64, 10, 1797, {"class": 5, "time": 10}, "embedded"),
        *(_embedded(name, settings) for name, settings in made_up.items()),
    ]


def _listed(spec: Spec, root: Path) -> Entry:
    size = spec.statistics
    numbers = (size.nodes, size.edges, size.counted, size.features, size.classes, spec.used)
    return Entry(spec.name, spec.kind, *numbers, spec.streams, _on_disk(spec, root))


def _on_disk(spec: Spec, root: Path) -> Literal["yes", "structure only", "no"]:
    if fetch.local(root, spec) is not None:
        return "yes"
    return "structure only" if spec.structure_file(root).is_file() else "no"


def _embedded(name: str, settings: sbm.Parameters) -> Entry:
    streams = {"class": settings.classes // 2, "time": 10, "domain": sbm.DOMAINS}
    sizes = (settings.nodes, settings.edges, "undirected", settings.width, settings.classes, settings.nodes)
    return Entry(name, "embedded", *sizes, streams, "embedded")
