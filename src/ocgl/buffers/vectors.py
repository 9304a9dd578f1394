"""A reservoir of labelled vectors."""

import numpy as np

from ocgl.buffers.reservoir import Reservoir, Sampling
from ocgl.rng import generator, restore, state_of
from ocgl.state import State
from ocgl.types import AnyArray, FloatArray, IntArray


class VectorBuffer:
    """Keeps (z, y) of a uniform sample of the vectors it was offered, each as it was when it came.

    Args:
        capacity: how many vectors fit.
        width: length of a vector.
        seed: seed of the reservoir and of the draws.
        sampling: how the reservoir decides.
    """

    def __init__(self, capacity: int, width: int, seed: int, sampling: Sampling = "uniform") -> None:
        self._slots = Reservoir(capacity, generator(seed, "buffer"), sampling)
        self._draws = generator(seed, "replay")
        self._vectors = np.zeros((capacity, width), np.float32)
        self._labels = np.zeros(capacity, np.int64)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def nodes(self) -> int:
        """Number of nodes held."""
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

    def draw(self, count: int) -> tuple[FloatArray, IntArray]:
        """Draw up to `count` distinct vectors uniformly, with their labels."""
        slots = self._slots.draw(count, self._draws)
        return self._vectors[slots], self._labels[slots]

    def state(self) -> State:
        """Return the vectors in use and the generators."""
        used = len(self)
        arrays: dict[str, AnyArray] = {"vectors": self._vectors[:used].copy(), "labels": self._labels[:used].copy()}
        return State(arrays, {"draws": state_of(self._draws)}).include("slots", self._slots.state())

    def load_state(self, state: State) -> None:
        """Take vectors and generators."""
        self._slots.load_state(state.part("slots"))
        restore(self._draws, state.facts["draws"])
        self._vectors[: len(self)] = state.arrays["vectors"]
        self._labels[: len(self)] = state.arrays["labels"]
