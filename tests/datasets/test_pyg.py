import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from ocgl.datasets import from_pyg
from ocgl.errors import DatasetError, GraphError

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
