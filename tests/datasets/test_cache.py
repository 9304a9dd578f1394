import json
import os
from pathlib import Path

import numpy as np
import pytest

from ocgl.datasets import cache as caching
from ocgl.datasets import load_dataset, loading
from ocgl.datasets import sbm as blocks
from ocgl.datasets.spec import Spec
from ocgl.errors import CacheError
from ocgl.graph import Graph

from . import raw_files as raw

Built = tuple[Spec, Path, Path]


@pytest.fixture
def built(root: Path) -> Built:
    path = raw.write_bag_of_words(raw.raw_folder(root, "cora") / "cora.npz")
    return raw.tiny("corafull", edges=12), root, path


def get(built: Built) -> Graph:
    return loading.load(built[0], built[1], structure_only=False, download=False)


def only_folder(cache: Path) -> Path:
    (folder,) = cache.iterdir()
    return folder


def mapped(array: object) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def test_second_load_is_bit_equal_and_mapped(built: Built) -> None:
    first, second = get(built), get(built)
    for name, column in first.columns().items():
        np.testing.assert_array_equal(column, second.columns()[name])
        assert column.dtype == second.columns()[name].dtype
    assert all(mapped(column) for name, column in second.columns().items() if name != "x_shape")
    assert not second.indices.flags.writeable


def test_cached_equals_parsed(built: Built) -> None:
    fresh = built[0].parse("corafull", built[2].parent).graph
    cached = get(built)
    assert {"content_hash"} <= set(vars(cached))
    assert cached.content_hash == fresh.content_hash
    assert (cached.name, cached.notes) == (fresh.name, fresh.notes)


def test_real_dataset_parses_once(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_dataset("coauthor-cs", real, download=False)
    monkeypatch.setattr(loading, "_parse", None)
    second = load_dataset("coauthor-cs", real, download=False)
    assert first.content_hash == second.content_hash == Graph.from_columns("", second.columns()).content_hash


def test_manifest_tells_source_and_statistics(built: Built, cache: Path) -> None:
    get(built)
    content = json.loads((only_folder(cache) / "manifest.json").read_text())
    (source,) = content["sources"]
    assert source["path"] == str(built[2])
    assert source["size"] == built[2].stat().st_size
    assert len(source["sha256"]) == 64
    assert content["statistics"]["edges"] == 12


def test_rebuilt_when_the_source_is_touched(built: Built, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    get(built)
    os.utime(built[2], ns=(1, 1))
    get(built)
    content = json.loads((only_folder(cache) / "manifest.json").read_text())
    assert content["sources"][0]["mtime_ns"] == 1


def test_changed_content_is_loaded_once_the_old_cache_is_deleted(built: Built, cache: Path) -> None:
    get(built)
    raw.write_bag_of_words(built[2], raw.X * 5)
    os.utime(built[2], ns=(1, 1))
    for file in only_folder(cache).iterdir():
        file.unlink()
    x = get(built).x
    assert x is not None
    assert x.max() == 5


def test_rebuilt_for_another_loader(built: Built, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    get(built)
    monkeypatch.setattr(caching, "LOADER_VERSION", 99)
    get(built)
    assert json.loads((only_folder(cache) / "manifest.json").read_text())["loader"] == 99


@pytest.mark.parametrize("damage", ["manifest.json", "indices.npy", "x_data.npy"])
def test_half_written_cache_is_rebuilt(built: Built, cache: Path, damage: str) -> None:
    whole = get(built).content_hash
    path = only_folder(cache) / damage
    path.write_bytes(path.read_bytes()[:-8])
    again = get(built)
    assert Graph.from_columns("", again.columns()).content_hash == whole


def test_failed_write_leaves_nothing(built: Built, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ocgl.files._publish", fail)
    with pytest.raises(KeyboardInterrupt):
        get(built)
    assert list(cache.iterdir()) == []


def test_old_mapping_survives_a_rebuild(built: Built) -> None:
    old = get(built)
    os.utime(built[2], ns=(1, 1))
    get(built)
    assert old.y.tolist() == raw.Y.tolist()


def test_a_faster_process_keeps_its_place(built: Built, cache: Path) -> None:
    get(built)
    folder = only_folder(cache)
    before = folder.stat().st_ino
    content = json.loads((folder / "manifest.json").read_text())
    extra = {key: content[key] for key in ("sources", "statistics")}
    caching.write(folder, lambda: built[0].parse("corafull", built[2].parent).graph, extra)
    assert only_folder(cache).stat().st_ino == before


@pytest.fixture
def blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("OCGL_CACHE", str(tmp_path / "file" / "cache"))
    return tmp_path / "file" / "cache"


def test_a_cache_that_cannot_be_written_is_not_the_datas_fault(built: Built, blocked: Path) -> None:
    with pytest.raises(CacheError, match=rf"{blocked}.*set OCGL_CACHE"):
        get(built)


def test_nothing_is_built_for_a_cache_that_cannot_be_written(blocked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "build", None)
    with pytest.raises(CacheError, match=rf"{blocked}.*set OCGL_CACHE"):
        load_dataset("sbm:nodes=250000,edges=500000")


def test_a_full_cache_is_named_and_left_clean(built: Built, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(CacheError, match=rf"{cache}.*No space left"):
        get(built)
    assert list(cache.iterdir()) == []
