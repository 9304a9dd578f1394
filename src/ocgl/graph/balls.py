"""Sizes of full neighbourhoods: what the cap saves a learner from."""

import numpy as np

from ocgl.kernels import kernel
from ocgl.types import IntArray, PositionArray


@kernel
def ball_sizes(
    heads: IntArray,
    pool: PositionArray,
    seeds: PositionArray,
    hops: int,
    stamps: IntArray,
    stamp: int,
) -> IntArray:
    """Count the nodes within 1, ..., `hops` hops of the seeds, the seeds included.

    `stamps` (one per node) marks what was visited with `stamp`, which must be new to it.
    """
    found = np.empty(len(stamps), np.int32)
    count = 0
    for seed in seeds:
        if stamps[seed] != stamp:
            stamps[seed] = stamp
            found[count] = seed
            count += 1
    sizes = np.empty(hops, np.int64)
    done = 0
    for hop in range(hops):
        end = count
        for i in range(done, end):
            row, degree = heads[found[i]]
            for e in range(row, row + degree):
                neighbor = pool[e]
                if stamps[neighbor] != stamp:
                    stamps[neighbor] = stamp
                    found[count] = neighbor
                    count += 1
        done = end
        sizes[hop] = count
    return sizes
