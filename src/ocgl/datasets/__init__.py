"""Datasets: one module per source, and one registry."""

from os import PathLike
from pathlib import Path

from ocgl.datasets import digits, loading, npz, paths, sbm
from ocgl.datasets.catalogue import DatasetInfo, catalogue
from ocgl.datasets.encoding import FeatureEncoder
from ocgl.datasets.frames import from_networkx, from_pandas, from_polars
from ocgl.datasets.paths import cache_root, data_root
from ocgl.datasets.pyg import from_pyg
from ocgl.datasets.registry import SPECS
from ocgl.errors import DatasetError, UnknownNameError
from ocgl.graph import Graph

__all__ = [
    "DatasetInfo", "FeatureEncoder", "cache_root", "catalogue", "data_root", "from_networkx", "from_pandas",
    "from_polars", "from_pyg", "load_dataset",
]  # fmt: skip


def load_dataset(
    name: str | PathLike[str],
    data_root: Path | None = None,
    structure_only: bool = False,
    download: bool = True,
) -> Graph:
    """Load a graph by name.

    Args:
        name: a dataset (see `catalogue`), `digits`, `sbm:...`, or the path of an `.npz` file.
        data_root: folder of the raw files; default: `OCGL_DATA`, else the user's cache folder.
        structure_only: whether to accept a graph without features if the raw files are missing, and an `.npz` file
            without labels. The graph's notes say what is missing.
        download: whether to download missing files; `OCGL_OFFLINE=1` forbids it.

    >>> load_dataset("sbm:nodes=100,edges=300,classes=4").edges
    300
    """
    if not isinstance(name, str | PathLike):
        kind = type(name).__name__
        raise DatasetError(f"a dataset is a name or a path, not a {kind}; from_pyg(data) converts PyG's Data")
    if isinstance(name, PathLike) or name.endswith(".npz"):
        return npz.load(Path(name).expanduser(), structure_only)
    if name == "digits":
        return digits.load()
    if name.partition(":")[0] == "sbm":
        return sbm.load(name)
    if name not in SPECS:
        raise UnknownNameError("dataset", name, [*SPECS, "digits", "sbm", *(f"sbm:{preset}" for preset in sbm.PRESETS)])
    return loading.load(SPECS[name], paths.data_root(data_root), structure_only, download)
