"""Small random two-hop subgraphs around a node, for subgraph memories."""

from dataclasses import dataclass

import numpy as np

from ocgl.graph._kernels.hashing import node_state
from ocgl.graph._kernels.rows import place_of
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
        joined: adjacency matrix, of shape [num_nodes, num_nodes]; row i has the nodes that i receives from.
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
    place, probes = place_of(heads, pool, a, b)
    return bool(place >= 0), probes


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


@inlined
def _chosen(
    heads: IntArray, pool: PositionArray, centre: int, first: int, second: int, key: np.uint64
) -> tuple[PositionArray, int]:
    """Return the nodes (centre, first hop, second hop), and the number of ids read."""
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
    return nodes, reads


@kernel
def _sparsify(
    heads: IntArray, pool: PositionArray, centre: int, first: int, second: int, key: np.uint64
) -> tuple[PositionArray, BoolArray, int]:
    """Return the nodes (centre, first hop, second hop), their adjacency matrix, and the number of ids read."""
    nodes, reads = _chosen(heads, pool, centre, first, second, key)
    joined = np.zeros((len(nodes), len(nodes)), np.bool_)
    for i in range(len(nodes)):
        for j in range(i):
            adjacent, probes = _adjacent(heads, pool, nodes[i], nodes[j])
            joined[i, j] = joined[j, i] = adjacent
            reads += probes
    return nodes, joined, reads


@kernel
def _sparsify_sample(
    heads: IntArray, indices: PositionArray, centre: int, first: int, second: int, key: np.uint64
) -> tuple[PositionArray, BoolArray]:
    """Return the nodes (centre, first hop, second hop) and the sampled edges among them ([i, j]: i receives from j)."""
    nodes, _ = _chosen(heads, indices, centre, first, second, key)
    joined = np.zeros((len(nodes), len(nodes)), np.bool_)
    for i in range(len(nodes)):
        start, degree = heads[nodes[i]]
        for edge in range(start, start + degree):
            for j in range(len(nodes)):
                if nodes[j] == indices[edge]:
                    joined[i, j] = True
    return nodes, joined


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
    return _ordered(nodes, joined, reads, rows)


def sparsify_sample(neighborhood: Neighborhood, seed: int, budget: tuple[int, int], key: int) -> Sparsified:
    """Return a random two-hop subgraph around a seed, cut out of a sampled neighbourhood: sampled edges only.

    An edge has the direction in which it was sampled: [i, j] of `joined` says that i receives from j. Nodes are given
    as indices into the neighbourhood. Nothing is read from a store.

    Args:
        neighborhood: the sampled neighbourhood.
        seed: index of the seed.
        budget: most first-hop nodes, and most second-hop nodes in total.
        key: key of the random draws.
    """
    heads = np.zeros((len(neighborhood.nodes), 2), np.int64)
    heads[: len(neighborhood.indptr) - 1, 0] = neighborhood.indptr[:-1]
    heads[: len(neighborhood.indptr) - 1, 1] = np.diff(neighborhood.indptr)
    nodes, joined = _sparsify_sample(heads, neighborhood.indices, seed, *budget, np.uint64(key))
    return _ordered(nodes, joined, 0, 0)


def _ordered(nodes: PositionArray, joined: BoolArray, reads: int, rows: int) -> Sparsified:
    """Put the nodes in order of their distance from the first: a second-hop node may be a neighbour of the centre."""
    ring = np.full(len(nodes), 2, np.int32)
    ring[joined[0]] = 1
    ring[0] = 0
    order = np.argsort(ring, kind="stable")
    return Sparsified(nodes[order], joined[np.ix_(order, order)], ring[order], reads, rows)
