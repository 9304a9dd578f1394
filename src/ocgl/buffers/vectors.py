"""A reservoir of labelled feature vectors."""

import numpy as np

from ocgl.buffers.reservoir import Reservoir
from ocgl.state import State
from ocgl.types import AnyArray, FloatArray, IntArray


class VectorBuffer:
    """Keeps (z, y) of a uniform sample of the nodes offered, each as it was when offered."""

    def __init__(self, capacity: int, width: int, rng: np.random.Generator) -> None:
        self._slots = Reservoir(capacity, rng)
        self._vectors = np.zeros((capacity, width), np.float32)
        self._labels = np.zeros(capacity, np.int64)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def nodes(self) -> int:
        """How many nodes are held."""
        return len(self)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._vectors.nbytes + self._labels.nbytes

    def offer(self, vectors: FloatArray, labels: IntArray) -> None:
        """Offer each vector once."""
        slots = self._slots.offer(len(labels))
        for item in np.nonzero(slots >= 0)[0]:  # one by one: a later item may take an earlier one's slot
            self._vectors[slots[item]] = vectors[item]
            self._labels[slots[item]] = labels[item]

    def draw(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Give up to `count` distinct items, uniformly."""
        slots = self._slots.draw(count, rng)
        return self._vectors[slots], self._labels[slots]

    def state(self) -> State:
        """Give the items in use and the reservoir's state."""
        used = len(self)
        arrays: dict[str, AnyArray] = {"vectors": self._vectors[:used].copy(), "labels": self._labels[:used].copy()}
        return State(arrays).include("slots", self._slots.state())

    def load_state(self, state: State) -> None:
        """Take items and the reservoir's state."""
        self._slots.load_state(state.part("slots"))
        self._vectors[: len(self)] = state.arrays["vectors"]
        self._labels[: len(self)] = state.arrays["labels"]
