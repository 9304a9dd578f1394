"""Running sums of labelled rows: all that a linear-Gaussian classifier needs, in any order, without drift."""

import numpy as np
from scipy.linalg import blas

from ocgl.errors import StateError, WrongWidthError
from ocgl.state import State
from ocgl.types import AnyArray, DoubleArray, FloatArray, IntArray

PENDING = 256
"""Rows kept aside before they are added to the matrix of second moments in one product."""


class _Waiting:
    """Rows that wait to be added to a matrix of second moments, or to be taken from it, in one product."""

    def __init__(self, width: int, sign: float) -> None:
        self._sign = sign
        self._block: DoubleArray = np.empty((PENDING, width))
        self._count = 0

    @property
    def rows(self) -> DoubleArray:
        return self._block[: self._count]

    @property
    def nbytes(self) -> int:
        return self._block.nbytes

    def put(self, rows: AnyArray, second: DoubleArray) -> DoubleArray:
        """Let rows wait; gives the matrix, with what waited before if there is no room for both."""
        for begin in range(0, len(rows), PENDING):
            part = rows[begin : begin + PENDING]
            if self._count + len(part) > PENDING:
                second = self.counted(second, overwrite=True)
                self._count = 0
            self._block[self._count : self._count + len(part)] = part
            self._count += len(part)
        return second

    def counted(self, second: DoubleArray, overwrite: bool) -> DoubleArray:
        """Give the matrix with what waits; it may be the same one if it may be overwritten or nothing waits."""
        if not self._count:
            return second
        found: DoubleArray = blas.dsyrk(self._sign, self.rows.T, 1.0, second, lower=1, overwrite_c=overwrite)
        return found


class Moments:
    """Per class the number and the sum of its rows, over all classes the sum of z z^T; in double precision.

    Sums do not depend on the order of the rows (but for rounding), two halves of a stream add up to the whole, and
    what was added can be taken back.

    >>> moments = Moments(2)
    >>> moments.add(np.array([[1.0, 0.0], [3.0, 0.0]], np.float32), np.array([5, 5]))
    >>> moments.labels, moments.counts.tolist(), moments.means.tolist()
    ([5], [2.0], [[2.0, 0.0]])
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.labels: list[int] = []
        self.version = 0
        self._counts: DoubleArray = np.zeros(0)
        self._sums: DoubleArray = np.zeros((0, width))
        self._second: DoubleArray = np.zeros((width, width), order="F")  # the lower triangle counts
        self._coming = _Waiting(width, 1.0)
        self._leaving: _Waiting | None = None

    def add(self, rows: FloatArray | DoubleArray, labels: IntArray) -> None:
        """Add labelled rows."""
        self._sum(rows, labels, 1.0)
        self._second = self._coming.put(rows, self._second)

    def remove(self, rows: FloatArray | DoubleArray, labels: IntArray) -> None:
        """Take back rows that were added."""
        if not set(labels.tolist()) <= set(self.labels):
            raise StateError("a row is taken back whose class was never added")
        self._sum(rows, labels, -1.0)
        self._leave(rows)

    def merge(self, other: "Moments") -> None:
        """Add what another one has seen."""
        if other.width != self.width:
            raise WrongWidthError(f"moments of width {other.width} cannot be added to those of width {self.width}")
        places = self._places(np.array(other.labels, np.int64))
        self._counts[places] += other._counts
        self._sums[places] += other._sums
        self._second += other._second
        self._second = self._coming.put(other._coming.rows, self._second)
        if other._leaving is not None:
            self._leave(other._leaving.rows)
        self.version += 1

    @property
    def counts(self) -> DoubleArray:
        """Rows of each class."""
        return self._counts

    @property
    def means(self) -> DoubleArray:
        """The mean row of each class."""
        return self._sums / np.maximum(self._counts, 1.0)[:, None]

    def within(self) -> DoubleArray:
        """Give the pooled covariance within classes; its lower triangle counts, and it may be overwritten."""
        total = self._coming.counted(self._second, overwrite=False)
        if self._leaving is not None:
            total = self._leaving.counted(total, overwrite=total is not self._second)
        total = total.copy(order="F") if total is self._second else total
        weighted = self.means * np.sqrt(self._counts)[:, None]
        found: DoubleArray = blas.dsyrk(-1.0, weighted.T, 1.0, total, lower=1, overwrite_c=1)
        found /= max(self._counts.sum(), 1.0)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        leaving = 0 if self._leaving is None else self._leaving.nbytes
        return self._second.nbytes + self._coming.nbytes + leaving + self._sums.nbytes + self._counts.nbytes

    def _sum(self, rows: FloatArray | DoubleArray, labels: IntArray, sign: float) -> None:
        if rows.shape[1] != self.width:
            raise WrongWidthError(f"rows of width {rows.shape[1]} given, the moments have width {self.width}")
        places = self._places(labels)
        np.add.at(self._counts, places, sign)
        for place in np.unique(places):
            self._sums[place] += sign * rows[places == place].sum(0, dtype=np.float64)
        self.version += 1

    def _leave(self, rows: AnyArray) -> None:
        if self._leaving is None:
            self._leaving = _Waiting(self.width, -1.0)
        self._second = self._leaving.put(rows, self._second)

    def _places(self, labels: IntArray) -> IntArray:
        """Find the classes' rows, adding those not seen before in order of their labels."""
        new = sorted(set(labels.tolist()) - set(self.labels))
        if new:
            self.labels += new
            self._counts = np.concatenate([self._counts, np.zeros(len(new))])
            self._sums = np.concatenate([self._sums, np.zeros((len(new), self.width))])
        index = {label: place for place, label in enumerate(self.labels)}
        return np.array([index[label] for label in labels.tolist()], np.int64)

    def state(self) -> State:
        """Give the sums and the rows kept aside."""
        arrays: dict[str, AnyArray] = {"counts": self._counts.copy(), "sums": self._sums.copy()}
        arrays |= {"second": np.ascontiguousarray(self._second.T), "pending": self._coming.rows.copy()}
        if self._leaving is not None:
            arrays["leaving"] = self._leaving.rows.copy()
        return State(arrays, {"labels": list(self.labels)})

    def load_state(self, state: State) -> None:
        """Take the sums and the rows kept aside."""
        second = state.arrays["second"]
        if second.shape != (self.width, self.width):
            raise StateError(f"second moments of shape {second.shape} do not fit width {self.width}")
        self.labels = list(state.facts["labels"])
        self._counts, self._sums = np.array(state.arrays["counts"]), np.array(state.arrays["sums"])
        self._second = np.array(second.T, order="F")
        self._coming, self._leaving = _Waiting(self.width, 1.0), None
        self._second = self._coming.put(state.arrays["pending"], self._second)
        if "leaving" in state.arrays:
            self._leave(state.arrays["leaving"])
        self.version += 1
