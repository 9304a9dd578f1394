"""Running sums of labelled rows: all that a linear-Gaussian classifier needs, in any order, without drift."""

import numpy as np
from scipy.linalg import blas

from ocgl.errors import StateError, WrongWidthError
from ocgl.state import State
from ocgl.types import AnyArray, DoubleArray, FloatArray, IntArray

PENDING = 256
"""Rows kept aside before they are added to the matrix of second moments in one product."""


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
        self._pending: DoubleArray = np.empty((PENDING, width))
        self._waiting = 0
        self._leaving: DoubleArray = np.empty((0, width))

    def add(self, rows: FloatArray | DoubleArray, labels: IntArray) -> None:
        """Add labelled rows."""
        self._sum(rows, labels, 1.0)
        for begin in range(0, len(rows), PENDING):
            self._keep(rows[begin : begin + PENDING])

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
        self._keep(other._pending[: other._waiting])
        self._leave(other._leaving)
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
        pending = self._pending[: self._waiting]
        total = blas.dsyrk(1.0, pending.T, 1.0, self._second, lower=1) if len(pending) else self._second.copy(order="F")
        if len(self._leaving):
            total = blas.dsyrk(-1.0, self._leaving.T, 1.0, total, lower=1, overwrite_c=1)
        weighted = self.means * np.sqrt(self._counts)[:, None]
        found: DoubleArray = blas.dsyrk(-1.0, weighted.T, 1.0, total, lower=1, overwrite_c=1)
        found /= max(self._counts.sum(), 1.0)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes held, but for rows that wait to be taken back (as many as wait to be added, at most)."""
        return self._second.nbytes + self._pending.nbytes + self._sums.nbytes + self._counts.nbytes

    def _sum(self, rows: FloatArray | DoubleArray, labels: IntArray, sign: float) -> None:
        if rows.shape[1] != self.width:
            raise WrongWidthError(f"rows of width {rows.shape[1]} given, the moments have width {self.width}")
        places = self._places(labels)
        np.add.at(self._counts, places, sign)
        for place in np.unique(places):
            self._sums[place] += sign * rows[places == place].sum(0, dtype=np.float64)
        self.version += 1

    def _keep(self, rows: AnyArray) -> None:
        if self._waiting + len(rows) > PENDING:
            waiting = self._pending[: self._waiting]
            self._second = blas.dsyrk(1.0, waiting.T, 1.0, self._second, lower=1, overwrite_c=1)
            self._waiting = 0
        self._pending[self._waiting : self._waiting + len(rows)] = rows
        self._waiting += len(rows)

    def _leave(self, rows: AnyArray) -> None:
        self._leaving = np.concatenate([self._leaving, rows])
        if len(self._leaving) >= PENDING:
            self._second = blas.dsyrk(-1.0, self._leaving.T, 1.0, self._second, lower=1, overwrite_c=1)
            self._leaving = np.empty((0, self.width))

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
        arrays |= {"second": np.ascontiguousarray(self._second.T), "pending": self._pending[: self._waiting].copy()}
        arrays["leaving"] = self._leaving.copy()
        return State(arrays, {"labels": list(self.labels)})

    def load_state(self, state: State) -> None:
        """Take the sums and the rows kept aside."""
        second = state.arrays["second"]
        if second.shape != (self.width, self.width):
            raise StateError(f"second moments of shape {second.shape} do not fit width {self.width}")
        self.labels = list(state.facts["labels"])
        self._counts, self._sums = np.array(state.arrays["counts"]), np.array(state.arrays["sums"])
        self._second = np.array(second.T, order="F")
        self._waiting = len(state.arrays["pending"])
        self._pending[: self._waiting] = state.arrays["pending"]
        self._leaving = np.array(state.arrays["leaving"])
        self.version += 1
