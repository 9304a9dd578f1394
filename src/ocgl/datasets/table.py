"""Number tables from CSV files, plain or gzipped, read by polars."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np

from ocgl.types import AnyArray


def read(path: Path, dtype: Any, header: bool = False) -> AnyArray:
    """Read a table whose columns are all of one numeric type, as rows x columns.

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
    """Read a table with these columns; ValueError if it has others, or empty cells."""
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
