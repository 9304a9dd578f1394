"""Where graphs come from: one file per source, one registry."""

from os import PathLike
from pathlib import Path

from ocgl.datasets import digits, loading, own, paths, sbm
from ocgl.datasets.catalogue import Entry, catalogue
from ocgl.datasets.paths import cache_root, data_root
from ocgl.datasets.pyg import from_pyg
from ocgl.datasets.registry import SPECS
from ocgl.errors import DatasetError, UnknownNameError
from ocgl.graph import Graph

__all__ = ["Entry", "cache_root", "catalogue", "data_root", "from_pyg", "load"]


def load(
    name: str | PathLike[str],
    data_root: Path | None = None,
    structure_only: bool = False,
    download: bool = True,
) -> Graph:
    """Give a graph by name: a dataset (see `catalogue`), `digits`, `sbm:...`, or the path of an `.npz` file.

    A dataset's raw files are read from `data_root`, else from `OCGL_DATA`, else from the user's cache; missing ones
    are downloaded, unless `download` is off or `OCGL_OFFLINE=1`. With `structure_only` the graph without features
    serves where the raw files are missing, an `.npz` file needs no labels, and the notes say so.

    >>> load("sbm:nodes=100,edges=300,classes=4").edges
    300
    """
    if not isinstance(name, str | PathLike):
        kind = type(name).__name__
        raise DatasetError(f"a dataset is a name or a path, not a {kind}; from_pyg(data) takes torch_geometric's Data")
    if isinstance(name, PathLike) or name.endswith(".npz"):
        return own.load(Path(name).expanduser(), structure_only)
    if name == "digits":
        return digits.load()
    if name.partition(":")[0] == "sbm":
        return sbm.load(name)
    if name not in SPECS:
        raise UnknownNameError("dataset", name, [*SPECS, "digits", "sbm", *(f"sbm:{preset}" for preset in sbm.PRESETS)])
    return loading.load(SPECS[name], paths.data_root(data_root), structure_only, download)
