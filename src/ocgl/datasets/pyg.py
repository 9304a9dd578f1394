"""Graphs from torch_geometric: its `Data` objects, and its dataset classes over files that lie ready."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, issparse

from ocgl.datasets.spec import Parsed
from ocgl.errors import DatasetError, GraphError
from ocgl.graph import Graph
from ocgl.graph.static import whole_numbers
from ocgl.types import AnyArray


def from_pyg(data: Any, name: str = "pyg") -> Graph:
    """Take `edge_index`, `y` and, where present, `x` (dense or sparse), `time` and `domain` of a `Data` object.

    They may be tensors, numpy arrays or lists, labels a column; masks and edge features are left behind.
    """
    for needed in ("edge_index", "y"):
        if getattr(data, needed, None) is None:
            raise DatasetError(f"the torch_geometric object has no {needed}; a Graph needs edge_index and y")
    columns = {column: getattr(data, column, None) for column in ("edge_index", "y", "x", "time", "domain")}
    given = {column: _taken(column, values) for column, values in columns.items() if values is not None}
    try:
        given["y"] = whole_numbers(given["y"], "y")
    except GraphError as error:
        raise DatasetError(f"the torch_geometric object's labels: {error}") from error
    return Graph.from_edges(name, **given)


def _taken(column: str, values: Any) -> Any:
    try:
        array = _array(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DatasetError(f"the torch_geometric object's {column} is no array of numbers: {error}") from error
    one_column = array.ndim == 2 and array.shape[1] == 1
    return array.reshape(-1) if column in ("y", "time", "domain") and one_column else array


def _array(values: Any) -> AnyArray | csr_array:
    import torch

    if not isinstance(values, torch.Tensor):
        return values if issparse(values) else np.asarray(values)
    tensor: Any = values.detach().cpu()
    if tensor.dtype == torch.bfloat16:  # numpy has no such numbers
        tensor = tensor.float()
    if tensor.layout == torch.strided:
        dense: AnyArray = tensor.numpy()
        return dense
    # by way of COO: torch calls its CSR a beta, and warns
    entries = tensor.to_sparse_coo().coalesce()
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
