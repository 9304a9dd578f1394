from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch_geometric.data import Data

from ocgl.datasets import from_pyg, load_dataset
from ocgl.errors import DatasetError, GraphError, StreamError
from ocgl.streams import class_stream

from . import raw_files as raw

EDGES = torch.from_numpy(raw.EDGES.T.copy())


def test_columns() -> None:
    data = Data(
        x=torch.from_numpy(raw.X),
        edge_index=EDGES,
        y=torch.from_numpy(raw.Y)[:, None],
        time=torch.arange(5),
        domain=torch.zeros(5, dtype=torch.long),
        train_mask=torch.ones(5, dtype=torch.bool),
    )
    graph = from_pyg(data, "mine")
    assert (graph.name, graph.edges) == ("mine", 4)
    np.testing.assert_array_equal(graph.y, raw.Y)
    np.testing.assert_array_equal(np.asarray(graph.x), raw.X)
    assert graph.time is not None and graph.time.tolist() == [0, 1, 2, 3, 4]
    assert graph.domain is not None and graph.domain.tolist() == [0] * 5


def test_sparse_rows_stay_sparse() -> None:
    graph = from_pyg(Data(x=torch.from_numpy(raw.X).to_sparse(), edge_index=EDGES, y=torch.from_numpy(raw.Y)))
    assert graph.sparse
    assert graph.x is not None
    np.testing.assert_array_equal(graph.x.toarray(), raw.X)


def test_without_features_or_labels() -> None:
    assert from_pyg(Data(edge_index=EDGES, y=torch.from_numpy(raw.Y), num_nodes=5)).x is None
    with pytest.raises(DatasetError, match="has no y"):
        from_pyg(Data(edge_index=EDGES, num_nodes=5))


def test_labels_must_be_whole_numbers() -> None:
    with pytest.raises(DatasetError, match="whole numbers"):
        from_pyg(Data(edge_index=EDGES, y=torch.full((5,), 0.5)))
    with pytest.raises(GraphError, match="outside"):
        from_pyg(Data(edge_index=EDGES, y=torch.zeros(3)))


def test_numpy_columns_and_lists_are_taken() -> None:
    tensors = from_pyg(Data(x=torch.from_numpy(raw.X), edge_index=EDGES, y=torch.from_numpy(raw.Y)))
    arrays = from_pyg(Data(x=raw.X, edge_index=raw.EDGES.T, y=raw.Y))
    lists = from_pyg(Data(x=raw.X.tolist(), edge_index=raw.EDGES.T.tolist(), y=raw.Y.tolist()))
    sparse = from_pyg(Data(x=csr_array(raw.X), edge_index=EDGES, y=torch.from_numpy(raw.Y)))
    assert tensors.content_hash == arrays.content_hash == lists.content_hash
    assert sparse.sparse


def test_bfloat16_becomes_float32() -> None:
    x = torch.from_numpy(raw.X)
    for rows in (x.bfloat16(), x.bfloat16().to_sparse()):
        graph = from_pyg(Data(x=rows, edge_index=EDGES, y=torch.from_numpy(raw.Y)))
        assert graph.x is not None and graph.x.dtype == np.float32
        np.testing.assert_array_equal(graph.x.toarray() if graph.sparse else np.asarray(graph.x), raw.X)


@pytest.mark.parametrize(
    ("column", "values"),
    [("x", [[1.0], [1.0, 2.0]]), ("x", ["a"] * 5), ("time", [[0], [1, 2]]), ("y", ["a"] * 5), ("y", [0.0, np.nan])],
)
def test_what_is_no_number_is_named(column: str, values: Any) -> None:
    columns = {"x": raw.X, "edge_index": EDGES, "y": raw.Y} | {column: values}
    with pytest.raises((DatasetError, GraphError), match="numbers"):
        from_pyg(Data(**columns))


def test_where_a_name_or_a_graph_is_wanted_from_pyg_is_named() -> None:
    data = Data(edge_index=EDGES, y=torch.from_numpy(raw.Y))
    with pytest.raises(DatasetError, match=r"from_pyg\(data\)"):
        load_dataset(data)
    with pytest.raises(StreamError, match=r"from_pyg\(data\)"):
        class_stream(data)
