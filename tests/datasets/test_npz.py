from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from ocgl.datasets import load_dataset
from ocgl.errors import DatasetCorruptError, DatasetError, DatasetMissingError

from . import raw_files as raw

GRAPH: dict[str, Any] = {"edge_index": raw.EDGES.T, "y": np.array([0, 1, -1, 1, 0]), "x": raw.X}


def save(path: Path, **changes: Any) -> str:
    arrays = {key: value for key, value in (GRAPH | changes).items() if value is not None}
    np.savez(path / "mine.npz", **arrays)
    return str(path / "mine.npz")


def test_dense(tmp_path: Path) -> None:
    graph = load_dataset(save(tmp_path, time=np.arange(5), domain=np.array([0, 0, 1, 1, 1])))
    assert (graph.name, graph.edges, graph.classes, graph.notes) == ("mine", 4, 2, ())
    assert graph.time is not None and graph.time.tolist() == [0, 1, 2, 3, 4]
    assert graph.domain is not None and graph.domain.tolist() == [0, 0, 1, 1, 1]
    np.testing.assert_array_equal(np.asarray(graph.x), raw.X)


def test_sparse(tmp_path: Path) -> None:
    rows = csr_array(raw.X)
    parts = {"x_data": rows.data, "x_indices": rows.indices, "x_indptr": rows.indptr, "x_shape": np.array(rows.shape)}
    graph = load_dataset(save(tmp_path, x=None, **parts))
    assert graph.sparse
    assert isinstance(graph.x, csr_array)
    np.testing.assert_array_equal(graph.x.toarray(), raw.X)


def test_a_path_object(tmp_path: Path) -> None:
    path = save(tmp_path)
    assert load_dataset(Path(path)).content_hash == load_dataset(path).content_hash
    with pytest.raises(DatasetMissingError, match=r"there is no file .*none"):
        load_dataset(tmp_path / "none")


def test_only_a_name_or_a_path_is_loaded() -> None:
    with pytest.raises(DatasetError, match=r"not a dict; from_pyg\(data\)"):
        load_dataset({"edge_index": raw.EDGES})  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "nodes"), [({"x": None}, 5), ({}, 5), ({"x": None, "time": np.arange(7)}, 7)])
def test_structure_needs_no_labels(tmp_path: Path, rows: dict[str, Any], nodes: int) -> None:
    graph = load_dataset(save(tmp_path, y=None, **rows), structure_only=True)
    assert (graph.nodes, graph.edges, graph.classes) == (nodes, 4, 0)
    assert graph.notes[-1] == "no labels"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"edge_index": np.array([[0], [2**40]])}, "highest possible"),
        ({"edge_index": np.array([[0.0], [1.0]])}, "must be integers"),
        ({"edge_index": None}, "it has no edge_index"),
        ({"x": np.array(1.0)}, "not a readable graph"),
    ],
)
def test_structure_without_labels_says_what_is_wrong(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(DatasetCorruptError, match=rf"mine\.npz.*{problem}"):
        load_dataset(save(tmp_path, **({"y": None, "x": None} | changes)), structure_only=True)


def test_structure_only(tmp_path: Path) -> None:
    graph = load_dataset(save(tmp_path, x=None))
    assert graph.x is None
    assert graph.notes == ("structure only: no features",)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"y": None}, "it has no y"),
        ({"edge_index": None}, "it has no edge_index"),
        ({"labels": raw.Y}, "unknown keys labels"),
        ({"x": raw.X[:3]}, "given for 5 nodes"),
        ({"x": np.full((5, 3), np.nan)}, "NaN or infinity"),
        ({"edge_index": raw.EDGES}, r"shape \(2, E\)"),
        ({"edge_index": np.array([[0], [9]])}, "outside 0..4"),
        ({"time": np.arange(3)}, "time has shape"),
        ({"time": np.array([0, 1, np.nan, 3, 4])}, "time of rows .2. is NaN"),
        ({"domain": np.array([0, 0.5, 1, 1, 1])}, "domain must be whole"),
        ({"domain": np.array([0, np.nan, 1, 1, 1])}, "domain must be whole"),
        ({"x": raw.X + 1j}, "real numbers"),
        ({"y": np.array([0, 1, -2, 0, 0])}, "-1 where unknown"),
        ({"x_data": np.ones(1)}, "it has no x_indices, x_indptr, x_shape"),
        ({"y": np.array(["a"] * 5, object)}, "holds Python objects"),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(DatasetCorruptError, match=rf"mine\.npz.*{problem}"):
        load_dataset(save(tmp_path, **changes))


def test_broken_sparse_rows(tmp_path: Path) -> None:
    parts = {"x_data": np.ones(1), "x_indices": np.array([7]), "x_indptr": np.array([0, 1, 1, 1, 1, 1])}
    with pytest.raises(DatasetCorruptError, match=r"mine\.npz"):
        load_dataset(save(tmp_path, x=None, x_shape=np.array([5, 3]), **parts))


@pytest.mark.parametrize("key", ["x_indices", "x_indptr", "x_shape", "x_data"])
def test_sparse_rows_of_the_wrong_type(tmp_path: Path, key: str) -> None:
    rows = csr_array(raw.X)
    parts = {"x_data": rows.data, "x_indices": rows.indices, "x_indptr": rows.indptr, "x_shape": np.array(rows.shape)}
    parts[key] = parts[key] + 1j if key == "x_data" else parts[key] + 0.5
    with pytest.raises(DatasetCorruptError, match=r"mine\.npz.*(must be integers|real numbers)"):
        load_dataset(save(tmp_path, x=None, **parts))


def test_dense_and_sparse_at_once(tmp_path: Path) -> None:
    parts = {key: np.zeros(2, np.int64) for key in ("x_data", "x_indices", "x_indptr", "x_shape")}
    with pytest.raises(DatasetCorruptError, match="both x and sparse rows"):
        load_dataset(save(tmp_path, **parts))


def test_truncated(tmp_path: Path) -> None:
    path = Path(save(tmp_path))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DatasetCorruptError, match=r"mine\.npz"):
        load_dataset(str(path))


def test_single_array(tmp_path: Path) -> None:
    with (tmp_path / "mine.npz").open("wb") as file:
        np.save(file, raw.Y)
    with pytest.raises(DatasetCorruptError, match=r"no \.npz archive"):
        load_dataset(str(tmp_path / "mine.npz"))


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissingError, match=r"there is no file .*none\.npz"):
        load_dataset(str(tmp_path / "none.npz"))
