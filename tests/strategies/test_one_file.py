"""A new method is one new file: everything else finds it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ocgl

METHOD = '''
"""Plain training with a decaying loss."""

from typing import Any, ClassVar

from torch import Tensor

from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.gradient import GRID, Examples, GradientStrategy


@strategy
class Halved(GradientStrategy):
    """L = factor * CE(batch)."""

    name: ClassVar[str] = "halved-loss"
    title: ClassVar[str] = "Halved!"
    idea: ClassVar[str] = "train on a part of the loss"
    reference: ClassVar[str] = "Somebody, A paper of 2026"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"lr": GRID["lr"][:1], "factor": (0.5, 0.25)}

    factor: float = 0.5

    def loss(self, examples: Examples) -> Tensor:
        return self.factor * self.cross_entropy(examples)
'''


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with one more file in `strategies`; everything else is linked, nothing is changed."""
    root = tmp_path_factory.mktemp("package")
    source = Path(ocgl.__file__).parent
    (root / "ocgl" / "strategies").mkdir(parents=True)
    for path in source.iterdir():
        if path.name != "strategies":
            (root / "ocgl" / path.name).symlink_to(path)
    for path in (source / "strategies").iterdir():
        (root / "ocgl" / "strategies" / path.name).symlink_to(path)
    (root / "ocgl" / "strategies" / "halved_loss.py").write_text(METHOD)
    return root


def run(package: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": f"{package}:{Path(ocgl.__file__).parents[2]}", "COLUMNS": "250"}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment, cwd=package, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_one_new_file_is_found_everywhere(package: Path) -> None:
    listed = run(package, "-m", "ocgl", "strategies")
    assert "halved-loss" in listed and "factor=0.5" in listed and "Somebody, A paper of 2026" in listed
    assert "factor: 0.5, 0.25" in run(package, "-m", "ocgl", "strategies", "--grids")
    assert "fails" not in run(package, "-m", "ocgl", "check", "halved-loss")
    quick = [
        "--set",
        "batch_size=120",
        "--set",
        "fanout=2",
        "--set",
        "hidden=8",
        "--seeds",
        "2",
        "--workers",
        "1",
        "--tune-seeds",
        "1",
    ]
    table = run(package, "-m", "ocgl", "bench", "digits", "--out", "r", "--strategies", "halved-loss,bare", *quick)
    assert "halved-loss 2, bare 8" in table  # configurations of its own grid
    run(package, "-m", "ocgl", "report", "r", "--out", "r.html")
    page = (package / "r.html").read_text()
    assert "Halved!" in page and "factor" in page
    rows = run(package, "-c", "from studies.strategies import table; print(table(measure=False))")
    assert "`halved-loss` | train on a part of the loss" in rows and "Somebody, A paper of 2026" in rows
