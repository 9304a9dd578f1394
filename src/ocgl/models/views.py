"""What a closed-form learner sees of a node: fixed features of its bounded neighbourhood, put together from parts."""

from collections.abc import Sequence
from functools import cached_property
from typing import cast

import numpy as np

from ocgl.errors import ConfigError, UnknownNameError
from ocgl.graph import Neighborhood
from ocgl.graph.features import dense
from ocgl.models.propagate import propagate
from ocgl.rng import generator
from ocgl.types import FloatArray, Rows

HOPS = {"own": 0, "mean1": 1, "diff1": 1, "mean2": 2}
"""The parts, and how far each looks."""


class View:
    """Features side by side: `own` row, mean over sampled neighbours (`mean1`), over theirs (`mean2`), `diff1`.

    `mean1` leaves the node itself out (a node without neighbours has zeros), `diff1` is own minus mean1, `mean2` is the
    mean over the neighbours of their mean1. Rows wider than `project` are first multiplied by a seeded Gaussian matrix
    of that width; sparse rows stay sparse until then.

    >>> View("own+mean1").hops, View("own+mean1").width(767), View("own+mean1", project=100).width(6805)
    (1, 1534, 200)
    """

    def __init__(self, parts: str, project: int = 0, seed: int = 0) -> None:
        self.parts = parts.split("+")
        for part in self.parts:
            if part not in HOPS:
                raise UnknownNameError("part of a view", part, HOPS)
        if len(set(self.parts)) < len(self.parts):
            raise ConfigError(f"a part is named twice in {parts!r}")
        self.project = project
        self.seed = seed
        self._matrix: FloatArray | None = None

    @cached_property
    def hops(self) -> int:
        """How far the farthest part looks."""
        return max(HOPS[part] for part in self.parts)

    def narrowed(self, width: int) -> int:
        """Give the width of one part."""
        return self.project if 0 < self.project < width else width

    def width(self, width: int) -> int:
        """Give the width of the view of features of some width."""
        return len(self.parts) * self.narrowed(width)

    @property
    def nbytes(self) -> int:
        """Bytes of the projection."""
        return 0 if self._matrix is None else self._matrix.nbytes

    def encode(self, seen: Neighborhood) -> FloatArray:
        """Give the features of the nodes looked at; the look has as many hops as the view, and no weights."""
        seeds = seen.seeds
        if self.hops == 0:
            return self._narrow(seen.own_rows())
        inner = seen.sizes[self.hops - 1]
        if self.narrowed(seen.width) < seen.width:
            rows = self._narrow(seen.rows())
            sums = propagate(rows, seen.block(1))
        else:
            rows = dense(seen.table.take(seen.nodes[:inner]))
            sums = seen.aggregated
        degree = np.maximum(seen.counts(inner), 1).astype(np.float32)[:, None]
        means = (sums[:inner] - rows[:inner]) / degree
        found = {"own": rows[:seeds], "mean1": means[:seeds]}
        if "diff1" in self.parts:
            found["diff1"] = rows[:seeds] - means[:seeds]
        if "mean2" in self.parts:
            found["mean2"] = (propagate(means, seen.block(2)) - means[:seeds]) / degree[:seeds]
        return _beside([found[part] for part in self.parts])

    def _narrow(self, rows: Rows) -> FloatArray:
        width = rows.shape[1]
        if self.narrowed(width) == width:
            return dense(rows)
        if self._matrix is None or len(self._matrix) != width:
            drawn = generator(self.seed, "projection").standard_normal((width, self.project), np.float32)
            self._matrix = drawn / np.float32(np.sqrt(self.project))
        return cast(FloatArray, np.ascontiguousarray(rows @ self._matrix, np.float32))


def _beside(parts: Sequence[FloatArray]) -> FloatArray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
