"""What several test files use."""

from typing import Any

from ocgl.experiments.config import parse_override
from ocgl.experiments.results import RunResult
from ocgl.types import Json

CLOCKS = ("learn_seconds", "evaluate_seconds", "peak_rss_bytes", "store")
"""Keys of a result that differ between runs that are otherwise bit-equal."""


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
