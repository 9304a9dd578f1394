"""Running standardisation of features, and random ReLU features."""

import numpy as np

from ocgl.rng import generator
from ocgl.state import State
from ocgl.types import DoubleArray, FloatArray


class RunningScale:
    """Running mean and standard deviation of each feature.

    Args:
        width: number of features.

    >>> scale = RunningScale(1)
    >>> scale.observe(np.array([[1.0], [3.0]], np.float32))
    >>> scale.apply(np.array([[3.0]], np.float32)).tolist()
    [[1.0]]
    """

    def __init__(self, width: int) -> None:
        self._count = 0
        self._mean: DoubleArray = np.zeros(width)
        self._squares: DoubleArray = np.zeros(width)  # sum of squared deviations from the mean

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self._mean.nbytes + self._squares.nbytes

    def observe(self, rows: FloatArray) -> None:
        """Update the mean and deviation with rows (Chan et al.'s parallel update, exact for any batch size)."""
        count, mean = len(rows), rows.mean(0, dtype=np.float64)
        delta = mean - self._mean
        total = self._count + count
        self._squares += np.square(rows - mean).sum(0) + delta**2 * (self._count * count / total)
        self._mean = self._mean + delta * (count / total)
        self._count = total

    def apply(self, rows: FloatArray) -> FloatArray:
        """Return the standardised rows; a constant feature becomes zero."""
        deviation = np.sqrt(self._squares / max(self._count, 1))
        inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 1e-9)
        scaled: FloatArray = ((rows - self._mean) * inverse).astype(np.float32)
        return scaled

    def state(self) -> State:
        """Return the count, the mean and the squared deviations."""
        return State({"mean": self._mean.copy(), "squares": self._squares.copy()}, {"count": self._count})

    def load_state(self, state: State) -> None:
        """Restore the count, the mean and the squared deviations."""
        self._count = int(state.facts["count"])
        self._mean, self._squares = np.array(state.arrays["mean"]), np.array(state.arrays["squares"])


class RandomFeatures:
    """Random ReLU features max(z W, 0), with a fixed Gaussian W. The entries of z should have unit scale.

    Args:
        width: number of entries of z.
        units: number of random features.
        seed: seed of W.
    """

    def __init__(self, width: int, units: int, seed: int) -> None:
        drawn = generator(seed, "relu").standard_normal((width, units), np.float32)
        self._weight: FloatArray = drawn / np.float32(np.sqrt(width))

    @property
    def nbytes(self) -> int:
        """Memory of W in bytes."""
        return self._weight.nbytes

    def beside(self, z: FloatArray) -> FloatArray:
        """Return [z, max(z W, 0)], of shape [num_rows, width + units]."""
        return np.concatenate([z, np.maximum(z @ self._weight, 0)], axis=1)
