"""Breadth-first neighbour sampling without replacement. The fan-outs bound its work, not the size of the graph."""

import numpy as np

from ocgl.graph._kernels.hashing import _GOLDEN, below, mix, node_state
from ocgl.kernels import LINE, inlined, kernel, prefetch
from ocgl.types import AnyArray, FloatArray, IntArray, PositionArray

_AHEAD = 4
_MAX_CAPACITY = 1 << 17
_FEW_LINES = 128  # neighbours to prefetch per row; a sample reads only a few entries of a longer row


@inlined
def _doubled(array: AnyArray) -> AnyArray:
    grown = np.empty(2 * len(array), array.dtype)
    grown[: len(array)] = array
    return grown


@inlined
def _entry(table: PositionArray, node: int) -> np.int64:
    """Return the index of the pair (node, local index) in the hash table, or the free index where to insert it."""
    mask = len(table) // 2 - 1
    slot = np.int64(mix(np.uint64(node)) & np.uint64(mask))
    while table[2 * slot] != -1 and table[2 * slot] != node:
        slot = (slot + 1) & mask
    return 2 * slot


@kernel
def _hashed(nodes: PositionArray, count: int, capacity: int) -> tuple[PositionArray, int]:
    """Return a hash table from nodes to local indices with 2 * `capacity` slots, and the number of distinct nodes."""
    table = np.full(4 * capacity, -1, np.int32)
    distinct = 0
    for i in range(count):
        entry = _entry(table, nodes[i])
        distinct += table[entry] == -1
        table[entry], table[entry + 1] = nodes[i], i
    return table, distinct


@inlined
def _capacity(seeds: int, fanouts: IntArray) -> int:
    """Return a power of two that covers the nodes a sample can reach, limited to what is cheap to clear."""
    reached = bound = seeds
    for cap in fanouts:
        reached *= max(cap, 1)
        bound += reached
    capacity = 16
    while capacity < min(bound, _MAX_CAPACITY) or capacity < seeds:
        capacity *= 2
    return capacity


@inlined
def _draw(state: np.uint64, degree: int, cap: int, picks: IntArray) -> None:
    """Write to `picks` a uniform sample of `cap` distinct integers below `degree` (Floyd's algorithm)."""
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
    """Sample the neighbourhood of distinct seeds. Every node reached before the last hop is expanded once.

    Args:
        heads: row start and degree of each node, of shape [num_nodes, 2].
        pool: the rows of neighbours.
        seeds: positions of the seeds.
        fanouts: most neighbours per node at each hop, -1 for all.
        key: key of the random draws.

    Returns:
        The nodes, ordered by hop with the seeds first; the number of nodes within 0, 1, ..., L hops (the first one is
        below the number of seeds if those were not distinct); and the row starts and indices of a CSR with the
        sampled neighbours of each expanded node, as local indices.
    """
    hops = len(fanouts)
    count = len(seeds)
    capacity = _capacity(count, fanouts)
    nodes = np.empty(capacity, np.int32)
    nodes[:count] = seeds
    table, distinct = _hashed(nodes, count, capacity)
    sizes = np.empty(hops + 1, np.int64)
    sizes[0] = distinct
    indptr = np.zeros(capacity + 1, np.int64)
    indices = np.empty(capacity, np.int32)
    edges = 0
    done = 0
    for hop in range(hops):
        cap = fanouts[hop]
        picks = np.empty(max(cap, 1), np.int64)
        for v in range(done, sizes[hop]):
            if v + 2 * _AHEAD < sizes[hop]:
                prefetch(heads.ravel(), 2 * nodes[v + 2 * _AHEAD])
            if v + _AHEAD < sizes[hop]:
                row, degree = heads[nodes[v + _AHEAD]]
                for line in range(row, row + min(degree, _FEW_LINES), LINE // 4):
                    prefetch(pool, line)
            node = nodes[v]
            row, degree = heads[node]
            take = degree if cap < 0 or degree <= cap else cap
            if take < degree:
                _draw(node_state(key, node, degree), degree, take, picks)
            while edges + take > len(indices):
                indices = _doubled(indices)
            if count + take > len(nodes):
                while count + take > len(nodes):
                    nodes = _doubled(nodes)
                table, _ = _hashed(nodes, count, len(nodes))
            for i in range(take):
                neighbor = pool[row + (i if take == degree else picks[i])]
                entry = _entry(table, neighbor)
                if table[entry] == -1:
                    table[entry], table[entry + 1] = neighbor, count
                    nodes[count] = neighbor
                    count += 1
                indices[edges] = table[entry + 1]
                edges += 1
            if v + 2 > len(indptr):
                indptr = _doubled(indptr)
            indptr[v + 1] = edges
        done = sizes[hop]
        sizes[hop + 1] = count
    return nodes[:count].copy(), sizes, indptr[: done + 1].copy(), indices[:edges].copy()


@kernel
def sym_weights(indptr: IntArray, indices: PositionArray, degrees: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the weights 1 / sqrt(d_u d_v) of each sampled edge u -> v, and 1 / d_v of the self-loop of v."""
    edge_weight = np.empty(len(indices), np.float32)
    self_weight = np.empty(len(indptr) - 1, np.float32)
    for v in range(len(self_weight)):
        self_weight[v] = 1.0 / degrees[v]
        for e in range(indptr[v], indptr[v + 1]):
            edge_weight[e] = 1.0 / np.sqrt(np.float64(degrees[v]) * degrees[indices[e]])
    return edge_weight, self_weight


@kernel
def mean_weights(indptr: IntArray, degrees: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the weights 1 / d_v of each sampled edge u -> v, and of the self-loop of v."""
    edge_weight = np.empty(indptr[-1], np.float32)
    self_weight = np.empty(len(indptr) - 1, np.float32)
    for v in range(len(self_weight)):
        self_weight[v] = 1.0 / degrees[v]
        edge_weight[indptr[v] : indptr[v + 1]] = self_weight[v]
    return edge_weight, self_weight
