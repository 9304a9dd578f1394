"""Rows of neighbours in a shared pool: adding, finding and removing entries."""

import numpy as np

from ocgl.kernels import inlined, kernel
from ocgl.types import AnyArray, BoolArray, IntArray, PositionArray

CLASSES = 60
NONE = 255  # size class of a node without a row


@inlined
def capacity(size_class: int) -> int:
    """Return the row length of a size class: 4, 6, 8, 12, 16, 24, ..."""
    base = 4 << (size_class >> 1)
    return base + (base >> 1) * (size_class & 1)


CAPACITIES = np.array([(4 << (c >> 1)) + (2 << (c >> 1)) * (c & 1) for c in range(CLASSES)], np.int64)
TOTALS = np.concatenate([[0], np.cumsum(CAPACITIES)])
"""Row length of each size class, and the sum of the first ones."""


@inlined
def _allocate(pool: PositionArray, free: IntArray, size_class: int) -> np.int64:
    """Allocate a row of this class and return its start, or -1 if the pool is full.

    Each free list is linked through the first two entries of its rows; `free[CLASSES]` is the end of the used pool.
    """
    start: np.int64 = free[size_class]
    if start >= 0:
        free[size_class] = np.int64(pool[start]) | (np.int64(pool[start + 1]) << 31)
        if free[size_class] == (1 << 62) - 1:
            free[size_class] = -1
        return start
    start = free[CLASSES]
    if start + capacity(size_class) > len(pool):
        return np.int64(-1)
    free[CLASSES] = start + capacity(size_class)
    return start


@inlined
def _release(pool: PositionArray, free: IntArray, size_class: int, start: int) -> None:
    """Add a row to the free list of its class."""
    following = free[size_class] if free[size_class] >= 0 else (1 << 62) - 1
    pool[start] = following & 0x7FFFFFFF
    pool[start + 1] = following >> 31
    free[size_class] = start


@inlined
def _raise(versions: PositionArray, node: int) -> None:
    """Raise the version of a row; while rows only grow there are no versions, their lengths serve."""
    if len(versions):
        versions[node] += 1


@inlined
def _put(
    heads: IntArray,
    size_class: AnyArray,
    versions: PositionArray,
    pool: PositionArray,
    free: IntArray,
    node: int,
    neighbor: int,
    expected: int,
) -> bool:
    """Add a neighbour to a node's row, in its place; return False, with nothing changed, if the pool is full.

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
    begin = heads[node, 0]
    place = begin + used
    while place > begin and pool[place - 1] > neighbor:  # a later edge; otherwise its place is the end
        pool[place] = pool[place - 1]
        place -= 1
    pool[place] = neighbor
    heads[node, 1] = used + 1
    _raise(versions, node)
    return True


@inlined
def place_of(heads: IntArray, pool: PositionArray, node: int, neighbor: int) -> tuple[np.int64, int]:
    """Return where a neighbour is in the pool, or -1, by binary search in a row; and the number of entries read."""
    low, high = heads[node, 0], heads[node, 0] + heads[node, 1]
    end = high
    probes = 1 if low < high else 0
    while low < high:
        probes += 1
        middle = (low + high) // 2
        if pool[middle] < neighbor:
            low = middle + 1
        else:
            high = middle
    return (low if low < end and pool[low] == neighbor else np.int64(-1)), probes


@inlined
def _take_out(heads: IntArray, versions: PositionArray, pool: PositionArray, node: int, neighbor: int) -> None:
    """Remove a neighbour from a node's row."""
    place, _ = place_of(heads, pool, node, neighbor)
    last = heads[node, 0] + heads[node, 1] - 1
    for i in range(place, last):
        pool[i] = pool[i + 1]
    heads[node, 1] -= 1
    _raise(versions, node)


@kernel
def are_adjacent(heads: IntArray, pool: PositionArray, first: PositionArray, second: PositionArray) -> BoolArray:
    """Return for each pair of nodes whether they have an edge; the shorter row is searched."""
    found = np.empty(len(first), np.bool_)
    for i in range(len(first)):
        a, b = first[i], second[i]
        if heads[a, 1] > heads[b, 1]:
            a, b = b, a
        found[i] = place_of(heads, pool, a, b)[0] >= 0
    return found


@kernel
def take_out_edges(
    heads: IntArray, versions: PositionArray, pool: PositionArray, first: PositionArray, second: PositionArray
) -> None:
    """Remove edges from the rows of both their ends."""
    for i in range(len(first)):
        _take_out(heads, versions, pool, first[i], second[i])
        _take_out(heads, versions, pool, second[i], first[i])


@kernel
def take_out_nodes(
    heads: IntArray,
    size_class: AnyArray,
    versions: PositionArray,
    pool: PositionArray,
    free: IntArray,
    nodes: PositionArray,
) -> int:
    """Remove all edges of some nodes, and free their rows; return how many edges these were."""
    edges = 0
    for node in nodes:
        begin, degree = heads[node]
        for i in range(begin, begin + degree):
            _take_out(heads, versions, pool, pool[i], node)
        edges += degree
        if size_class[node] != 255:
            _release(pool, free, size_class[node], begin)
        heads[node, 0], heads[node, 1], size_class[node] = 0, 0, 255
        versions[node] += 1
    return edges


@kernel
def raise_versions(heads: IntArray, versions: PositionArray, pool: PositionArray, nodes: PositionArray) -> None:
    """Raise the versions of some nodes and of their neighbours."""
    for node in nodes:
        versions[node] += 1
        begin, degree = heads[node]
        for i in range(begin, begin + degree):
            versions[pool[i]] += 1


@kernel
def insert(
    heads: IntArray,
    size_class: AnyArray,
    versions: PositionArray,
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
            fits = _put(heads, size_class, versions, pool, free, earlier[i], later[i], 0)
        else:
            run = i
            while size_class[later[i]] == 255 and run < len(later) and later[run] == later[i]:
                run += 1
            fits = _put(heads, size_class, versions, pool, free, later[i], earlier[i], run - i)
        if not fits:
            return half
    return 2 * len(later)
