"""Tiny files in the raw formats of the datasets, all of the same graph."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, save_npz

from ocgl.datasets.registry import SPECS
from ocgl.datasets.spec import Spec, Statistics, Used

EDGES = np.array([[0, 1], [1, 0], [1, 2], [2, 3], [3, 4], [4, 4]])
DISTINCT = [(0, 1), (1, 2), (2, 3), (3, 4)]
X = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1]], np.float32)
Y = np.array([0, 1, 0, 1, 1])
YEARS = np.array([2001, 2003, 2002, 2005, 2004])


def tiny(name: str, edges: int = len(EDGES), features: int = 3, members: tuple[int, ...] = ()) -> Spec:
    spec = SPECS[name]
    statistics = Statistics(5, edges, features, 2, spec.statistics.counted, members)
    downloads = tuple(replace(item, sha256=None, size=None) for item in spec.downloads)
    return replace(spec, statistics=statistics, used=Used(5, 2), downloads=downloads)


def raw_folder(root: Path, folder: str) -> Path:
    path = root / folder / "raw"
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_bag_of_words(path: Path, x: np.ndarray[tuple[int, int], np.dtype[np.float32]] = X) -> Path:
    entries = np.ones(len(EDGES), np.float32)
    parts = {"adj": csr_array(coo_array((entries, EDGES.T), shape=(5, 5))), "attr": csr_array(x)}
    arrays: dict[str, Any] = {
        f"{part}_{name}": np.asarray(getattr(matrix, name))
        for part, matrix in parts.items()
        for name in ("data", "indices", "indptr", "shape")
    }
    np.savez(path, labels=Y, **arrays)
    return path


def write_roman(path: Path) -> Path:
    masks = np.ones((10, 5), np.bool_)
    once = np.array(DISTINCT)
    arrays: dict[str, Any] = {"train_masks": masks, "val_masks": masks, "test_masks": masks}
    np.savez(path, node_features=X, node_labels=Y, edges=once, **arrays)
    return path


def write_reddit(raw: Path) -> None:
    np.savez(raw / "reddit_data.npz", feature=X.astype(np.float64), label=Y, node_types=np.array([1, 1, 2, 3, 3]))
    both = np.concatenate([np.array(DISTINCT), np.array(DISTINCT)[:, ::-1]])
    save_npz(raw / "reddit_graph.npz", coo_array((np.ones(len(both)), both.T), shape=(5, 5)))


def write_ogb(raw: Path, years: bool) -> None:
    tables = {"edge": EDGES, "node-feat": X / 3, "node-label": Y[:, None], "num-node-list": np.array([[5]])}
    if years:
        tables["node_year"] = YEARS[:, None]
    for name, rows in tables.items():
        text = "\n".join(",".join(str(value) for value in row) for row in rows.tolist())
        (raw / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode() + b"\n"))


def write_elliptic(raw: Path) -> None:
    ids = [907, 11, 33, 22, 500]
    rows = [",".join(map(str, [n, step, *x])) for n, step, x in zip(ids, [1, 1, 2, 2, 3], X.tolist(), strict=True)]
    (raw / "elliptic_txs_features.csv").write_text("\n".join(rows) + "\n")
    classes = ["txId,class", "11,1", "907,2", "33,unknown", "22,1", "500,2"]
    (raw / "elliptic_txs_classes.csv").write_text("\n".join(classes) + "\n")
    edges = ["txId1,txId2", *(f"{ids[a]},{ids[b]}" for a, b in DISTINCT)]
    (raw / "elliptic_txs_edgelist.csv").write_text("\n".join(edges) + "\n")
