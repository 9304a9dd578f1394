"""Capped breadth-first sampling without replacement. Its work is bounded by the caps, not by the graph."""

import numpy as np

from ocgl.graph.hashing import _GOLDEN, below, mix, node_state
from ocgl.kernels import LINE, inlined, kernel, prefetch
from ocgl.types import AnyArray, FloatArray, IntArray, PositionArray

_AHEAD = 4
_MOST_ROOM = 1 << 17
_FEW_LINES = 128  # neighbours whose cache lines are fetched ahead; longer rows are read in a few places only


@inlined
def _doubled(array: AnyArray) -> AnyArray:
    grown = np.empty(2 * len(array), array.dtype)
    grown[: len(array)] = array
    return grown


@inlined
def _place(table: PositionArray, node: int) -> np.int64:
    """Find where the pair (node, local index) lies in the open-addressing table, or the free place for it."""
    mask = len(table) // 2 - 1
    slot = np.int64(mix(np.uint64(node)) & np.uint64(mask))
    while table[2 * slot] != -1 and table[2 * slot] != node:
        slot = (slot + 1) & mask
    return 2 * slot


@kernel
def _hashed(nodes: PositionArray, count: int, room: int) -> tuple[PositionArray, int]:
    """Map nodes to local indices in a table of at least twice the room; gives how many are distinct."""
    table = np.full(4 * room, -1, np.int32)
    distinct = 0
    for i in range(count):
        place = _place(table, nodes[i])
        distinct += table[place] == -1
        table[place], table[place + 1] = nodes[i], i
    return table, distinct


@inlined
def _room(seeds: int, fanouts: IntArray) -> int:
    """Give a power of two that holds what can be reached under the caps, but no more than is cheap to clear."""
    reached = bound = seeds
    for cap in fanouts:
        reached *= max(cap, 1)
        bound += reached
    room = 16
    while room < min(bound, _MOST_ROOM) or room < seeds:
        room *= 2
    return room


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
    heads: IntArray, pool: PositionArray, seeds: PositionArray, fanouts: IntArray, key: np.uint64
) -> tuple[PositionArray, IntArray, IntArray, PositionArray]:
    """Sample around distinct seeds (`sizes[0]` below their number tells that they were not).

    Every node first reached before the last hop is expanded once. Gives the nodes (seeds first, then hop by hop),
    the number of nodes within 0, 1, ..., L hops, and for each expanded node its sampled neighbours as CSR with
    local indices.
    """
    hops = len(fanouts)
    count = len(seeds)
    room = _room(count, fanouts)
    nodes = np.empty(room, np.int32)
    nodes[:count] = seeds
    table, distinct = _hashed(nodes, count, room)
    sizes = np.empty(hops + 1, np.int64)
    sizes[0] = distinct
    indptr = np.zeros(room + 1, np.int64)
    indices = np.empty(room, np.int32)
    edges = 0
    done = 0
    for hop in range(hops):
        cap = fanouts[hop]
        picks = np.empty(max(cap, 1), np.int64)
        for v in range(done, sizes[hop]):
            if v + 2 * _AHEAD < sizes[hop]:
                prefetch(heads.ravel(), 2 * nodes[v + 2 * _AHEAD])
            if v + _AHEAD < sizes[hop]:
                row, visible = heads[nodes[v + _AHEAD]]
                for line in range(row, row + min(visible, _FEW_LINES), LINE // 4):
                    prefetch(pool, line)
            node = nodes[v]
            row, visible = heads[node]
            take = visible if cap < 0 or visible <= cap else cap
            if take < visible:
                _draw(node_state(key, node, visible), visible, take, picks)
            while edges + take > len(indices):
                indices = _doubled(indices)
            if count + take > len(nodes):
                while count + take > len(nodes):
                    nodes = _doubled(nodes)
                table, _ = _hashed(nodes, count, len(nodes))
            for i in range(take):
                neighbor = pool[row + (i if take == visible else picks[i])]
                place = _place(table, neighbor)
                if table[place] == -1:
                    table[place], table[place + 1] = neighbor, count
                    nodes[count] = neighbor
                    count += 1
                indices[edges] = table[place + 1]
                edges += 1
            if v + 2 > len(indptr):
                indptr = _doubled(indptr)
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
