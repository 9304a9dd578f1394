"""A reservoir of nodes to sample again, each with the features that were last learned of it."""

import numpy as np

from ocgl.buffers.reservoir import Reservoir
from ocgl.rng import generator
from ocgl.state import State
from ocgl.types import AnyArray, FloatArray, IntArray


class RevisitBuffer:
    """Keeps positions, labels and last features of a uniform sample of the nodes it was offered; visits them in turn.

    A node that is removed from the graph leaves: its slot is empty (position -1) until another node takes it.

    >>> buffer = RevisitBuffer(2, 1, seed=0)
    >>> buffer.offer(np.array([7, 8]), np.ones((2, 1), np.float32), np.array([0, 1]))
    >>> buffer.positions[buffer.turn(3)].tolist(), buffer.positions[buffer.turn(1)].tolist()
    ([7, 8], [7])
    """

    def __init__(self, capacity: int, width: int, seed: int) -> None:
        self._slots = Reservoir(capacity, generator(seed, "buffer"))
        self._next = 0
        self.positions: IntArray = np.zeros(capacity, np.int64)
        self.labels: IntArray = np.zeros(capacity, np.int64)
        self.rows: FloatArray = np.zeros((capacity, width), np.float32)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def nodes(self) -> int:
        """Number of nodes held."""
        return int((self.positions[: len(self)] >= 0).sum())

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.positions.nbytes + self.labels.nbytes + self.rows.nbytes

    def offer(self, positions: IntArray, rows: FloatArray, labels: IntArray) -> None:
        """Offer each node once."""
        slots = self._slots.offer(len(positions))
        for item in np.nonzero(slots >= 0)[0]:  # one by one: a later item may take an earlier one's slot
            slot = slots[item]
            self.positions[slot], self.labels[slot], self.rows[slot] = positions[item], labels[item], rows[item]

    def turn(self, count: int) -> IntArray:
        """Return the next slots in turn, each at most once."""
        held = len(self)
        slots = (self._next + np.arange(min(count, held))) % max(held, 1)
        self._next = int(self._next + len(slots)) % max(held, 1)
        return slots

    def empty(self, slots: IntArray) -> None:
        """Forget the nodes in these slots."""
        self.positions[slots], self.labels[slots], self.rows[slots] = -1, 0, 0

    def state(self) -> State:
        """Return the nodes in use and the slot whose turn it is."""
        used = len(self)
        arrays: dict[str, AnyArray] = {"positions": self.positions[:used].copy(), "labels": self.labels[:used].copy()}
        state = State(arrays | {"rows": self.rows[:used].copy()}, {"next": self._next})
        return state.include("slots", self._slots.state())

    def load_state(self, state: State) -> None:
        """Take nodes and the slot whose turn it is."""
        self._slots.load_state(state.part("slots"))
        self._next = int(state.facts["next"])
        for name in ("positions", "labels", "rows"):
            getattr(self, name)[: len(self)] = state.arrays[name]
