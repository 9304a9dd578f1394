"""Reservoir sampling (Vitter's Algorithm R): a uniform sample of all items offered so far."""

from typing import Literal

import numpy as np

from ocgl.rng import restore, state_of
from ocgl.state import State
from ocgl.types import IntArray

Sampling = Literal["uniform", "off_by_one"]
"""How a reservoir decides: item n replaces slot j, drawn from 0..n-1, or (by an off-by-one error) from 0..n-2."""


class Reservoir:
    """Assigns offered items to slots. It stores no items; the buffer that uses it does.

    Args:
        capacity: number of slots.
        rng: generator of the slots.
        sampling: `uniform` keeps every item with the same probability; `off_by_one` keeps late ones slightly more
            often, as code that draws from one number too few does.

    >>> Reservoir(2, np.random.default_rng(0)).offer(2).tolist()
    [0, 1]
    """

    def __init__(self, capacity: int, rng: np.random.Generator, sampling: Sampling = "uniform") -> None:
        self.capacity = capacity
        self._drawn_from = 1 if sampling == "uniform" else 0
        self.offered = 0
        self._rng = rng

    def __len__(self) -> int:
        return min(self.offered, self.capacity)

    def offer(self, count: int) -> IntArray:
        """Return the slot of each of the next `count` items, in order; -1 for an item that is not stored.

        Item n (from 1) fills slot n - 1 while there are free slots; later, j is drawn from 0..n-1, and the item
        replaces the one in slot j if j < capacity (with `off_by_one`, j is drawn from 0..n-2).
        """
        slots = np.arange(self.offered, self.offered + count)
        self.offered += count
        late = np.nonzero(slots >= self.capacity)[0]
        if len(late):
            slots[late] = self._rng.integers(np.maximum(slots[late] + self._drawn_from, 1))
        return np.where(slots < self.capacity, slots, -1)

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Draw up to `count` distinct filled slots, uniformly without replacement."""
        return rng.choice(len(self), size=min(count, len(self)), replace=False, shuffle=False).astype(np.int64)

    def state(self) -> State:
        """Return the number of offered items and the state of the generator."""
        return State({}, {"offered": self.offered, "rng": state_of(self._rng)})

    def load_state(self, state: State) -> None:
        """Restore the number of offered items and the state of the generator."""
        self.offered = int(state.facts["offered"])
        restore(self._rng, state.facts["rng"])
