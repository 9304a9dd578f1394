"""What all tests share: small graphs, real data where it lies, a cache of their own, one thread."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from ocgl.graph import Graph
from ocgl.testing import small_graph

settings.register_profile("ocgl", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("ocgl")
torch.set_num_threads(1)

SLOW = {
    "test_sweep", "test_cli", "test_report", "test_experiment", "test_golden", "test_faults", "test_estimate",
    "test_one_file", "test_moments", "test_package", "test_sharding", "test_loggers", "test_estimates", "test_evaluate",
    "test_verify", "test_run_page", "test_terminal", "test_offline", "test_feature_replay", "test_strategies",
    "test_cached_predictor", "test_closed_form", "test_expansion", "test_loading", "test_saved_learner", "test_changes",
    "test_durable", "test_networks", "test_backbones",
}  # fmt: skip
"""Test files that `make quick` leaves out: they start processes, stream whole graphs, or read the real data."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files."""
    for item in items:
        if item.path.stem in SLOW and "tests" in item.path.parts:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Return the folder of the real datasets. With OCGL_REQUIRE_DATA set, its absence is a failure."""
    beside = Path(__file__).parents[2] / "shared" / "datasets"
    root = Path(os.environ.get("OCGL_DATA") or beside)
    if not (root / "Computers").is_dir():
        if os.environ.get("OCGL_REQUIRE_DATA"):
            pytest.fail(f"no real data in {root}: set OCGL_DATA")
        pytest.skip("no real data: set OCGL_DATA")
    return root


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests out of the user's cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("OCGL_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def random_graph(seed: int = 0, nodes: int = 120, edges: int = 400) -> Graph:
    """Make a graph with class-dependent features, times and domains, and a few unlabelled nodes."""
    return small_graph(nodes, edges, seed=seed)


@pytest.fixture
def graph() -> Graph:
    """Return a random graph of 120 nodes, 6 classes and 5 features."""
    return small_graph()
