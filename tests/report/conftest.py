from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path

import pytest

from ocgl.benchmark.sweep import Sweep, carry_out
from ocgl.report.collect import Bench, collect


def carry_out_all(sweeps: Iterable[Sweep], pool: Executor) -> None:
    for sweep in sweeps:
        assert not carry_out(sweep, pool).failed


@pytest.fixture(scope="module")
def bench(folder: Path) -> Bench:
    """Collect what the module's own `folder` holds."""
    (found,) = collect([folder])
    return found
