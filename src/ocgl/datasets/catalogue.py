"""List of the datasets, for display."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ocgl.datasets import fetch, sbm
from ocgl.datasets.paths import data_root
from ocgl.datasets.registry import SPECS
from ocgl.datasets.spec import Spec

DIGITS_USED = (1797, 10, 9929)
DIGITS_STREAMS = {"class": 5, "order": 10}


@dataclass(frozen=True)
class DatasetInfo:
    """Size and availability of a dataset.

    Args:
        name: name for `load_dataset`.
        kind: in the paper, extra, or embedded in the package (needs no files).
        nodes: number of nodes.
        edges: number of edges in the paper's table, counted by the convention `counted`.
        counted: convention for counting edges; see `spec.Convention`.
        features: number of features.
        classes: number of classes.
        used: number of nodes that streams use: without dropped classes.
        used_classes: number of classes that streams use.
        used_edges: number of edges that streams use; None if it is not known.
        streams: number of tasks by kind of stream.
        on_disk: whether it loads without a download.
    """

    name: str
    kind: Literal["paper", "extra", "embedded"]
    nodes: int
    edges: int
    counted: str
    features: int
    classes: int
    used: int
    used_classes: int
    used_edges: int | None
    streams: dict[str, int]
    on_disk: Literal["yes", "structure only", "no", "embedded"]


def catalogue(root: Path | None = None) -> list[DatasetInfo]:
    """Return all datasets, and whether their files are on disk.

    Args:
        root: folder of the raw files; default: `OCGL_DATA`, else the user's cache folder.

    >>> [entry.name for entry in catalogue() if entry.kind == "extra"]
    ['coauthor-cs']
    """
    folder = data_root(root)
    synthetic = {"sbm": sbm.Parameters()} | {f"sbm:{name}": preset for name, preset in sbm.PRESETS.items()}
    return [
        *(_downloadable(spec, folder) for spec in SPECS.values()),
        DatasetInfo("digits", "embedded", 1797, 9929, "undirected", 64, 10, *DIGITS_USED, DIGITS_STREAMS, "embedded"),
        *(_embedded(name, parameters) for name, parameters in synthetic.items()),
    ]


def _downloadable(spec: Spec, root: Path) -> DatasetInfo:
    size = spec.statistics
    used = (spec.used.nodes, spec.used.classes, spec.used.edges)
    numbers = (size.nodes, size.edges, size.counted, size.features, size.classes, *used)
    return DatasetInfo(spec.name, spec.kind, *numbers, spec.streams, _on_disk(spec, root))


def _on_disk(spec: Spec, root: Path) -> Literal["yes", "structure only", "no"]:
    if fetch.local(root, spec) is not None:
        return "yes"
    return "structure only" if spec.structure_file(root).is_file() else "no"


def _embedded(name: str, parameters: sbm.Parameters) -> DatasetInfo:
    streams = {"class": parameters.classes // 2, "time": 10, "domain": sbm.DOMAINS}
    sizes = (parameters.nodes, parameters.edges, "undirected", parameters.width, parameters.classes)
    used = (parameters.nodes, parameters.classes, parameters.edges)
    return DatasetInfo(name, "embedded", *sizes, *used, streams, "embedded")
