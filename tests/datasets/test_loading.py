import builtins
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ocgl.datasets import load_dataset, loading
from ocgl.datasets.registry import SPECS
from ocgl.datasets.spec import Spec
from ocgl.errors import DatasetCorruptError, DatasetError, DatasetMissingError, UnknownNameError
from ocgl.graph import Graph

from . import raw_files as raw


def load_tiny(spec: Spec, root: Path, structure_only: bool = False) -> Graph:
    return loading.load(spec, root, structure_only, download=False)


def test_amazon_computer(real: Path, cache: Path) -> None:
    graph = load_dataset("amazon-computer", real, download=False)
    assert (graph.nodes, 2 * graph.edges, graph.width, graph.classes) == (13_752, 491_722, 767, 10)
    assert not graph.sparse
    assert [path.name.partition("-")[0] for path in cache.iterdir()] == ["amazon"]


def test_coauthor_cs(real: Path) -> None:
    graph = load_dataset("coauthor-cs", real, download=False)
    assert (graph.nodes, 2 * graph.edges, graph.width, graph.classes) == (18_333, 163_788, 6_805, 15)
    assert graph.sparse
    assert graph.x is not None
    assert graph.x.dtype == np.float32


@pytest.mark.parametrize(("name", "edges"), [("corafull", 63_421), ("arxiv", 1_157_799), ("elliptic", 234_355)])
def test_structure_only(real: Path, name: str, edges: int) -> None:
    graph = load_dataset(name, real, structure_only=True, download=False)
    assert graph.edges == edges
    assert graph.x is None
    assert graph.notes == ("structure only: no features",)


def test_structure_file_is_mentioned_when_features_are_missing(real: Path) -> None:
    with pytest.raises(DatasetMissingError, match=r"graphs/ogbn-arxiv\.npz.*`ocgl expansion`.*Python") as caught:
        load_dataset("arxiv", real, download=False)
    assert "ocgl.load_dataset('arxiv', structure_only=True)" in str(caught.value)


def test_structure_file_with_other_edges(root: Path) -> None:
    (root / "graphs").mkdir()
    np.savez(root / "graphs" / "corafull.npz", edge_index=raw.EDGES.T, y=raw.Y)
    assert load_tiny(raw.tiny("corafull"), root, structure_only=True).edges == 4
    with pytest.raises(DatasetCorruptError, match=r"corafull\.npz.*edges is 6, expected 7"):
        load_tiny(raw.tiny("corafull", edges=7), root, structure_only=True)


def test_structure_only_prefers_the_real_files(root: Path) -> None:
    (root / "graphs").mkdir()
    np.savez(root / "graphs" / "corafull.npz", edge_index=raw.EDGES.T, y=raw.Y)
    raw.write_bag_of_words(raw.raw_folder(root, "cora") / "cora.npz")
    assert load_tiny(raw.tiny("corafull", edges=12), root, structure_only=True).width == 3


@pytest.mark.parametrize("name", sorted(SPECS))
def test_missing_file_says_where_to_get_and_put_it(root: Path, name: str) -> None:
    item = SPECS[name].downloads[0]
    with pytest.raises(DatasetMissingError) as caught:
        load_dataset(name, root, download=False)
    for part in (item.file, item.url, str(root / SPECS[name].folders[0] / "raw")):
        assert part in str(caught.value)


def test_unknown_name_has_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="did you mean corafull"):
        load_dataset("cora-full")


def test_data_root_from_the_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCGL_DATA", str(root))
    with pytest.raises(DatasetMissingError, match=str(root)):
        load_dataset("roman-empire", download=False)


def test_default_root_is_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCGL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DatasetMissingError, match=str(tmp_path / "ocgl" / "data")):
        load_dataset("roman-empire", download=False)


@pytest.mark.parametrize(
    ("name", "write", "file"),
    [
        ("corafull", lambda r: raw.write_bag_of_words(r / "cora.npz"), "cora.npz"),
        ("roman-empire", lambda r: raw.write_roman(r / "roman_empire.npz"), "roman_empire.npz"),
        ("reddit", raw.write_reddit, "reddit_graph.npz"),
        ("arxiv", lambda r: raw.write_ogb(r, True), "edge.csv.gz"),
        ("products", lambda r: raw.write_ogb(r, False), "node-feat.csv.gz"),
        ("elliptic", raw.write_elliptic, "elliptic_txs_classes.csv"),
    ],
)
def test_truncated_file_leaves_no_cache(root: Path, cache: Path, name: str, write: Any, file: str) -> None:
    folder = raw.raw_folder(root, SPECS[name].folders[0])
    write(folder)
    path = folder / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DatasetCorruptError, match=file):
        load_tiny(raw.tiny(name), root)
    assert list(cache.iterdir()) == []


def test_wrong_checksum_names_the_file(root: Path, cache: Path) -> None:
    path = raw.write_bag_of_words(raw.raw_folder(root, "cora") / "cora.npz")
    with pytest.raises(DatasetCorruptError, match=f"{path} does not have the sha256"):
        load_dataset("corafull", root, download=False)
    assert not cache.exists()


def test_other_statistics_are_refused(root: Path, cache: Path) -> None:
    raw.write_bag_of_words(raw.raw_folder(root, "cora") / "cora.npz")
    spec = raw.tiny("corafull", edges=12)
    wrong = replace(spec, statistics=replace(spec.statistics, classes=3))
    with pytest.raises(DatasetCorruptError, match=r"cora\.npz.*classes is 2, expected 3"):
        load_tiny(wrong, root)
    assert list(cache.iterdir()) == []


def test_nothing_is_written_beside_the_raw_files(root: Path) -> None:
    raw.write_reddit(raw.raw_folder(root, "Reddit"))
    before = sorted(root.rglob("*"))
    load_tiny(raw.tiny("reddit", edges=8), root)
    assert sorted(root.rglob("*")) == before


def test_first_content_is_trusted_another_refused(root: Path, cache: Path) -> None:
    folder = raw.raw_folder(root, "Elliptic")
    raw.write_elliptic(folder)
    spec = raw.tiny("elliptic", edges=4, members=(2, 2))
    load_tiny(spec, root)
    features = folder / "elliptic_txs_features.csv"
    features.write_text(features.read_text().replace("1.0", "2.0"))
    os.utime(features, ns=(1, 1))
    with pytest.raises(DatasetCorruptError, match=r"elliptic_txs_features\.csv is not the file first loaded"):
        load_tiny(spec, root)
    assert len(list(cache.iterdir())) == 1


def test_torch_geometric_missing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("torch_geometric"):
            raise ImportError(name)
        return real_import(name, *rest)

    real_import = builtins.__import__
    raw.write_roman(raw.raw_folder(root, "roman_empire") / "roman_empire.npz")
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DatasetError, match=r'pip install "ocgl\[pyg\]"'):
        load_tiny(raw.tiny("roman-empire", edges=4), root)
