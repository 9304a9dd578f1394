"""The numbers in the paper's tables: mean and standard deviation of five runs, in percent."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@cache
def table() -> "pl.DataFrame":
    """Return all published numbers: dataset, stream, setting, method, metric, mean, std."""
    import polars as pl

    return pl.read_csv((files("ocgl.reporting") / "data" / "published.csv").read_bytes())


def published(
    dataset: str, method: str, metric: str, stream: str = "class", setting: str = "main"
) -> tuple[float, float] | None:
    """Return the published mean and standard deviation; None if the paper has none.

    Args:
        dataset: name of the dataset.
        method: name of the method.
        metric: `AAP`, `AP` or `AF` (what ocgl calls `AF_T`).
        stream: kind of stream.
        setting: `main` or an ablation.

    >>> published("amazon-computer", "linear", "AAP")
    (86.53, 0.2)
    """
    import polars as pl

    wanted = {"dataset": dataset, "stream": stream, "setting": setting, "metric": metric}
    rows = table().filter(*(pl.col(k) == v for k, v in wanted.items()))
    found = rows.filter(pl.col("method").str.to_lowercase() == method.lower())
    return (found["mean"][0], found["std"][0]) if found.height else None
