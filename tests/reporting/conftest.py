from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path

import pytest

from ocgl.experiments.sweep import Sweep, run_sweep
from ocgl.reporting.collect import Bench, collect
from ocgl.types import Json

QUICK: Json = {"grids": "coarse", "tune_seeds": 1}
"""Options of sweeps that only have to be there."""


def run_all_sweeps(sweeps: Iterable[Sweep], pool: Executor) -> None:
    for sweep in sweeps:
        assert not run_sweep(sweep, pool).failed


@pytest.fixture(scope="module")
def bench(folder: Path) -> Bench:
    """Collect what the module's own `folder` holds."""
    (found,) = collect([folder])
    return found
