"""Tables as Parquet files: written as bytes, read only within limits."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from ocgl.checked import CHANGED, read_bytes, sha256_of
from ocgl.errors import DamagedFileError

if TYPE_CHECKING:
    import polars as pl

LARGEST = 256 << 20
"""Largest Parquet file, and largest text in one, that is read, in bytes."""
MOST_CELLS = 30_000_000
"""Most values of a Parquet file that is read."""


def parquet_bytes(frame: "pl.DataFrame", level: int | None = None) -> bytes:
    """Return a table as the bytes of a Parquet file.

    Args:
        frame: the table.
        level: level of compression; the usual one if None.
    """
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=level)
    return buffer.getvalue()


def read_parquet(path: Path, checksums: list[str] | None = None) -> "pl.DataFrame":
    """Read a Parquet file; one that is damaged or too large raises `DamagedFileError`.

    Args:
        path: the file.
        checksums: SHA-256 that the file may have; None for a file without one.
    """
    data = read_bytes(path, LARGEST)
    if checksums is not None and sha256_of(data) not in checksums:
        raise DamagedFileError(path, CHANGED)
    return parse_parquet(data, path)


def parse_parquet(data: bytes, path: object) -> "pl.DataFrame":
    """Return the table in the bytes of a Parquet file; what is none, or is too large, raises `DamagedFileError`."""
    import polars as pl

    try:
        lazy = pl.scan_parquet(io.BytesIO(data))
        schema = lazy.collect_schema()
        rows = int(lazy.select(pl.len()).collect().item())
        if rows * len(schema) > MOST_CELLS:
            raise DamagedFileError(path, f"it has {rows:,} rows of {len(schema)} columns, more than allowed")
        texts = [name for name, kind in schema.items() if kind == pl.String]
        if texts and rows:
            sizes = lazy.select(pl.col(name).str.len_bytes().sum() for name in texts).collect().row(0)
            if sum(size or 0 for size in sizes) > LARGEST:
                raise DamagedFileError(path, f"its texts have more than {LARGEST:,} bytes")
        return lazy.collect()
    except (DamagedFileError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of polars is no Exception
        text = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise DamagedFileError(path, f"it is no Parquet file ({text})") from error
