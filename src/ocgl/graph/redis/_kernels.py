"""Steps of a sample whose rows come from elsewhere; together they give what `_kernels.sampling.sample` gives."""

import numpy as np

from ocgl.graph._kernels.hashing import node_state
from ocgl.graph._kernels.sampling import _draw, _entry, _hashed
from ocgl.kernels import kernel
from ocgl.types import IntArray, PositionArray


@kernel
def drawn(nodes: PositionArray, degrees: PositionArray, cap: int, key: np.uint64) -> tuple[IntArray, PositionArray]:
    """Return row starts and places of the entries that a sample reads of each row; all of a short row."""
    starts = np.zeros(len(nodes) + 1, np.int64)
    for i in range(len(nodes)):
        degree = degrees[i]
        starts[i + 1] = starts[i] + (degree if cap < 0 or degree <= cap else cap)
    places = np.empty(starts[-1], np.int32)
    picks = np.empty(max(cap, 1), np.int64)
    for i in range(len(nodes)):
        begin, end = starts[i], starts[i + 1]
        if end - begin < degrees[i]:
            _draw(node_state(key, nodes[i], degrees[i]), degrees[i], cap, picks)
            for j in range(end - begin):
                places[begin + j] = picks[j]
        else:
            for j in range(end - begin):
                places[begin + j] = j
    return starts, places


@kernel
def found_in(
    firsts: IntArray, lengths: IntArray, entries: PositionArray, starts: IntArray, places: PositionArray
) -> tuple[PositionArray, PositionArray]:
    """Return the chosen entries of rows whose beginnings are here, -1 where they are not; and how many lack per row.

    Args:
        firsts: where the beginning of each row lies in `entries`.
        lengths: how many entries of each row are here.
        entries: the beginnings of the rows.
        starts: which of `places` belong to each row.
        places: chosen places.
    """
    found = np.full(len(places), -1, np.int32)
    lacking = np.zeros(len(firsts), np.int32)
    for i in range(len(firsts)):
        for j in range(starts[i], starts[i + 1]):
            if places[j] < lengths[i]:
                found[j] = entries[firsts[i] + places[j]]
            else:
                lacking[i] += 1
    return found, lacking


@kernel
def joined(nodes: PositionArray, neighbors: PositionArray) -> tuple[PositionArray, PositionArray]:
    """Return the nodes with the new ones among their neighbours behind them, and each neighbour's local index."""
    most = len(nodes) + len(neighbors)
    capacity = 16
    while capacity < most:
        capacity *= 2
    table, _ = _hashed(nodes, len(nodes), capacity)
    found = np.empty(most, np.int32)
    found[: len(nodes)] = nodes
    count = len(nodes)
    indices = np.empty(len(neighbors), np.int32)
    for i in range(len(neighbors)):
        entry = _entry(table, neighbors[i])
        if table[entry] == -1:
            table[entry], table[entry + 1] = neighbors[i], count
            found[count] = neighbors[i]
            count += 1
        indices[i] = table[entry + 1]
    return found[:count].copy(), indices
