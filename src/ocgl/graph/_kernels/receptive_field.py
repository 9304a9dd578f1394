"""Sizes of full neighbourhoods, without a fan-out."""

import numpy as np

from ocgl.kernels import kernel
from ocgl.types import IntArray, PositionArray


@kernel
def receptive_field_sizes(
    heads: IntArray,
    pool: PositionArray,
    seeds: PositionArray,
    hops: int,
    stamps: IntArray,
    stamp: int,
) -> IntArray:
    """Return the number of nodes within 1, ..., `hops` hops of the seeds, including the seeds.

    Args:
        heads: row start and degree of each node, of shape [num_nodes, 2].
        pool: the rows of neighbours.
        seeds: positions of the seeds.
        hops: number of hops.
        stamps: one entry per node; visited nodes are set to `stamp`.
        stamp: a value that does not occur in `stamps`.
    """
    visited = np.empty(len(stamps), np.int32)
    count = 0
    for seed in seeds:
        if stamps[seed] != stamp:
            stamps[seed] = stamp
            visited[count] = seed
            count += 1
    sizes = np.empty(hops, np.int64)
    done = 0
    for hop in range(hops):
        end = count
        for i in range(done, end):
            row, degree = heads[visited[i]]
            for e in range(row, row + degree):
                neighbor = pool[e]
                if stamps[neighbor] != stamp:
                    stamps[neighbor] = stamp
                    visited[count] = neighbor
                    count += 1
        done = end
        sizes[hop] = count
    return sizes
