"""What all tests share: small graphs, real data where it lies, a cache of their own, one thread."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

from ocgl.graph import Graph

settings.register_profile("ocgl", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("ocgl")
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Give the folder of the real datasets; in CI it must be there."""
    beside = Path(__file__).parents[2] / "shared" / "datasets"
    root = Path(os.environ.get("OCGL_DATA") or beside)
    if not (root / "Computers").is_dir():
        if os.environ.get("CI"):
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


def random_graph(seed: int = 0, nodes: int = 120, edges: int = 400, classes: int = 6, width: int = 5) -> Graph:
    """Make a graph with class-dependent features, times and domains, and a few unlabelled nodes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=nodes)
    x = (rng.normal(size=(nodes, width)) + 3 * rng.normal(size=(classes, width))[y]).astype(np.float32)
    y[rng.random(nodes) < 0.05] = -1
    pairs = rng.integers(nodes, size=(2, edges))
    return Graph.from_edges("random", pairs, y, x, rng.integers(20, size=nodes), rng.integers(3, size=nodes))


@pytest.fixture
def graph() -> Graph:
    """Give a random graph of 120 nodes, 6 classes and 5 features."""
    return random_graph()
