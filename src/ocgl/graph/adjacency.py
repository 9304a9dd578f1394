"""Append-only undirected adjacency: one contiguous row of neighbours per node, in a shared pool.

A full row moves to a row of the next size class (4, 6, 8, 12, 16, ...), and its old space goes to a free list of its
class. Adding an edge is amortised O(1), and nothing is ever rebuilt. Rows stay sorted by arrival.
"""

from pathlib import Path

import numpy as np

from ocgl.graph.growable import Growable
from ocgl.kernels import inlined, kernel
from ocgl.types import AnyArray, IntArray, PositionArray

_CLASSES = 60
_NONE = 255  # size class of a node without a row


@inlined
def capacity(size_class: int) -> int:
    """Return the row length of a size class: 4, 6, 8, 12, 16, 24, ..."""
    base = 4 << (size_class >> 1)
    return base + (base >> 1) * (size_class & 1)


_CAPACITIES = np.array([(4 << (c >> 1)) + (2 << (c >> 1)) * (c & 1) for c in range(_CLASSES)], np.int64)
_TOTALS = np.concatenate([[0], np.cumsum(_CAPACITIES)])
"""Row length of each size class, and the sum of the first ones."""


@inlined
def _allocate(pool: PositionArray, free: IntArray, size_class: int) -> np.int64:
    """Allocate a row of this class and return its start, or -1 if the pool is full.

    Each free list is linked through the first two entries of its rows; `free[_CLASSES]` is the end of the used pool.
    """
    start: np.int64 = free[size_class]
    if start >= 0:
        free[size_class] = np.int64(pool[start]) | (np.int64(pool[start + 1]) << 31)
        if free[size_class] == (1 << 62) - 1:
            free[size_class] = -1
        return start
    start = free[_CLASSES]
    if start + capacity(size_class) > len(pool):
        return np.int64(-1)
    free[_CLASSES] = start + capacity(size_class)
    return start


@inlined
def _release(pool: PositionArray, free: IntArray, size_class: int, start: int) -> None:
    """Add a row to the free list of its class."""
    following = free[size_class] if free[size_class] >= 0 else (1 << 62) - 1
    pool[start] = following & 0x7FFFFFFF
    pool[start + 1] = following >> 31
    free[size_class] = start


@inlined
def _append(
    heads: IntArray,
    size_class: AnyArray,
    pool: PositionArray,
    free: IntArray,
    node: int,
    neighbor: int,
    expected: int,
) -> bool:
    """Append a neighbour to a node's row; return False, with nothing changed, if the pool is full.

    A row that moves gets at least `expected` entries.
    """
    used = heads[node, 1]
    row_class = size_class[node]
    if row_class == 255 or used == capacity(row_class):
        wanted = 0 if row_class == 255 else row_class + 1
        while capacity(wanted) < expected:
            wanted += 1
        row = _allocate(pool, free, wanted)
        if row < 0:
            return False
        if row_class != 255:
            old = heads[node, 0]
            for i in range(used):
                pool[row + i] = pool[old + i]
            _release(pool, free, row_class, old)
        heads[node, 0] = row
        size_class[node] = wanted
    pool[heads[node, 0] + used] = neighbor
    heads[node, 1] = used + 1
    return True


@kernel
def _insert(
    heads: IntArray,
    size_class: AnyArray,
    pool: PositionArray,
    free: IntArray,
    later: PositionArray,
    earlier: PositionArray,
    done: int,
) -> int:
    """Add the half edges from `done` on, and return the index of the first that did not fit.

    Half edge 2i is later[i] -> earlier[i], half edge 2i + 1 its reverse.
    """
    for half in range(done, 2 * len(later)):
        i = half >> 1
        if half & 1:
            fits = _append(heads, size_class, pool, free, earlier[i], later[i], 0)
        else:
            run = i
            while size_class[later[i]] == 255 and run < len(later) and later[run] == later[i]:
                run += 1
            fits = _append(heads, size_class, pool, free, later[i], earlier[i], run - i)
        if not fits:
            return half
    return 2 * len(later)


def in_order(later: PositionArray, earlier: PositionArray) -> tuple[PositionArray, PositionArray]:
    """Return the edges sorted by (later, earlier) end, as `add_edges` requires."""
    keys = np.sort((later.astype(np.int64) << 32) | earlier)
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


class Adjacency:
    """Neighbours of each node, in order of arrival.

    Args:
        folder: where to store the pool in a memory-mapped file; None for memory.

    >>> graph = Adjacency()
    >>> graph.add_nodes(3)
    >>> graph.add_edges(np.array([1, 2, 2], np.int32), np.array([0, 0, 1], np.int32))
    >>> graph.neighbors(0).tolist()
    [1, 2]
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._heads = Growable(np.int64, 2)  # row start and degree together: one cache miss for both
        self._class = Growable(np.uint8)
        self._pool = Growable(np.int32, folder=folder)
        self._free = np.full(_CLASSES + 1, -1, np.int64)
        self._free[_CLASSES] = 0
        self.edges = 0

    def __len__(self) -> int:
        return len(self._heads)

    @property
    def nbytes(self) -> int:
        """Memory in bytes, including free rows."""
        return self._heads.nbytes + self._class.nbytes + int(self._free[_CLASSES]) * 4

    @property
    def arrays(self) -> tuple[IntArray, PositionArray]:
        """Heads (row start and degree, of shape [num_nodes, 2]) and the pool of rows, for kernels."""
        return self._heads.rows, self._pool.reserved

    def add_nodes(self, count: int) -> None:
        """Add nodes without edges."""
        self._heads.extend(np.zeros((count, 2), np.int64))
        self._class.extend(np.full(count, _NONE, np.uint8))

    def add_edges(self, later: PositionArray, earlier: PositionArray) -> None:
        """Add edges between existing nodes.

        Args:
            later: position of the node of each edge that arrived later; edges are sorted by (later, earlier).
            earlier: position of the other node.
        """
        done = 0
        while True:
            done = _insert(
                self._heads.rows,
                self._class.rows,
                self._pool.reserved,
                self._free,
                later,
                earlier,
                done,
            )
            if done == 2 * len(later):
                break
            self._pool.reserve(len(self._pool.reserved) + (1 << 16))
        self.edges += len(later)

    def make_room(self, later: PositionArray, earlier: PositionArray) -> None:
        """Reserve enough pool for these edges, so that `add_edges` cannot fail halfway.

        A row may move several times, to every size class between its present one and the one that it ends in.
        """
        ends, times = np.unique(np.concatenate([later, earlier]), return_counts=True)
        degrees, size_class = np.zeros(len(ends), np.int64), np.full(len(ends), -1, np.int64)
        old = ends < len(self)
        degrees[old] = self._heads.rows[ends[old], 1]
        held = self._class.rows[ends[old]].astype(np.int64)
        size_class[old] = np.where(held == _NONE, -1, held)
        last = np.searchsorted(_CAPACITIES, degrees + times)
        needed = _TOTALS[np.maximum(last, size_class) + 1] - _TOTALS[size_class + 1]
        self._pool.reserve(int(self._free[_CLASSES]) + int(needed.sum()))

    def release_pages(self) -> None:
        """Drop file-backed pages from memory; reads load them again."""
        self._pool.release_pages()

    def neighbors(self, node: int) -> PositionArray:
        """Return a copy of the neighbours of a node."""
        begin, degree = self._heads.rows[node].tolist()
        row: PositionArray = self._pool.reserved[begin : begin + degree]
        return row.copy()

    def degrees(self, nodes: PositionArray | IntArray) -> PositionArray:
        """Return the degrees of nodes."""
        found: PositionArray = self._heads.rows[nodes, 1].astype(np.int32)
        return found
