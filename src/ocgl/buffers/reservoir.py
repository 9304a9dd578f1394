"""Vitter's Algorithm R: a uniform sample of everything offered so far, in a fixed number of slots."""

import numpy as np

from ocgl.rng import restore, state_of
from ocgl.state import State
from ocgl.types import IntArray


class Reservoir:
    """Decides which slot an offered item gets; what an item is, the buffer built on it knows.

    >>> Reservoir(2, np.random.default_rng(0)).offer(2).tolist()
    [0, 1]
    """

    def __init__(self, capacity: int, rng: np.random.Generator) -> None:
        self.capacity = capacity
        self.offered = 0
        self._rng = rng

    def __len__(self) -> int:
        return min(self.offered, self.capacity)

    def offer(self, count: int) -> IntArray:
        """Give the slots for that many more items, in order; -1 for one that is not kept.

        The n-th item offered goes to the next free slot, or to slot j drawn from 0..n-1 if j is a slot.
        """
        place = np.arange(self.offered, self.offered + count)
        self.offered += count
        late = np.nonzero(place >= self.capacity)[0]
        if len(late):
            place[late] = self._rng.integers(place[late] + 1)
        return np.where(place < self.capacity, place, -1)

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
