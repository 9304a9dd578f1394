"""Append-only arrays that grow without a copy, in memory or in a file."""

import mmap
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ocgl.types import AnyArray

_PRIVATE = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
_LARGE = 1 << 24
_AHEAD = 1 << 36


class Growable:
    """An append-only array in an anonymous memory map, or in a memory-mapped file.

    A small array grows by remapping. At 16 MiB an array reserves 64 GiB of address space (if the system allows it)
    and does not move again: unwritten pages cost no memory, growing copies nothing, and huge pages stay intact.
    Arrays returned earlier stay valid.

    Args:
        dtype: type of the entries.
        width: entries per row; None for a one-dimensional array.
        folder: where to create the file, which has no name and is deleted with the array; None for memory.

    >>> numbers = Growable(np.int32)
    >>> numbers.extend(np.arange(3))
    >>> numbers.rows.tolist()
    [0, 1, 2]
    """

    def __init__(self, dtype: DTypeLike, width: int | None = None, folder: Path | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self.width = width
        self.size = 0
        self._row_bytes = self.dtype.itemsize * (1 if width is None else width)
        self._file = None if folder is None else tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives with the array
        self._map = self._mapped(mmap.PAGESIZE)
        self._all = self._whole()

    def __len__(self) -> int:
        return self.size

    @property
    def rows(self) -> AnyArray:
        """Rows in use."""
        return self._all[: self.size]

    @property
    def reserved(self) -> AnyArray:
        """All allocated rows, including those not in use."""
        return self._all

    @property
    def nbytes(self) -> int:
        """Size of the rows in use in bytes."""
        return self.size * self._row_bytes

    def reserve(self, rows: int) -> None:
        """Allocate at least `rows` rows in total."""
        if rows <= len(self._all):
            return
        wanted = max(rows * self._row_bytes, len(self._map) * 3 // 2)
        wanted = -(-wanted // mmap.PAGESIZE) * mmap.PAGESIZE
        if self._file is not None:
            self._map = self._mapped(wanted)
            self._all = self._whole()
        else:
            del self._all
            try:
                if wanted < _LARGE or not self._moved(max(wanted, _AHEAD), _NO_RESERVE):
                    self._enlarge(wanted)
            finally:  # also after a MemoryError: the old rows stay valid
                self._all = self._whole()

    def extend(self, rows: Any) -> None:
        """Append rows."""
        count = len(rows)
        self.reserve(self.size + count)
        self._all[self.size : self.size + count] = rows
        self.size += count

    def release_pages(self) -> None:
        """Drop the file's pages from memory; reads load them again. No effect on an array in memory."""
        if self._file is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def _enlarge(self, size: int) -> None:
        try:
            self._map.resize(size)
        except (BufferError, OSError, SystemError, ValueError):  # an array uses the map, or remapping is unsupported
            if not self._moved(size, 0):
                raise MemoryError(f"cannot allocate {size} bytes") from None

    def _moved(self, size: int, flags: int) -> bool:
        try:
            fresh = self._mapped(size, flags)
        except OSError:
            return False
        if hasattr(mmap, "MADV_HUGEPAGE") and size >= _LARGE:
            # With small pages each random row of a large table costs a page walk, and updates slow down as it grows.
            fresh.madvise(mmap.MADV_HUGEPAGE)
        fresh[: len(self._map)] = self._map[:]
        self._map = fresh
        return True

    def _whole(self) -> AnyArray:
        flat = np.frombuffer(self._map, dtype=np.uint8)
        usable = len(flat) // self._row_bytes * self._row_bytes
        array = flat[:usable].view(self.dtype)
        return array if self.width is None else array.reshape(-1, self.width)

    def _mapped(self, size: int, flags: int = 0) -> mmap.mmap:
        if self._file is not None:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), 0, size)  # on a full disk this raises; a write would crash
            else:
                self._file.truncate(size)
            return mmap.mmap(self._file.fileno(), size)
        return mmap.mmap(-1, size, flags=_PRIVATE | flags) if _PRIVATE else mmap.mmap(-1, size)
