"""Elliptic Bitcoin (Weber et al. 2019), from its three CSV files."""

from pathlib import Path

import numpy as np

from ocgl.datasets import table
from ocgl.datasets.spec import Parsed
from ocgl.graph import Graph
from ocgl.types import IntArray

FEATURES, CLASSES, EDGES = (f"elliptic_txs_{part}.csv" for part in ("features", "classes", "edgelist"))
LABELS = {"1": 1, "2": 0, "unknown": -1}


def parse(name: str, raw: Path) -> Parsed:
    """Read the transactions. Labels are 0 (licit), 1 (illicit) and -1 (unknown); the time step is not a feature."""
    import polars

    schema = {"id": polars.Int64, "time": polars.Int64} | {f"x{i}": polars.Float32 for i in range(_width(raw))}
    rows = table.frame(raw / FEATURES, schema, header=False)
    ids, time = rows["id"].to_numpy(), rows["time"].to_numpy()
    x = rows.drop("id", "time").to_numpy(order="c")
    edge_index = _positions(ids, table.read(raw / EDGES, np.int64, header=True)).T
    return Parsed(Graph.from_edges(name, edge_index, _labels(raw / CLASSES, ids), x, time), edge_index.shape[1])


def _width(raw: Path) -> int:
    with (raw / FEATURES).open("rb") as file:
        return file.readline().count(b",") - 1


def _positions(ids: IntArray, wanted: IntArray) -> IntArray:
    order = np.argsort(ids)
    found = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
    if (ids[found] != wanted).any():
        raise ValueError(f"transaction {wanted[ids[found] != wanted][0]} has no features")
    return found


def _labels(path: Path, ids: IntArray) -> IntArray:
    import polars

    rows = table.frame(path, {"id": polars.Int64, "class": polars.String}, header=True)
    unknown = set(rows["class"].unique()) - set(LABELS)
    if unknown or len(rows) != len(ids):
        raise ValueError(f"{path.name} has {len(rows)} rows for {len(ids)} transactions, unknown classes {unknown}")
    y = np.full(len(ids), -1, np.int64)
    y[_positions(ids, rows["id"].to_numpy())] = rows["class"].replace_strict(LABELS).to_numpy()
    return y
