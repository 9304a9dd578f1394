"""Vitter's Algorithm R: a uniform sample of everything offered so far, in a fixed number of slots."""

import numpy as np

from ocgl.rng import restore, state_of
from ocgl.state import State
from ocgl.types import IntArray


class Reservoir:
    """Decides which slot an offered item gets; what an item is, the buffer built on it knows.

    >>> slots = Reservoir(2, np.random.default_rng(0))
    >>> [slots.offer(), slots.offer()]
    [0, 1]
    """

    def __init__(self, capacity: int, rng: np.random.Generator) -> None:
        self.capacity = capacity
        self.offered = 0
        self._rng = rng

    def __len__(self) -> int:
        return min(self.offered, self.capacity)

    def offer(self) -> int | None:
        """Give the slot for one more item, or None when it is not kept."""
        self.offered += 1
        if self.offered <= self.capacity:
            return self.offered - 1
        slot = int(self._rng.integers(self.offered)) if self.capacity else 0
        return slot if slot < self.capacity else None

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Give up to `count` distinct filled slots, uniformly."""
        return rng.choice(len(self), size=min(count, len(self)), replace=False, shuffle=False).astype(np.int64)

    def state(self) -> State:
        """Give the count and the generator."""
        return State({}, {"offered": self.offered, "rng": state_of(self._rng)})

    def load_state(self, state: State) -> None:
        """Take the count and the generator."""
        self.offered = int(state.facts["offered"])
        restore(self._rng, state.facts["rng"])
