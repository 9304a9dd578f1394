"""Scores that a refactoring must not move: mean of three seeds, with a tolerance for other machines' rounding."""

from pathlib import Path

import numpy as np
import pytest

from ocgl.benchmark import Run, configure, stream_of

LINEAR = ["lr=0.01", "passes=5", "memory_proportion=3", "buffer=4%"]


def scores(dataset: str, strategy: str, settings: list[str], every: int, root: Path | None = None) -> dict[str, float]:
    found = []
    for seed in range(3):
        config = configure(dataset, strategy, seed=seed, settings=settings, eval_every=every)
        result = Run(config, stream_of(config, root)).finish()
        found.append([result[key] for key in ("AAP", "AP", "prequential")])
    return dict(zip(("AAP", "AP", "prequential"), np.mean(found, 0).tolist(), strict=True))


def test_linear_on_digits() -> None:
    found = scores("digits", "linear", LINEAR, 1)
    assert found == pytest.approx({"AAP": 94.6, "AP": 90.3, "prequential": 89.6}, abs=2.5)


def test_bare_on_digits() -> None:
    found = scores("digits", "bare", [], 1)
    assert found["AAP"] == pytest.approx(46.4, abs=2.5)
    assert found["AP"] == pytest.approx(19.0, abs=1.5)


def test_linear_on_amazon_computer(data_root: Path) -> None:
    """Published, tuned: AAP 86.5, AP 81.6."""
    found = scores("amazon-computer", "linear", LINEAR, 10, data_root)
    assert 85 <= found["AAP"] <= 90 and 74 <= found["AP"] <= 85
    assert found["AAP"] == pytest.approx(86.9, abs=1)
    assert found["prequential"] == pytest.approx(91.65, abs=0.3)


def test_bare_on_amazon_computer(data_root: Path) -> None:
    """Published, tuned: AAP 42.4, AP 19.0."""
    found = scores("amazon-computer", "bare", ["lr=0.001"], 20, data_root)
    assert 39 <= found["AAP"] <= 45 and 16.5 <= found["AP"] <= 20.5
    assert found["AAP"] == pytest.approx(41.6, abs=1.5)
    assert found["prequential"] == pytest.approx(90, abs=1.5)
