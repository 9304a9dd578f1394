"""ogbn-arxiv and ogbn-products (Hu et al. 2020), from OGB's own csv.gz files."""

from pathlib import Path

import numpy as np

from ocgl.datasets import table
from ocgl.datasets.spec import Parsed
from ocgl.graph import Graph

FILES = ("edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz", "num-node-list.csv.gz")
YEAR = "node_year.csv.gz"


def parse(name: str, raw: Path) -> Parsed:
    """Read `FILES`, and the year of each node if the file is there; every row is a node or an edge."""
    edge_index = table.read(raw / FILES[0], np.int64).T
    y = _column(raw / FILES[2])
    (nodes,) = _column(raw / FILES[3])
    if len(y) != nodes:
        raise ValueError(f"{FILES[2]} has {len(y)} rows, {FILES[3]} says {nodes}")
    time = _column(raw / YEAR) if (raw / YEAR).exists() else None
    graph = Graph.from_edges(name, edge_index, y, table.read(raw / FILES[1], np.float32), time)
    return Parsed(graph, edge_index.shape[1])


def _column(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    rows = table.read(path, np.int64)
    if rows.shape[1] != 1:
        raise ValueError(f"{path.name} has {rows.shape[1]} columns, expected 1")
    return rows[:, 0]
