"""Reads a user's graph from an `.npz` file."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from ocgl.checked import read_npz
from ocgl.datasets.spec import Parsed
from ocgl.errors import DamagedFileError, DatasetCorruptError, DatasetMissingError, GraphError
from ocgl.graph import Graph
from ocgl.graph.changes import Changes
from ocgl.graph.ids import ids_of
from ocgl.graph.static import sparse_or_dense
from ocgl.types import AnyArray, Rows

NEEDED = ("edge_index", "y")
SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
KEYS = (
    *NEEDED,
    "x",
    *SPARSE,
    "time",
    "domain",
    "label_time",
    *Changes.COLUMNS,
    "change_x",
    "notes",
    "ids",
    "class_names",
)
STRUCTURE_ONLY = "structure only: no features"
UNLABELLED = "no labels"
MOST_NODES = 2**31 - 1

UNREADABLE = (ValueError, TypeError, LookupError, GraphError, MemoryError, OverflowError)


def load(path: Path, structure_only: bool = False) -> Graph:
    """Load a graph from an `.npz` file.

    The file contains `edge_index` (shape [2, num_edges], any direction; duplicates and self-loops are removed), `y`
    (-1 if unknown), and optionally `time`, `domain`, `label_time` (when each label becomes known), features, and
    changes. Features are `x` (dense), or `x_data`, `x_indices`, `x_indptr`, `x_shape` (the parts of a CSR matrix).
    Changes are `change_kind` (0: a later edge, which `edge_index` has too; 1: new features; 2: an edge removed; 3: a
    node removed), `change_first`, `change_second` (-1 for a change of a node), `change_when`, `change_unit` ([1]:
    `change_when` are times; [0]: fractions of what is left of the stream), and `change_x` (one row for each update).

    Args:
        path: the file.
        structure_only: whether `y` may be missing; then all labels are unknown.
    """
    return parse(path.stem, path, ("edge_index",) if structure_only else NEEDED).graph


def parse(name: str, path: Path, needed: tuple[str, ...] = NEEDED) -> Parsed:
    """Return the graph in an `.npz` file, and the number of edges that the file lists.

    Args:
        name: name of the graph.
        path: the file.
        needed: arrays that the file must contain.
    """
    if not path.is_file():
        raise DatasetMissingError(f"there is no file {path}")
    try:
        columns = read_npz(path)
        _check_keys(set(columns), needed)
        return _parsed(name, columns)
    except DamagedFileError as error:
        raise DatasetCorruptError(path, f"it is not a readable graph: {error.why}") from error
    except UNREADABLE as error:
        raise DatasetCorruptError(path, f"it is not a readable graph: {error}") from error


def _check_keys(keys: set[str], needed: tuple[str, ...]) -> None:
    lacking = [key for key in needed if key not in keys]
    if keys & set(SPARSE):
        lacking += [key for key in SPARSE if key not in keys]
    if lacking:
        raise ValueError(f"it has no {', '.join(lacking)}")
    if unknown := sorted(keys - set(KEYS)):
        raise ValueError(f"unknown keys {', '.join(unknown)}; known: {', '.join(KEYS)}")
    if "x" in keys and keys & set(SPARSE):
        raise ValueError("it has both x and sparse rows; remove one of them")


def _parsed(name: str, columns: dict[str, AnyArray]) -> Parsed:
    for key in SPARSE[1:]:
        if key in columns and not np.issubdtype(columns[key].dtype, np.integer):
            raise ValueError(f"{key} must be integers, not {columns[key].dtype}")
    x = sparse_or_dense(columns)
    if x is not None and not isinstance(x, np.ndarray):
        x.check_format(full_check=True)
    edge_index, y = columns["edge_index"], columns.get("y")
    notes = (() if x is not None else (STRUCTURE_ONLY,)) + (() if y is not None else (UNLABELLED,))
    notes += tuple(str(note) for note in columns.get("notes", ()) if str(note) not in notes)
    labels = np.full(_count(columns, x), -1) if y is None else y
    changes = Changes.from_columns(columns, len(labels), 0 if x is None else int(x.shape[1]))
    times = columns.get("time"), columns.get("domain"), notes, columns.get("label_time")
    graph = Graph.from_edges(name, edge_index, labels, x, *times, changes)
    ids, names = columns.get("ids"), columns.get("class_names")
    if ids is not None and len(np.unique(ids)) != len(ids):
        raise ValueError("a node occurs twice in ids")
    if names is not None and (names.dtype.kind != "U" or len(np.unique(names)) <= int(labels.max(initial=-1))):
        raise ValueError("class_names must be distinct text, one for each class")
    graph = replace(
        graph,
        ids=None if ids is None else ids_of(ids),
        class_names=None if names is None else tuple(str(name) for name in names),
    )
    return Parsed(graph, edge_index.shape[1])


def _count(columns: dict[str, AnyArray], x: Rows | None) -> int:
    """Return the number of nodes of a graph without labels: the rows of another array, else the highest node id + 1."""
    rows = [column.shape[0] for column in (x, columns.get("time"), columns.get("domain")) if column is not None]
    nodes = rows[0] if rows else int(columns["edge_index"].max(initial=-1)) + 1
    if nodes > MOST_NODES:
        raise ValueError(f"edge_index contains node {nodes - 1}, the highest possible is {MOST_NODES - 1}")
    return nodes
