"""ogbn-arxiv and ogbn-products (Hu et al. 2020), from the csv.gz files of OGB."""

from pathlib import Path

import numpy as np

from ocgl.datasets import table
from ocgl.datasets.spec import Parsed
from ocgl.graph import Graph
from ocgl.types import IntArray

EDGES, FEATURES, LABELS = FILES = ("edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz")
NODES, YEARS = "num-node-list.csv.gz", "node_year.csv.gz"


def parse(name: str, raw: Path) -> Parsed:
    """Read `FILES`, and the number of nodes and their years where present."""
    edge_index = table.read(raw / EDGES, np.int64).T
    y = _column(raw / LABELS)
    if (raw / NODES).exists() and _column(raw / NODES).tolist() != [len(y)]:
        raise ValueError(f"{LABELS} has {len(y)} rows, but {NODES} has another number of nodes")
    time = _column(raw / YEARS) if (raw / YEARS).exists() else None
    graph = Graph.from_edges(name, edge_index, y, table.read(raw / FEATURES, np.float32), time)
    return Parsed(graph, edge_index.shape[1])


def _column(path: Path) -> IntArray:
    rows = table.read(path, np.int64)
    if rows.shape[1] != 1:
        raise ValueError(f"{path.name} has {rows.shape[1]} columns, expected 1")
    return rows[:, 0]
