"""A graph of one's own, from one `.npz` file."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from ocgl.datasets.spec import Parsed
from ocgl.errors import DatasetCorruptError, DatasetMissingError, GraphError
from ocgl.graph import Graph
from ocgl.graph.static import sparse_or_dense
from ocgl.types import AnyArray

NEEDED = ("edge_index", "y")
SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
KEYS = (*NEEDED, "x", *SPARSE, "time", "domain")
STRUCTURE_ONLY = "structure only: no features"


def load(path: Path) -> Graph:
    """Read a graph: `edge_index` (2 x E), `y` (-1 unknown), and where present `time`, `domain` and features.

    Features are `x` (dense), or `x_data`, `x_indices`, `x_indptr`, `x_shape` (the parts of a CSR matrix). Edges may
    be given in any direction and repeatedly; self-loops are dropped.
    """
    return parse(path.stem, path).graph


def parse(name: str, path: Path) -> Parsed:
    """Read a graph under another name than its file's, and count the edges listed."""
    if not path.is_file():
        raise DatasetMissingError(f"there is no file {path}")
    try:
        columns = _columns(path)
        return _parsed(name, columns)
    except (OSError, EOFError, ValueError, TypeError, KeyError, zipfile.BadZipFile, zlib.error, GraphError) as error:
        raise DatasetCorruptError(f"{path} is not a readable graph: {error}") from error


def _columns(path: Path) -> dict[str, AnyArray]:
    file = np.load(path, allow_pickle=False)
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise ValueError("it is a single array, not an .npz archive")
    with file:
        columns = {str(key): value for key, value in file.items()}
    _check_keys(set(columns))
    return columns


def _check_keys(keys: set[str]) -> None:
    lacking = [key for key in NEEDED if key not in keys]
    if keys & set(SPARSE):
        lacking += [key for key in SPARSE if key not in keys]
    if lacking:
        raise ValueError(f"it has no {', '.join(lacking)}")
    if unknown := sorted(keys - set(KEYS)):
        raise ValueError(f"unknown keys {', '.join(unknown)}; known: {', '.join(KEYS)}")
    if "x" in keys and keys & set(SPARSE):
        raise ValueError("it has both x and sparse rows; give one of them")


def _parsed(name: str, columns: dict[str, AnyArray]) -> Parsed:
    x = sparse_or_dense(columns)
    if x is not None and not isinstance(x, np.ndarray):
        x.check_format(full_check=True)
    edge_index = columns["edge_index"]
    notes = () if x is not None else (STRUCTURE_ONLY,)
    graph = Graph.from_edges(name, edge_index, columns["y"], x, columns.get("time"), columns.get("domain"), notes)
    return Parsed(graph, edge_index.shape[1])
