"""Graphs from tables of nodes and edges: data frames of pandas or polars, CSV and Parquet files, networkx graphs."""

import math
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from ocgl.datasets.encoding import FeatureEncoder, as_numbers, as_texts, column_of, is_missing, is_numeric, names_of
from ocgl.errors import DatasetError, DuplicateNodeError, UnknownNodeError
from ocgl.files import write_whole
from ocgl.graph import Graph
from ocgl.graph.changes import LATER_EDGE, REMOVAL, Changes
from ocgl.graph.ids import ids_of
from ocgl.types import AnyArray, DoubleArray, IntArray

_NODE = "the node itself"
"""Column of the nodes of a networkx graph, which no attribute has."""


def from_pandas(
    nodes: Any,
    edges: Any,
    *,
    id: str = "id",
    label: str | None = "label",
    time: str | None = None,
    label_time: str | None = None,
    removal_time: str | None = None,
    domain: str | None = None,
    source: str = "source",
    target: str = "target",
    edge_time: str | None = None,
    features: "str | list[str] | None" = None,
    fit: float | int = 0.2,
    name: str = "table",
) -> Graph:
    """Make a graph of a table of nodes and a table of edges, of pandas or polars.

    Numeric columns are scaled and categorical ones encoded (see `FeatureEncoder`), fitted on the first part of the
    nodes, by time, alone; `notes` of the graph say so. Repeated edges count once, and edges from a node to itself are
    left out.

    Args:
        nodes: one row per node.
        edges: one row per edge.
        id: column of node ids, integers or text.
        label: column of classes, integers or names; missing values are unknown labels. None for no labels.
        time: column of the times at which nodes arrive, numbers or dates.
        label_time: column of the times at which labels become known; a missing value for never.
        removal_time: column of the times at which nodes are removed; a missing value for never.
        domain: column of domains.
        source: column of the ids of one end of each edge.
        target: column of the ids of the other end.
        edge_time: column of the times of edges; an edge that is later than both its ends comes by itself.
        features: columns to use, or one column of vectors; all other columns of `nodes` if not given.
        fit: first part of the nodes that scales and categories are learned from: a fraction, or a number of nodes.
        name: name of the graph.

    >>> import pandas as pd
    >>> nodes = pd.DataFrame({"id": ["a", "b", "c"], "amount": [1.0, 2.0, 9.0], "label": ["fine", "fraud", None]})
    >>> graph = from_pandas(nodes, pd.DataFrame({"source": ["b"], "target": ["a"]}), fit=2)
    >>> graph.x.ravel().tolist(), graph.y.tolist(), graph.class_names
    ([-1.0, 1.0, 15.0], [0, 1, -1], ('fine', 'fraud'))
    """
    ids = _ids(nodes, id)
    if len(np.unique(ids)) != len(ids):
        raise DuplicateNodeError(f"a node occurs twice in column {id!r}; give each node one row")
    if label_time is not None and time is None:
        raise DatasetError("label_time needs a time of each node: give the column as time=")
    ends = _ends(ids, [_ids(edges, column) for column in (source, target)])
    times = None if time is None else _times(nodes, time, needed=True)
    used = {id, label, time, label_time, removal_time, domain}
    x, notes = _features(nodes, features, label, used, times, fit, len(ids))
    y, class_names = _labels(nodes, label, len(ids))
    known = None if label_time is None else np.nan_to_num(_times(nodes, label_time), nan=np.inf)
    removed = None if removal_time is None else _times(nodes, removal_time)
    begins = None if edge_time is None else _times(edges, edge_time, needed=True)
    changes = _changes(ends, times, begins, removed)
    domains = None if domain is None else np.unique(as_texts(column_of(nodes, domain)), return_inverse=True)[1]
    graph = Graph.from_edges(name, ends, y, x, times, domains, notes, known, changes)
    return replace(graph, ids=ids, class_names=class_names)


def from_polars(nodes: Any, edges: Any, **options: Any) -> Graph:
    """Make a graph of two data frames of polars; see `from_pandas`, which takes both."""
    return from_pandas(nodes, edges, **options)


def from_networkx(
    network: Any, *, label: str | None = "label", features: "str | list[str] | None" = None, **options: Any
) -> Graph:
    """Make a graph of a networkx graph, whose nodes have attributes; see `from_pandas` for the options.

    Args:
        network: the graph; directions and repeated edges are dropped.
        label: attribute with the class of a node; a node without it has an unknown label. None for no labels.
        features: attributes to use, or one attribute that holds a vector; all others if not given.
        options: further options of `from_pandas`. `time`, `label_time`, `removal_time` and `domain` are attributes of
            nodes, `edge_time` is one of edges.
    """
    if not (hasattr(network, "nodes") and hasattr(network, "edges")):
        raise DatasetError(f"from_networkx takes a networkx graph, not a {type(network).__name__}")
    listed = list(network.nodes(data=True))
    names = sorted({key for _, facts in listed for key in facts}, key=str)
    nodes: dict[str, Any] = {key: _objects([facts.get(key) for _, facts in listed]) for key in names}
    if label is not None and label not in nodes:
        raise DatasetError(f"no node has an attribute {label!r}; give label=None for a graph without labels")
    kinds = {int if isinstance(node, int | np.integer) else type(node) for node, _ in listed}
    if kinds and not (kinds == {str} or kinds == {int}):
        raise DatasetError("the nodes of the networkx graph must be all text or all integers; relabel them first")
    nodes[_NODE] = _typed([node for node, _ in listed], kinds)
    pairs = list(network.edges(data=True))
    edges: dict[str, Any] = {
        "source": _typed([pair[0] for pair in pairs], kinds),
        "target": _typed([pair[1] for pair in pairs], kinds),
    }
    if options.get("edge_time") is not None:
        edges[options["edge_time"]] = _objects([pair[2].get(options["edge_time"]) for pair in pairs])
    return from_pandas(nodes, edges, id=_NODE, label=label, features=features, **options)


def save_npz(graph: Graph, path: Path) -> None:
    """Write a graph as an `.npz` file that `load_dataset` reads."""
    ends = np.repeat(np.arange(graph.nodes), np.diff(graph.indptr))
    once = ends < graph.indices
    columns = {name: array for name, array in graph.columns().items() if name not in ("indptr", "indices")}
    columns["edge_index"] = np.stack([ends[once], graph.indices[once].astype(np.int64)])
    columns["notes"] = np.array(graph.notes, str)
    if graph.ids is not None:
        columns["ids"] = graph.ids.astype(str) if graph.ids.dtype == object else graph.ids
    if graph.class_names is not None:
        columns["class_names"] = np.array(graph.class_names, str)
    buffer = BytesIO()
    np.savez(buffer, **columns)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def read_table(path: Path, texts: tuple[str, ...] = ()) -> Any:
    """Read a CSV or Parquet file as a data frame of polars; columns of ids in a CSV file are text: 007 is not 7."""
    import polars

    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    try:
        if path.suffix == ".parquet":
            return polars.read_parquet(path)
        kinds = dict.fromkeys(texts, polars.String)
        return polars.read_csv(path, try_parse_dates=True, infer_schema_length=10_000, schema_overrides=kinds)
    except (polars.exceptions.PolarsError, OSError) as error:
        raise DatasetError(f"{path} is no readable table: {str(error).splitlines()[0]}") from error


def _objects(values: list[Any]) -> AnyArray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _typed(values: list[Any], kinds: set[type]) -> AnyArray:
    return np.array(values, np.int64) if kinds == {int} or not values else _objects(values)


def _ids(table: Any, column: str) -> AnyArray:
    """Return a column of ids, all of which must be there."""
    values = column_of(table, column)
    if len(values) == 0:
        return np.empty(0, np.int64)
    if values.dtype.kind in "fO":
        lacking = [row for row, value in enumerate(values.tolist()) if is_missing(value)]
        if lacking:
            raise DatasetError(f"row {lacking[0]} has no id in column {column!r}")
    ids = ids_of(values)
    if ids.dtype != object and ids.min() < 0:
        raise DatasetError(f"ids are integers from 0, or text; column {column!r} has {int(ids.min())}")
    return ids


def _ends(ids: AnyArray, columns: list[AnyArray]) -> IntArray:
    if len(columns[0]) != len(columns[1]):
        raise DatasetError(f"edges have {len(columns[0])} sources and {len(columns[1])} targets")
    place = {node: number for number, node in enumerate(ids.tolist())}
    found = []
    for given in columns:
        positions = [place.get(node, -1) for node in given.tolist()]
        if -1 in positions:
            unknown = given.tolist()[positions.index(-1)]
            raise UnknownNodeError(f"an edge refers to node {unknown!r}, which is in no row of the nodes")
        found.append(np.array(positions, np.int64))
    return np.stack(found)


def _times(table: Any, column: str, needed: bool = False) -> DoubleArray:
    values = column_of(table, column)
    if not is_numeric(values) and values.dtype == object:
        values = _dates(values, column)
    times = as_numbers(values, column)
    if needed and np.isnan(times).any():
        raise DatasetError(f"column {column!r} has no time in row {int(np.nonzero(np.isnan(times))[0][0])}")
    return times


def _dates(values: AnyArray, column: str) -> AnyArray:
    """Read Python's dates, and text as ISO 8601."""
    try:
        known = ["NaT" if is_missing(value) or value == "" else value for value in values.tolist()]
        try:  # numbers as text are numbers, not years
            return np.array(["nan" if value == "NaT" else value for value in known], np.float64)
        except ValueError:
            return np.array(known, "datetime64[us]")
    except (TypeError, ValueError) as error:
        raise DatasetError(f"column {column!r} must hold numbers or dates: {error}") from error


def _labels(nodes: Any, label: str | None, count: int) -> tuple[IntArray, tuple[str, ...] | None]:
    """Return numbers of classes, and their names where they are text."""
    if label is None:
        return np.full(count, -1), None
    values = column_of(nodes, label)
    if is_numeric(values):
        numbers = as_numbers(values, label)
        known = ~np.isnan(numbers)
        if (numbers[known] != np.floor(numbers[known])).any() or (numbers[known] < -1).any():
            raise DatasetError(f"column {label!r} must hold whole numbers from 0, or names of classes")
        return np.where(known, numbers, -1).astype(np.int64), None
    texts = as_texts(values)
    names = sorted({text for text in texts if text})
    place = {text: number for number, text in enumerate(names)}
    return np.array([place.get(text, -1) for text in texts], np.int64), tuple(names)


def _features(
    nodes: Any,
    features: "str | list[str] | None",
    label: str | None,
    used: set[str | None],
    times: DoubleArray | None,
    fit: float,
    count: int,
) -> tuple[Any, tuple[str, ...]]:
    """Return the features of all nodes, and what was done, in a sentence."""
    if isinstance(features, str):
        vectors = _vectors(nodes, features)
        if vectors is not None:
            return vectors, ()
        features = [features]
    chosen = [name for name in names_of(nodes) if name not in used] if features is None else features
    if not chosen:
        return None, ("structure only: no features",)
    leaking = [name for name in chosen if name == label]
    if leaking:
        raise DatasetError(f"column {label!r} is the label; it cannot be a feature as well")
    if isinstance(fit, bool) or not isinstance(fit, int | float) or not math.isfinite(fit):
        raise DatasetError(f"fit={fit!r} is neither a fraction nor a number of nodes")
    first = fit if isinstance(fit, int) and not isinstance(fit, bool) else max(int(fit * count), int(fit > 0))
    if not 0 < first <= count:
        raise DatasetError(f"fit={fit} is no part of {count} nodes: give a fraction, or a number of nodes")
    order = np.arange(count) if times is None else np.argsort(times, kind="stable")
    encoder = FeatureEncoder.fit(nodes, chosen, order[:first])
    by = "in row order" if times is None else "by time"
    note = f"features {encoder.description()}; fitted on the first {first:,} of {count:,} nodes {by}"
    return encoder.transform(nodes), (note,)


def _vectors(nodes: Any, column: str) -> Any:
    """Return a column of vectors as a matrix; None if it holds single values."""
    if column not in names_of(nodes):
        raise DatasetError(f"the table has no column {column!r}; it has {', '.join(map(str, names_of(nodes)))}")
    given = nodes[column]
    values = given.to_numpy() if hasattr(given, "to_numpy") else np.asarray(given)
    if values.ndim == 1 and (values.dtype != object or not any(hasattr(row, "__len__") for row in values.tolist())):
        return None
    if values.ndim == 1 and any(isinstance(row, str) for row in values.tolist()):
        return None
    try:
        return np.stack([np.asarray(row, np.float32) for row in values.tolist()])
    except (TypeError, ValueError) as error:
        raise DatasetError(f"column {column!r} must hold vectors of numbers of one length: {error}") from error


def _changes(
    ends: IntArray, times: DoubleArray | None, begins: DoubleArray | None, removed: DoubleArray | None
) -> Changes | None:
    """Return edges that come after both their ends, and removals of nodes."""
    if begins is None and removed is None:
        return None
    if times is None:
        raise DatasetError("edge_time and removal_time need a time of each node: give the column as time=")
    late = np.zeros(0, np.int64)
    if begins is not None:
        distinct = ends[0] != ends[1]
        late = np.nonzero(distinct & (begins > np.maximum(times[ends[0]], times[ends[1]])))[0]
        earliest = _earliest(ends, begins)
        late = late[begins[late] == earliest[late]]
    gone = np.zeros(0, np.int64) if removed is None else np.nonzero(~np.isnan(removed))[0]
    kind = np.repeat([LATER_EDGE, REMOVAL], [len(late), len(gone)])
    first = np.concatenate([ends[0][late], gone])
    second = np.concatenate([ends[1][late], np.full(len(gone), -1)])
    when = np.concatenate(
        [np.zeros(0) if begins is None else begins[late], np.zeros(0) if removed is None else removed[gone]]
    )
    return Changes(kind, first, second, when, "time", None)


def _earliest(ends: IntArray, begins: DoubleArray) -> DoubleArray:
    """Return for each row the earliest time at which its edge is given: repeated edges count once, with the first."""
    keys = np.minimum(*ends) * (int(ends.max(initial=0)) + 1) + np.maximum(*ends)
    _, inverse = np.unique(keys, return_inverse=True)
    first = np.full(int(inverse.max(initial=-1)) + 1, np.inf)
    np.minimum.at(first, inverse, begins)
    found: DoubleArray = first[inverse]
    return found
