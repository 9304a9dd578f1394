"""Graphs from torch_geometric: its `Data` objects, and its dataset classes over files that lie ready."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from ocgl.datasets.spec import Parsed
from ocgl.errors import DatasetError
from ocgl.graph import Graph
from ocgl.types import AnyArray


def from_pyg(data: Any, name: str = "pyg") -> Graph:
    """Take `edge_index`, `y` and, where present, `x` (dense or sparse), `time` and `domain` of a `Data` object.

    Labels may be a column; masks and edge features are left behind.
    """
    for needed in ("edge_index", "y"):
        if getattr(data, needed, None) is None:
            raise DatasetError(f"the torch_geometric object has no {needed}; a Graph needs edge_index and y")
    y = _flat(data.y)
    if not np.array_equal(y, y.astype(np.int64)):
        raise DatasetError("the torch_geometric object's y must be whole numbers, one per node")
    x, time, domain = (getattr(data, column, None) for column in ("x", "time", "domain"))
    return Graph.from_edges(
        name,
        data.edge_index.cpu().numpy(),
        y.astype(np.int64),
        None if x is None else _rows(x),
        None if time is None else _flat(time),
        None if domain is None else _flat(domain),
    )


def _flat(values: Any) -> AnyArray:
    array: AnyArray = values.detach().cpu().numpy()
    return array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array


def _rows(x: Any) -> AnyArray | csr_array:
    import torch

    rows = x.detach().cpu()
    if rows.layout == torch.strided:
        dense: AnyArray = rows.numpy()
        return dense
    # by way of COO: torch calls its CSR a beta, and warns
    entries = rows.to_sparse_coo().coalesce()
    parts = (entries.values().numpy(), tuple(entries.indices().numpy()))
    return csr_array(coo_array(parts, shape=tuple(entries.shape)))


def dataset(kind: str, root: Path, **arguments: str) -> Any:
    """Give the only graph of a torch_geometric dataset class, read from `root`."""
    try:
        import torch_geometric.datasets as classes
    except ImportError as error:
        text = f'torch_geometric reads this dataset, and is not installed: pip install "ocgl[pyg]" ({error})'
        raise DatasetError(text) from error
    return getattr(classes, kind)(str(root), **arguments)[0]


def parsed(name: str, data: Any) -> Parsed:
    """Count the edges as torch_geometric gives them."""
    return Parsed(from_pyg(data, name), int(data.edge_index.shape[1]))
