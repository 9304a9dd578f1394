"""Running standardisation, and random features on top of it."""

import numpy as np

from ocgl.rng import generator
from ocgl.state import State
from ocgl.types import DoubleArray, FloatArray


class RunningScale:
    """Mean and deviation of every feature over the rows seen so far.

    >>> scale = RunningScale(1)
    >>> scale.observe(np.array([[1.0], [3.0]], np.float32))
    >>> scale.apply(np.array([[3.0]], np.float32)).tolist()
    [[1.0]]
    """

    def __init__(self, width: int) -> None:
        self._count = 0
        self._mean: DoubleArray = np.zeros(width)
        self._squares: DoubleArray = np.zeros(width)  # of the distances from the mean

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._mean.nbytes + self._squares.nbytes

    def observe(self, rows: FloatArray) -> None:
        """Take rows into account (Chan's update: exact, whatever the batches)."""
        count, mean = len(rows), rows.mean(0, dtype=np.float64)
        away = mean - self._mean
        total = self._count + count
        self._squares += np.square(rows - mean).sum(0) + away**2 * (self._count * count / total)
        self._mean = self._mean + away * (count / total)
        self._count = total

    def apply(self, rows: FloatArray) -> FloatArray:
        """Subtract the mean and divide by the deviation; a feature that does not vary becomes zero."""
        deviation = np.sqrt(self._squares / max(self._count, 1))
        turned = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 1e-9)
        scaled: FloatArray = ((rows - self._mean) * turned).astype(np.float32)
        return scaled

    def state(self) -> State:
        """Give count, mean and squares."""
        return State({"mean": self._mean.copy(), "squares": self._squares.copy()}, {"count": self._count})

    def load_state(self, state: State) -> None:
        """Take count, mean and squares."""
        self._count = int(state.facts["count"])
        self._mean, self._squares = np.array(state.arrays["mean"]), np.array(state.arrays["squares"])


def random_units(width: int, units: int, seed: int) -> FloatArray:
    """Draw the weights of random ReLU features (width x units) for rows of entries about one in size."""
    drawn = generator(seed, "relu").standard_normal((width, units), np.float32)
    return drawn / np.float32(np.sqrt(width))
