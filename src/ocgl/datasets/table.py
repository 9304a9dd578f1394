"""Reads numeric tables from CSV files, plain or gzipped, with polars."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np

from ocgl.types import AnyArray


def read(path: Path, dtype: Any, header: bool = False) -> AnyArray:
    """Return a table whose columns have one numeric type, of shape [num_rows, num_columns].

    Args:
        path: the file, plain or gzipped.
        dtype: `np.int64` or `np.float32`.
        header: whether the first line is a header.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "a.csv").write_text("1,2\\n3,4\\n")
    ...     read(Path(folder) / "a.csv", np.int64)
    array([[1, 2],
           [3, 4]])
    """
    import polars

    kind = {np.int64: polars.Int64, np.float32: polars.Float32}[dtype]
    schema: dict[str, Any] = {f"c{i}": kind for i in range(_width(path))}
    rows: AnyArray = frame(path, schema, header).to_numpy(order="c")
    return rows


def frame(path: Path, schema: dict[str, Any], header: bool) -> Any:
    """Return a table as a polars frame; raise ValueError for other columns or empty cells.

    Args:
        path: the file, plain or gzipped.
        schema: name and polars type of each column.
        header: whether the first line is a header.
    """
    import polars

    try:
        content = polars.read_csv(path, has_header=False, skip_rows=int(header), schema=schema)
    except polars.exceptions.PolarsError as error:
        raise ValueError(f"{path.name}: {error}") from error
    if sum(content.null_count().row(0)):
        raise ValueError(f"{path.name} has empty cells")
    return content


def _width(path: Path) -> int:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return file.readline().count(b",") + 1
