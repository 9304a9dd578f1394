from dataclasses import replace
from pathlib import Path

import pytest

from ocgl.datasets import fetch, loading
from ocgl.datasets.spec import Spec
from ocgl.errors import DatasetCorruptError, DatasetMissingError
from ocgl.graph import Graph

from . import raw_files as raw


@pytest.fixture
def served(tmp_path: Path) -> Path:
    return raw.write_bag_of_words(tmp_path / "served.npz")


def spec_of(url: str, sha256: str | None = None, size: int | None = None) -> Spec:
    spec = raw.tiny("corafull", edges=12)
    return replace(spec, downloads=(replace(spec.downloads[0], url=url, sha256=sha256, size=size),))


def get(spec: Spec, root: Path) -> Graph:
    return loading.load(spec, root, structure_only=False, download=True)


def files(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if path.is_file()]


def test_download_is_checked_and_put_in_place(root: Path, served: Path) -> None:
    spec = spec_of(served.as_uri(), fetch.sha256(served), served.stat().st_size)
    assert get(spec, root).edges == 4
    assert files(root) == ["cora.npz"]


@pytest.mark.parametrize(("sha256", "size", "problem"), [("0" * 64, None, "sha256"), (None, 3, "expected 3")])
def test_wrong_download_is_not_kept(
    root: Path, served: Path, sha256: str | None, size: int | None, problem: str
) -> None:
    with pytest.raises(DatasetCorruptError, match=problem):
        get(spec_of(served.as_uri(), sha256, size), root)
    assert files(root) == []


def test_failed_download_says_what_to_do(root: Path, tmp_path: Path) -> None:
    url = (tmp_path / "nowhere.npz").as_uri()
    with pytest.raises(DatasetMissingError, match=r"cora\.npz is missing \(the download failed") as caught:
        get(spec_of(url), root)
    assert url in str(caught.value)
    assert str(root / "cora" / "raw") in str(caught.value)
    assert list(root.iterdir()) == []


def test_offline_never_asks(root: Path, served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCGL_OFFLINE", "1")
    with pytest.raises(DatasetMissingError, match="switched off"):
        get(spec_of(served.as_uri()), root)


def test_files_are_copied_where_links_are_not_possible(
    root: Path, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert get(spec_of(served.as_uri()), root).edges == 4
