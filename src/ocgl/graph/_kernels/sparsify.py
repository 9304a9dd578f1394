"""Small random two-hop subgraphs around a node, for subgraph memories."""

from dataclasses import dataclass

import numpy as np

from ocgl.graph._kernels.hashing import node_state
from ocgl.graph._kernels.sampling import _draw
from ocgl.graph.neighbor_sampling import Cost, sample_bytes
from ocgl.graph.neighborhood import Neighborhood
from ocgl.kernels import inlined, kernel
from ocgl.types import BoolArray, IntArray, PositionArray

_PROBES = 32
"""Most entries that a binary search reads in a row of fewer than 2**31 neighbours."""


@dataclass(frozen=True, eq=False)
class Sparsified:
    """A subgraph around a centre node, and what it took to build it.

    Args:
        nodes: positions of the nodes, in order of hop; the centre is first.
        joined: symmetric adjacency matrix, of shape [num_nodes, num_nodes].
        ring: hop of each node: 0, 1 or 2.
        reads: number of neighbour ids read.
        rows: number of adjacency rows read.
    """

    nodes: PositionArray
    joined: BoolArray
    ring: PositionArray
    reads: int
    rows: int

    def cost(self, feature_bytes: int) -> Cost:
        """Return the cost of this subgraph, given the bytes of its features."""
        return Cost(len(self.nodes), self.reads, sample_bytes(feature_bytes, self.reads, self.rows))


def subgraph_bound(budget: tuple[int, int], row_bytes: int) -> Cost:
    """Return the highest cost of one subgraph in any graph.

    Args:
        budget: most first-hop and second-hop nodes.
        row_bytes: upper bound on the bytes of a feature row.
    """
    first, second = budget
    nodes = 1 + first + second
    pairs = nodes * (nodes - 1) // 2
    reads = first + first * second + _PROBES * pairs
    return Cost(nodes, reads, sample_bytes(nodes * row_bytes, reads, 1 + first + 2 * pairs))


@inlined
def _adjacent(heads: IntArray, pool: PositionArray, a: int, b: int) -> tuple[bool, int]:
    """Return whether a and b are adjacent, by binary search in the shorter row, and the number of entries read."""
    if heads[a, 1] > heads[b, 1]:
        a, b = b, a
    low, high = heads[a, 0], heads[a, 0] + heads[a, 1]
    end = high
    probes = 1 if low < high else 0
    while low < high:
        probes += 1
        middle = (low + high) // 2
        if pool[middle] < b:
            low = middle + 1
        else:
            high = middle
    return bool(low < end and pool[low] == b), probes


@inlined
def _drawn_neighbors(heads: IntArray, pool: PositionArray, node: int, most: int, key: np.uint64) -> PositionArray:
    """Return up to `most` distinct neighbours of a node, drawn uniformly."""
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
) -> tuple[PositionArray, BoolArray, int]:
    """Return the nodes (centre, first hop, second hop), their adjacency matrix, and the number of ids read."""
    near = _drawn_neighbors(heads, pool, centre, first, key)
    far = np.empty(len(near) * second, np.int32)
    count = 0
    reads = len(near)
    for v in near:
        drawn = _drawn_neighbors(heads, pool, v, second, key + np.uint64(1))
        reads += len(drawn)
        for u in drawn:
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
            adjacent, probes = _adjacent(heads, pool, nodes[i], nodes[j])
            joined[i, j] = joined[j, i] = adjacent
            reads += probes
    return nodes, joined, reads


def sparsify(arrays: tuple[IntArray, PositionArray], centre: int, budget: tuple[int, int], key: int) -> Sparsified:
    """Return a random two-hop subgraph around a node, with all edges among its nodes.

    Each first-hop node contributes at most `budget[1]` candidates for the second hop, so that a hub costs no more than
    any other node.

    Args:
        arrays: heads and pool of an adjacency with sorted rows.
        centre: position of the centre.
        budget: most first-hop nodes, and most second-hop nodes in total.
        key: key of the random draws.
    """
    nodes, joined, reads = _sparsify(*arrays, centre, *budget, np.uint64(key))
    near = min(int(arrays[0][centre, 1]), budget[0])
    rows = 1 + near + len(nodes) * (len(nodes) - 1)
    ring = np.full(len(nodes), 2, np.int32)
    ring[joined[0]] = 1
    ring[0] = 0
    order = np.argsort(ring, kind="stable")
    return Sparsified(nodes[order], joined[np.ix_(order, order)], ring[order], reads, rows)


def local_adjacency(neighborhood: Neighborhood) -> tuple[IntArray, PositionArray]:
    """Return the sampled edges as an undirected adjacency (heads and pool) over the neighbourhood's local indices."""
    target = np.repeat(np.arange(len(neighborhood.indptr) - 1), np.diff(neighborhood.indptr))
    ends = np.concatenate([[target, neighborhood.indices], [neighborhood.indices, target]], axis=1)
    pairs = np.unique(ends, axis=1)
    degree = np.bincount(pairs[0], minlength=len(neighborhood.nodes))
    heads = np.stack([np.cumsum(degree) - degree, degree], axis=1)
    return heads.astype(np.int64), pairs[1].astype(np.int32)
