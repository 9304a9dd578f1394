import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from torch_geometric.datasets import CitationFull

from ocgl.datasets import from_pyg, loading
from ocgl.datasets.spec import Spec
from ocgl.errors import DatasetCorruptError
from ocgl.graph import Graph
from ocgl.types import AnyArray

from . import raw_files as raw


def load(spec: Spec, root: Path) -> Graph:
    return loading.load(spec, root, structure_only=False, download=False)


def dense(graph: Graph) -> AnyArray:
    assert graph.x is not None
    return graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()


def edges(graph: Graph) -> list[tuple[int, int]]:
    ends = zip(np.repeat(np.arange(graph.nodes), np.diff(graph.indptr)), graph.indices, strict=True)
    return [(int(a), int(b)) for a, b in ends if a < b]


def same_as_written(graph: Graph) -> None:
    assert edges(graph) == raw.DISTINCT
    np.testing.assert_array_equal(graph.y, raw.Y)
    np.testing.assert_array_equal(dense(graph), raw.X)
    assert dense(graph).dtype == np.float32


def test_corafull_is_sparse_and_counts_each_entry_twice(root: Path) -> None:
    raw.write_bag_of_words(raw.raw_folder(root, "cora") / "cora.npz")
    graph = load(raw.tiny("corafull", edges=12), root)
    assert graph.sparse
    same_as_written(graph)


def test_corafull_agrees_with_torch_geometric(root: Path, tmp_path: Path) -> None:
    raw.write_bag_of_words(raw.raw_folder(root, "cora") / "cora.npz")
    raw.write_bag_of_words(raw.raw_folder(tmp_path / "pyg", "cora") / "cora.npz")
    theirs = from_pyg(CitationFull(str(tmp_path / "pyg"), "Cora")[0])
    ours = load(raw.tiny("corafull", edges=12), root)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_array_equal(dense(ours), dense(theirs))


def test_word_counts_stay_as_distributed(root: Path) -> None:
    raw.write_bag_of_words(raw.raw_folder(root, "CS") / "ms_academic_cs.npz", raw.X * 7)
    np.testing.assert_array_equal(dense(load(raw.tiny("coauthor-cs", edges=8), root)), raw.X * 7)


def test_amazon_is_dense_and_counted_after_symmetrising(root: Path) -> None:
    raw.write_bag_of_words(raw.raw_folder(root, "Computers") / "amazon_electronics_computers.npz")
    graph = load(raw.tiny("amazon-computer", edges=8), root)
    assert not graph.sparse
    same_as_written(graph)


def test_reddit(root: Path) -> None:
    raw.write_reddit(raw.raw_folder(root, "Reddit"))
    same_as_written(load(raw.tiny("reddit", edges=8), root))


def test_reddit_still_zipped(root: Path) -> None:
    folder = raw.raw_folder(root, "elsewhere")
    raw.write_reddit(folder)
    with zipfile.ZipFile(root / "reddit.zip", "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, path.name)
    same_as_written(load(raw.tiny("reddit", edges=8), root))
    assert sorted(path.name for path in root.iterdir()) == ["elsewhere", "reddit.zip"]


def test_roman_empire_is_counted_undirected(root: Path) -> None:
    raw.write_roman(raw.raw_folder(root, "roman_empire") / "roman_empire.npz")
    same_as_written(load(raw.tiny("roman-empire", edges=4), root))


@pytest.mark.parametrize(
    ("name", "folder"), [("arxiv", "ogbn_arxiv"), ("arxiv", "arxiv"), ("products", "ogbn_products")]
)
def test_ogb(root: Path, name: str, folder: str) -> None:
    raw.write_ogb(raw.raw_folder(root, folder), years=name == "arxiv")
    graph = load(raw.tiny(name), root)
    assert edges(graph) == raw.DISTINCT
    np.testing.assert_array_equal(dense(graph), (raw.X / 3).astype(np.float32))
    if name == "arxiv":
        assert graph.time is not None
        np.testing.assert_array_equal(graph.time, raw.YEARS)
    else:
        assert graph.time is None


def test_ogb_nodes_must_agree(root: Path) -> None:
    folder = raw.raw_folder(root, "products")
    raw.write_ogb(folder, years=False)
    (folder / "num-node-list.csv.gz").write_bytes(gzip.compress(b"6\n"))
    with pytest.raises(DatasetCorruptError, match="has 5 rows"):
        load(raw.tiny("products"), root)


def test_ogb_from_its_zip(root: Path) -> None:
    folder = raw.raw_folder(root, "elsewhere")
    raw.write_ogb(folder, years=True)
    with zipfile.ZipFile(root / "arxiv.zip", "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"arxiv/raw/{path.name}")
    assert edges(load(raw.tiny("arxiv"), root)) == raw.DISTINCT


def test_ogb_zip_without_a_file(root: Path) -> None:
    with zipfile.ZipFile(root / "arxiv.zip", "w") as archive:
        archive.writestr("arxiv/raw/edge.csv.gz", b"")
    with pytest.raises(DatasetCorruptError, match=r"arxiv\.zip does not contain node-feat"):
        load(raw.tiny("arxiv"), root)


def test_elliptic_time_is_no_feature_and_labels_follow_ids(root: Path) -> None:
    raw.write_elliptic(raw.raw_folder(root, "Elliptic"))
    graph = load(raw.tiny("elliptic", edges=4, members=(2, 2)), root)
    assert edges(graph) == raw.DISTINCT
    assert graph.y.tolist() == [0, 1, -1, 1, 0]
    assert graph.time is not None
    assert graph.time.tolist() == [1, 1, 2, 2, 3]
    np.testing.assert_array_equal(dense(graph), raw.X)


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("elliptic_txs_edgelist.csv", "907,11", "907,12", "transaction 12"),
        ("elliptic_txs_classes.csv", "33,unknown", "33,maybe", "maybe"),
        ("elliptic_txs_features.csv", "33,2,", "33,,", "empty cells"),
        ("elliptic_txs_classes.csv", "500,2", "500,unknown", "members is"),
    ],
)
def test_elliptic_says_what_is_wrong(root: Path, file: str, old: str, new: str, problem: str) -> None:
    folder = raw.raw_folder(root, "Elliptic")
    raw.write_elliptic(folder)
    (folder / file).write_text((folder / file).read_text().replace(old, new))
    with pytest.raises(DatasetCorruptError, match=problem):
        load(raw.tiny("elliptic", edges=4, members=(2, 2)), root)
