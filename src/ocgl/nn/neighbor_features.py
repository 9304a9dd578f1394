"""Fixed (untrained) features of a node's sampled neighbourhood, concatenated from parts."""

from collections.abc import Sequence
from functools import cached_property
from typing import cast

import numpy as np

from ocgl.errors import ConfigError, UnknownNameError
from ocgl.graph import Neighborhood
from ocgl.graph.features import dense
from ocgl.nn.propagate import propagate
from ocgl.rng import generator
from ocgl.types import FloatArray, Rows

HOPS = {"own": 0, "mean1": 1, "diff1": 1, "mean2": 2}
"""Known parts, and the number of hops that each one needs."""


class NeighborFeatures:
    """Concatenated features of a node v with features x_v and sampled neighbours N(v).

    - `own`: x_v.
    - `mean1`: mean of x_u over u in N(v), without v itself; zero for a node without neighbours.
    - `diff1`: own - mean1.
    - `mean2`: mean of mean1 over u in N(v).

    Args:
        parts: names joined by `+`, for example `own+mean1`.
        project: if positive, wider features are first multiplied by a random Gaussian matrix with this many columns.
            Sparse features stay sparse up to this product.
        seed: seed of the random matrix.

    >>> plain, projected = NeighborFeatures("own+mean1"), NeighborFeatures("own+mean1", project=100)
    >>> plain.hops, plain.width(767), projected.width(6805)
    (1, 1534, 200)
    """

    def __init__(self, parts: str, project: int = 0, seed: int = 0) -> None:
        self.parts = parts.split("+")
        for part in self.parts:
            if part not in HOPS:
                raise UnknownNameError("part of the neighbour features", part, HOPS)
        if len(set(self.parts)) < len(self.parts):
            raise ConfigError(f"a part occurs twice in {parts!r}; name each part once")
        self.project = project
        self.seed = seed
        self._matrix: FloatArray | None = None

    @cached_property
    def hops(self) -> int:
        """Number of hops that the neighbourhood must have."""
        return max(HOPS[part] for part in self.parts)

    def narrowed(self, width: int) -> int:
        """Return the width of one part, for input features of this width."""
        return self.project if 0 < self.project < width else width

    def sums_rows(self, width: int) -> bool:
        """Return whether features of this width are summed over neighbours without a projection."""
        return self.hops > 0 and self.narrowed(width) == width

    def width(self, width: int) -> int:
        """Return the total width of all parts, for input features of this width."""
        return len(self.parts) * self.narrowed(width)

    @property
    def nbytes(self) -> int:
        """Memory of the projection matrix in bytes."""
        return 0 if self._matrix is None else self._matrix.nbytes

    def encode(self, neighborhood: Neighborhood) -> FloatArray:
        """Return the features of the seeds, of shape [num_seeds, width].

        Args:
            neighborhood: sampled with `hops` hops and `norm="sum"`.
        """
        seeds = neighborhood.seeds
        if self.hops == 0:
            return self._narrow(neighborhood.own_rows())
        inner = neighborhood.sizes[self.hops - 1]
        if self.narrowed(neighborhood.width) < neighborhood.width:
            rows = self._narrow(neighborhood.rows())
            sums = propagate(rows, neighborhood.block(1))
        else:
            rows = dense(neighborhood.table.take(neighborhood.nodes[:inner]))
            sums = neighborhood.aggregated
        degree = np.maximum(neighborhood.counts(inner), 1).astype(np.float32)[:, None]
        means = (sums[:inner] - rows[:inner]) / degree
        found = {"own": rows[:seeds], "mean1": means[:seeds]}
        if "diff1" in self.parts:
            found["diff1"] = rows[:seeds] - means[:seeds]
        if "mean2" in self.parts:
            found["mean2"] = (propagate(means, neighborhood.block(2)) - means[:seeds]) / degree[:seeds]
        return _concatenated([found[part] for part in self.parts])

    def _narrow(self, rows: Rows) -> FloatArray:
        width = rows.shape[1]
        if self.narrowed(width) == width:
            return dense(rows)
        if self._matrix is None or len(self._matrix) != width:
            drawn = generator(self.seed, "projection").standard_normal((width, self.project), np.float32)
            self._matrix = drawn / np.float32(np.sqrt(self.project))
        return cast(FloatArray, np.ascontiguousarray(rows @ self._matrix, np.float32))


def _concatenated(parts: Sequence[FloatArray]) -> FloatArray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
