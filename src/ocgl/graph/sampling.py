"""Capped breadth-first sampling without replacement. Its work is bounded by the caps, not by the graph."""

import numpy as np

from ocgl.graph.hashing import _GOLDEN, below, mix, node_state, slot_of
from ocgl.kernels import inlined, kernel
from ocgl.types import FloatArray, IntArray, PositionArray


@inlined
def _doubled(array: PositionArray) -> PositionArray:
    grown = np.empty(2 * len(array), array.dtype)
    grown[: len(array)] = array
    return grown


@kernel
def _rehash(nodes: PositionArray, count: int, room: int) -> tuple[IntArray, PositionArray]:
    keys = np.full(room, -1, np.int64)
    locals_ = np.empty(room, np.int32)
    for i in range(count):
        slot = slot_of(keys, nodes[i])
        keys[slot] = nodes[i]
        locals_[slot] = i
    return keys, locals_


@inlined
def _draw(state: np.uint64, degree: int, cap: int, picks: IntArray) -> None:
    """Floyd: `cap` distinct integers below `degree`, each set equally likely."""
    for taken in range(cap):
        last = degree - cap + taken
        state += _GOLDEN
        pick = below(mix(state), last + 1)
        for i in range(taken):
            if picks[i] == pick:
                pick = np.int64(last)
                break
        picks[taken] = pick


@kernel
def sample(
    start: IntArray, degree: PositionArray, pool: PositionArray, seeds: PositionArray, fanouts: IntArray, key: np.uint64
) -> tuple[PositionArray, IntArray, IntArray, PositionArray]:
    """Sample around distinct seeds.

    Every node first reached before the last hop is expanded once. Gives the nodes (seeds first, then hop by hop),
    the number of nodes within 0, 1, ..., L hops, and for each expanded node its sampled neighbours as CSR with
    local indices.
    """
    hops = len(fanouts)
    count = len(seeds)
    room = 16
    while room < 8 * count:
        room *= 2
    nodes = np.empty(room, np.int32)
    nodes[:count] = seeds
    keys, locals_ = _rehash(nodes, count, 2 * room)
    sizes = np.empty(hops + 1, np.int64)
    sizes[0] = count
    indptr = np.zeros(room + 1, np.int64)
    indices = np.empty(room, np.int32)
    edges = 0
    done = 0
    for hop in range(hops):
        cap = fanouts[hop]
        picks = np.empty(max(cap, 1), np.int64)
        for v in range(done, sizes[hop]):
            node = nodes[v]
            visible = degree[node]
            take = visible if cap < 0 or visible <= cap else cap
            if take < visible:
                _draw(node_state(key, node, visible), visible, take, picks)
            while edges + take > len(indices):
                indices = _doubled(indices)
            if count + take > len(nodes):
                while count + take > len(nodes):
                    nodes = _doubled(nodes)
                keys, locals_ = _rehash(nodes, count, 2 * len(nodes))
            row = start[node]
            for i in range(take):
                neighbor = pool[row + (i if take == visible else picks[i])]
                slot = slot_of(keys, neighbor)
                if keys[slot] == -1:
                    keys[slot] = neighbor
                    locals_[slot] = count
                    nodes[count] = neighbor
                    count += 1
                indices[edges] = locals_[slot]
                edges += 1
            if v + 2 > len(indptr):
                grown = np.zeros(2 * len(indptr), np.int64)
                grown[: len(indptr)] = indptr
                indptr = grown
            indptr[v + 1] = edges
        done = sizes[hop]
        sizes[hop + 1] = count
    return nodes[:count].copy(), sizes, indptr[: done + 1].copy(), indices[:edges].copy()


@kernel
def sym_weights(indptr: IntArray, indices: PositionArray, degrees: IntArray) -> tuple[FloatArray, FloatArray]:
    """Give 1 / sqrt(d_u d_v) for each sampled edge u to v, and 1 / d_v for each expanded node itself."""
    edge = np.empty(len(indices), np.float32)
    own = np.empty(len(indptr) - 1, np.float32)
    for v in range(len(own)):
        own[v] = 1.0 / degrees[v]
        for e in range(indptr[v], indptr[v + 1]):
            edge[e] = 1.0 / np.sqrt(np.float64(degrees[v]) * degrees[indices[e]])
    return edge, own


@kernel
def mean_weights(indptr: IntArray, degrees: IntArray) -> tuple[FloatArray, FloatArray]:
    """Give 1 / d_v for each sampled edge into v, and for v itself."""
    edge = np.empty(indptr[-1], np.float32)
    own = np.empty(len(indptr) - 1, np.float32)
    for v in range(len(own)):
        own[v] = 1.0 / degrees[v]
        edge[indptr[v] : indptr[v + 1]] = own[v]
    return edge, own
