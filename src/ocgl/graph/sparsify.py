"""Small fixed subgraphs around a node, for memories: some neighbours, some of theirs, and the edges among them."""

from dataclasses import dataclass

import numpy as np

from ocgl.graph.hashing import node_state
from ocgl.graph.neighborhood import Neighborhood
from ocgl.graph.sampling import _draw
from ocgl.kernels import inlined, kernel
from ocgl.types import BoolArray, IntArray, PositionArray


@dataclass(frozen=True, eq=False)
class Sparsified:
    """Nodes in order of their distance from the centre (the first), which edges join them, and those distances."""

    nodes: PositionArray
    joined: BoolArray
    ring: PositionArray


@inlined
def _adjacent(heads: IntArray, pool: PositionArray, a: int, b: int) -> bool:
    """Look b up in the sorted row of a, or the other way round, whichever row is shorter."""
    if heads[a, 1] > heads[b, 1]:
        a, b = b, a
    low, high = heads[a, 0], heads[a, 0] + heads[a, 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if pool[middle] < b:
            low = middle + 1
        else:
            high = middle
    return bool(low < end and pool[low] == b)


@inlined
def _some(heads: IntArray, pool: PositionArray, node: int, most: int, key: np.uint64) -> PositionArray:
    """Draw at most `most` distinct neighbours of a node."""
    start, degree = heads[node]
    if degree <= most:
        return pool[start : start + degree].copy()
    picks = np.empty(most, np.int64)
    _draw(node_state(key, node, degree), degree, most, picks)
    drawn: PositionArray = pool[start + picks]
    return drawn


@kernel
def _sparsify(
    heads: IntArray, pool: PositionArray, centre: int, first: int, second: int, key: np.uint64
) -> tuple[PositionArray, BoolArray]:
    near = _some(heads, pool, centre, first, key)
    far = np.empty(len(near) * second, np.int32)
    count = 0
    for v in near:
        for u in _some(heads, pool, v, second, key + np.uint64(1)):
            if u != centre and not (near == u).any() and not (far[:count] == u).any():
                far[count] = u
                count += 1
    if count > second:
        picks = np.empty(second, np.int64)
        _draw(node_state(key + np.uint64(2), centre, count), count, second, picks)
        far = far[picks]
        count = second
    nodes = np.empty(1 + len(near) + count, np.int32)
    nodes[0] = centre
    nodes[1 : 1 + len(near)] = near
    nodes[1 + len(near) :] = far[:count]
    joined = np.zeros((len(nodes), len(nodes)), np.bool_)
    for i in range(len(nodes)):
        for j in range(i):
            joined[i, j] = joined[j, i] = _adjacent(heads, pool, nodes[i], nodes[j])
    return nodes, joined


def sparsify(arrays: tuple[IntArray, PositionArray], centre: int, budget: tuple[int, int], key: int) -> Sparsified:
    """Keep at most `budget` first-hop and second-hop nodes (the latter in total), uniformly, and all edges among them.

    `arrays` are an adjacency's heads and pool with sorted rows. At most `budget[1]` candidates are drawn per
    first-hop node before they are pooled, so that a hub costs no more than any other.
    """
    nodes, joined = _sparsify(*arrays, centre, *budget, np.uint64(key))
    ring = np.full(len(nodes), 2, np.int32)
    ring[joined[0]] = 1
    ring[0] = 0
    order = np.argsort(ring, kind="stable")
    return Sparsified(nodes[order], joined[np.ix_(order, order)], ring[order])


def local_adjacency(seen: Neighborhood) -> tuple[IntArray, PositionArray]:
    """Give the sampled edges of a look as the heads and pool of an undirected adjacency over its nodes."""
    target = np.repeat(np.arange(len(seen.indptr) - 1), np.diff(seen.indptr))
    ends = np.concatenate([[target, seen.indices], [seen.indices, target]], axis=1)
    pairs = np.unique(ends, axis=1)
    degree = np.bincount(pairs[0], minlength=len(seen.nodes))
    heads = np.stack([np.cumsum(degree) - degree, degree], axis=1)
    return heads.astype(np.int64), pairs[1].astype(np.int32)
