from pathlib import Path

import numpy as np
import pytest

from ocgl.datasets import load_dataset, sbm
from ocgl.errors import ConfigError, UnknownNameError
from ocgl.graph import Graph
from ocgl.types import AnyArray

SMALL = "sbm:nodes=1000,edges=5000,classes=5,width=16"


def homophily(graph: Graph) -> float:
    return float((np.repeat(graph.y, np.diff(graph.indptr)) == graph.y[graph.indices]).mean())


def means(graph: Graph) -> AnyArray:
    assert graph.x is not None
    x = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    return np.stack([x[graph.y == label].mean(0) for label in range(graph.classes)])


def test_defaults() -> None:
    graph = load_dataset("sbm")
    assert (graph.nodes, graph.edges, graph.classes, graph.width) == (2_000, 10_000, 10, 32)
    assert graph.time is not None and graph.domain is not None
    assert (graph.time.min(), graph.time.max(), graph.domain.max()) == (0, 99, 4)
    assert "made up" in graph.notes[0]


@pytest.mark.parametrize("asked", [0.0, 0.3, 0.8, 1.0])
def test_exact_edges_and_homophily_without_self_loops(asked: float) -> None:
    graph = load_dataset(f"{SMALL},homophily={asked}")
    assert graph.edges == 5_000
    assert not (np.repeat(np.arange(graph.nodes), np.diff(graph.indptr)) == graph.indices).any()
    assert homophily(graph) == pytest.approx(asked, abs=1e-3)


def test_degrees_and_classes_are_uneven() -> None:
    graph = load_dataset(SMALL)
    sizes, degrees = np.bincount(graph.y), np.diff(graph.indptr)
    assert sizes.max() > 1.5 * sizes.min()
    assert sizes.min() >= sbm.SMALLEST_CLASS
    assert degrees.max() > 5 * degrees.mean()


def test_class_means_lie_apart_and_more_so_when_asked() -> None:
    near, far = (means(load_dataset(f"{SMALL},separation={value}")) for value in (1, 6))
    apart = [np.linalg.norm(rows[0] - rows[1]) for rows in (near, far)]
    assert 0.3 < apart[0] < 2.5
    assert 3 < apart[1] < 9


def test_learnable_but_not_trivial() -> None:
    graph = load_dataset("sbm")
    centers = means(graph)
    assert isinstance(graph.x, np.ndarray)
    distance = ((graph.x[:, None] - centers[None]) ** 2).sum(2)
    assert 0.5 < (distance.argmin(1) == graph.y).mean() < 0.95


def test_drift_moves_means_over_time_and_between_domains() -> None:
    def shift(graph: Graph) -> tuple[float, float]:
        assert isinstance(graph.x, np.ndarray) and graph.time is not None and graph.domain is not None
        mine = graph.y == 0
        early, late = (graph.x[mine & half].mean(0) for half in (graph.time < 50, graph.time >= 50))
        here, there = (graph.x[graph.domain == domain].mean(0) for domain in (0, 1))
        return float(np.linalg.norm(early - late)), float(np.linalg.norm(here - there))

    still, moving = (shift(load_dataset(f"{SMALL},nodes=4000,drift={drift}")) for drift in (0, 2))
    assert moving[0] > 3 * still[0]
    assert moving[1] > 3 * still[1]


def test_sparse_rows_depend_on_class() -> None:
    graph = load_dataset("sbm:nodes=600,edges=1000,classes=3,width=500,density=0.02,drift=0.5")
    assert graph.sparse
    assert graph.x is not None
    assert 0.015 < graph.x.sum() / (600 * 500) <= 0.02
    rows = means(graph)
    assert np.abs(rows[0] - rows[1]).max() > 0.03


def test_seed_repeats_and_differs() -> None:
    one, same, other = (load_dataset(f"{SMALL},seed={seed}").content_hash for seed in (1, 1, 2))
    assert one == same != other


def test_preset_with_override() -> None:
    settings = sbm.parameters("sbm:roman-empire,homophily=0.05,seed=3")
    assert (settings.nodes, settings.width, settings.homophily, settings.seed) == (22_662, 300, 0.05, 3)
    assert load_dataset("sbm:roman-empire,width=4").edges == 32_927


def test_large_ones_are_cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sbm, "CACHED_NODES", 500)
    fresh = load_dataset(SMALL)
    monkeypatch.setattr(sbm, "build", None)
    again = load_dataset(SMALL)
    assert fresh.content_hash == again.content_hash
    assert isinstance(again.indices.base, np.memmap)
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("sbm:nodes=many", "nodes must be a whole number, not 'many'"),
        ("sbm:homophily=1.5", "homophily must be from 0 to 1"),
        ("sbm:homophily=nan", "homophily must be"),
        ("sbm:nodes=10", "nodes must be from 40"),
        ("sbm:nodes=100,edges=9999", "edges must be from 0 to 4950"),
        ("sbm:nodes=100,edges=4900", "do not fit 100 nodes"),
        ("sbm:density=0", "density must be"),
    ],
)
def test_bad_parameter_is_named(name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_dataset(name)


def test_unknown_parameter_and_preset() -> None:
    with pytest.raises(UnknownNameError, match="did you mean homophily"):
        load_dataset("sbm:homofily=1")
    with pytest.raises(UnknownNameError, match="did you mean arxiv"):
        load_dataset("sbm:arxive")
