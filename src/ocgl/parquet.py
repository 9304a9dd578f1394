"""Tables as Parquet files: written as bytes, read only within limits.

A damaged size can make polars ask for more memory than there is, and that ends the process. A file without a checksum
is therefore read by a child process first.
"""

import contextlib
import io
import subprocess
import sys
from functools import cache
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
    if checksums is None:
        return parse_unchecked(data, path)
    if sha256_of(data) not in checksums:
        raise DamagedFileError(path, CHANGED)
    return parse_parquet(data, path)


def parse_unchecked(data: bytes, path: object) -> "pl.DataFrame":
    """Return the table in bytes that no checksum vouches for: a child process reads them first."""
    if not _taster().survives(data):
        raise DamagedFileError(path, "it is no Parquet file (reading it ends the process)")
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


class _Taster:
    """A child process that reads files and says that it is still there. It ends with its parent."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def survives(self, data: bytes) -> bool:
        """Return whether a process that reads these bytes goes on living."""
        if self._child is None or self._child.poll() is not None:
            command = [sys.executable, "-c", "from ocgl.parquet import taste; taste()"]
            quiet = subprocess.DEVNULL
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet)
        assert self._child.stdin is not None and self._child.stdout is not None
        try:
            self._child.stdin.write(len(data).to_bytes(8, "little") + data)
            self._child.stdin.flush()
        except OSError:
            return False
        return self._child.stdout.read(1) == _ALIVE


_ALIVE = b"+"
_MEMORY = 4 << 30
"""Most memory, in bytes, that the child process may take."""


@cache
def _taster() -> _Taster:
    return _Taster()


def taste() -> None:
    """Read Parquet files from the standard input, each after its length, and answer after each."""
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while size := sys.stdin.buffer.read(8):
        with contextlib.suppress(DamagedFileError):
            parse_parquet(sys.stdin.buffer.read(int.from_bytes(size, "little")), "a file")
        sys.stdout.buffer.write(_ALIVE)
        sys.stdout.buffer.flush()
