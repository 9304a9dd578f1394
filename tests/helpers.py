"""What several test files use."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ocgl.experiments.config import parse_override
from ocgl.experiments.results import RunResult
from ocgl.files import locked
from ocgl.types import Json

CLOCKS = ("learn_seconds", "evaluate_seconds", "peak_rss_bytes", "store")
"""Keys of a result that differ between runs that are otherwise bit-equal."""


COARSE = ("--grids", "coarse", "--seeds", "2", "--tune-seeds", "1")
"""Options of a short `ocgl bench`."""


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that `make` has filled, once for all workers of a test run."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / name
    with locked(shared):
        if not (folder / ".made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / ".made").touch()
    return folder


def options(*texts: str) -> dict[str, Any]:
    """Read `key=value` texts as the command line does."""
    return dict(map(parse_override, texts))


def timeless(result: RunResult) -> Json:
    """Return a result without clocks and memory."""
    return {key: value for key, value in result.dump().items() if key not in CLOCKS}


def scored(result: RunResult, metric: str) -> float:
    """Return a score that must be there."""
    value = result.score(metric)
    assert value is not None, metric
    return value
