"""Graphs from torch_geometric: `Data` objects, and dataset classes that read local files."""

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
    """Convert a torch_geometric `Data` object to a graph. Masks and edge features are ignored.

    Args:
        data: an object with `edge_index`, `y` and optionally `x` (dense or sparse), `time` and `domain`, as tensors,
            numpy arrays or lists. `y`, `time` and `domain` may have shape [num_nodes] or [num_nodes, 1].
        name: name of the graph.
    """
    for needed in ("edge_index", "y"):
        if getattr(data, needed, None) is None:
            raise DatasetError(f"the torch_geometric object has no {needed}; a Graph needs edge_index and y")
    columns = {column: getattr(data, column, None) for column in ("edge_index", "y", "x", "time", "domain")}
    given = {column: _column(column, values) for column, values in columns.items() if values is not None}
    try:
        given["y"] = whole_numbers(given["y"], "y")
    except GraphError as error:
        raise DatasetError(f"the torch_geometric object's labels: {error}") from error
    return Graph.from_edges(name, **given)


def _column(column: str, values: Any) -> Any:
    try:
        array = _array(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DatasetError(f"the torch_geometric object's {column} is not an array of numbers: {error}") from error
    one_column = array.ndim == 2 and array.shape[1] == 1
    return array.reshape(-1) if column in ("y", "time", "domain") and one_column else array


def _array(values: Any) -> AnyArray | csr_array:
    import torch

    if not isinstance(values, torch.Tensor):
        return values if issparse(values) else np.asarray(values)
    tensor: Any = values.detach().cpu()
    if tensor.dtype == torch.bfloat16:  # numpy has no bfloat16
        tensor = tensor.float()
    if tensor.layout == torch.strided:
        dense: AnyArray = tensor.numpy()
        return dense
    # via COO: torch warns that its CSR support is in beta
    entries = tensor.to_sparse_coo().coalesce()
    parts = (entries.values().numpy(), tuple(entries.indices().numpy()))
    return csr_array(coo_array(parts, shape=tuple(entries.shape)))


def dataset(kind: str, root: Path, **arguments: str) -> Any:
    """Return the only graph of a torch_geometric dataset.

    Args:
        kind: name of the dataset class.
        root: its root folder, with the raw files in place.
        arguments: further arguments of the class.
    """
    try:
        import torch_geometric.datasets as classes
    except ImportError as error:
        text = f'this dataset needs torch_geometric, which is not installed: pip install "ocgl[pyg]" ({error})'
        raise DatasetError(text) from error
    return getattr(classes, kind)(str(root), **arguments)[0]


def parsed(name: str, data: Any) -> Parsed:
    """Convert a `Data` object to a graph, with the number of edges in its `edge_index`."""
    return Parsed(from_pyg(data, name), int(data.edge_index.shape[1]))
