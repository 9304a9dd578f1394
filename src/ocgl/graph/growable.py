"""Arrays that grow at the end without being copied."""

import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ocgl.types import AnyArray

_HUGE = 1 << 24
_PRIVATE = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)


class Growable:
    """An append-only array of fixed row width in its own anonymous memory map.

    Growing remaps the pages (no copy, no second array in memory), and pages that were reserved but never
    written cost nothing. Views taken earlier stay valid: if one is still alive, the rows move to a new map.

    >>> numbers = Growable(np.int32)
    >>> numbers.extend(np.arange(3))
    >>> numbers.rows.tolist()
    [0, 1, 2]
    """

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self.width = width
        self.size = 0
        self._row_bytes = self.dtype.itemsize * (1 if width is None else width)
        self._map = self._new_map(mmap.PAGESIZE)
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
        wanted = max(rows, len(self._all) + len(self._all) // 2) * self._row_bytes
        wanted = -(-wanted // mmap.PAGESIZE) * mmap.PAGESIZE
        del self._all
        try:
            self._map.resize(wanted)
        except (BufferError, OSError, SystemError, ValueError):  # a view is alive, or no mremap here
            held, self._map = self._map, self._new_map(wanted)
            self._map[: len(held)] = held[:]
        self._huge_pages()
        self._all = self._whole()

    def extend(self, rows: Any) -> None:
        """Append rows."""
        count = len(rows)
        self.reserve(self.size + count)
        self._all[self.size : self.size + count] = rows
        self.size += count

    def _huge_pages(self) -> None:
        # Random rows of a large table cost a TLB miss each with small pages: updates would slow with size.
        if hasattr(mmap, "MADV_HUGEPAGE") and len(self._map) >= _HUGE:
            self._map.madvise(mmap.MADV_HUGEPAGE)

    def _new_map(self, size: int) -> mmap.mmap:
        return mmap.mmap(-1, size, flags=_PRIVATE) if _PRIVATE else mmap.mmap(-1, size)

    def _whole(self) -> AnyArray:
        flat = np.frombuffer(self._map, dtype=np.uint8)
        usable = len(flat) // self._row_bytes * self._row_bytes
        array = flat[:usable].view(self.dtype)
        return array if self.width is None else array.reshape(-1, self.width)
