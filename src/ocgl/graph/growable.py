"""Arrays that grow at the end without being copied, in memory or in a file."""

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
    """An append-only array of fixed row width in its own anonymous memory map.

    A small array grows by remapping. One of 16 MiB or more gets 64 GiB of addresses once (where the system allows)
    and never moves again: pages cost memory only when they are written, there is no copy and no second array, and
    large pages stay whole. Views taken earlier stay valid.

    With a `folder` the array lies in a file there, mapped: the system keeps in memory what is in use and has room. The
    file has no name and is gone with the array.

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
        """The rows in use."""
        return self._all[: self.size]

    @property
    def reserved(self) -> AnyArray:
        """All rows that can be written without growing."""
        return self._all

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self.size * self._row_bytes

    def reserve(self, rows: int) -> None:
        """Make room for that many rows in all."""
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
            finally:  # also where there is no more memory: what was there stays
                self._all = self._whole()

    def extend(self, rows: Any) -> None:
        """Append rows."""
        count = len(rows)
        self.reserve(self.size + count)
        self._all[self.size : self.size + count] = rows
        self.size += count

    def let_go(self) -> None:
        """Tell the system that pages of the file need not stay in memory; they come back when they are read."""
        if self._file is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def _enlarge(self, size: int) -> None:
        try:
            self._map.resize(size)
        except (BufferError, OSError, SystemError, ValueError):  # a view is alive, or the system cannot remap
            if not self._moved(size, 0):
                raise MemoryError(f"no room for {size} bytes") from None

    def _moved(self, size: int, flags: int) -> bool:
        try:
            fresh = self._mapped(size, flags)
        except OSError:
            return False
        if hasattr(mmap, "MADV_HUGEPAGE") and size >= _LARGE:
            # Random rows of a large table cost a page walk each with small pages: updates would slow with size.
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
                os.posix_fallocate(self._file.fileno(), 0, size)  # a full disk is told here, not by a crash on writing
            else:
                self._file.truncate(size)
            return mmap.mmap(self._file.fileno(), size)
        return mmap.mmap(-1, size, flags=_PRIVATE | flags) if _PRIVATE else mmap.mmap(-1, size)
