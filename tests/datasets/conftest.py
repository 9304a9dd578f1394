from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("OCGL_CACHE", str(folder))
    monkeypatch.delenv("OCGL_OFFLINE", raising=False)
    return folder


@pytest.fixture
def real(data_root: Path) -> Path:
    return data_root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder
