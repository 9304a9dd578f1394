"""The numbers printed in the paper, in percent: mean and standard deviation of five runs."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@cache
def table() -> "pl.DataFrame":
    """Give all published rows: dataset, stream, setting, method, metric, mean, std."""
    import polars as pl

    return pl.read_csv((files("ocgl.reporting") / "data" / "published.csv").read_bytes())


def published(
    dataset: str, method: str, metric: str, stream: str = "class", setting: str = "main"
) -> tuple[float, float] | None:
    """Give mean and standard deviation of one published number (AF is AF_T here), or None where there is none.

    >>> published("amazon-computer", "linear", "AAP")
    (86.53, 0.2)
    """
    import polars as pl

    wanted = {"dataset": dataset, "stream": stream, "setting": setting, "metric": metric}
    rows = table().filter(*(pl.col(k) == v for k, v in wanted.items()))
    found = rows.filter(pl.col("method").str.to_lowercase() == method.lower())
    return (found["mean"][0], found["std"][0]) if found.height else None
