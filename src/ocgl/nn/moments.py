"""Running first and second moments of labelled rows: the sufficient statistics of a linear-Gaussian classifier."""

import numpy as np
from scipy.linalg import blas

from ocgl.errors import StateError, WrongWidthError
from ocgl.state import State
from ocgl.types import AnyArray, DoubleArray, FloatArray, IntArray

PENDING = 256
"""Number of rows that are buffered before one product adds them to the second moments."""


class _PendingRows:
    """Buffered rows, to be added to (sign 1) or subtracted from (sign -1) the second moments in one product."""

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
        """Buffer rows and return the second moments, which include the earlier rows if the buffer was full."""
        for begin in range(0, len(rows), PENDING):
            part = rows[begin : begin + PENDING]
            if self._count + len(part) > PENDING:
                second = self.counted(second, overwrite=True)
                self._count = 0
            self._block[self._count : self._count + len(part)] = part
            self._count += len(part)
        return second

    def counted(self, second: DoubleArray, overwrite: bool) -> DoubleArray:
        """Return the second moments with the buffered rows; the input itself if overwritten or nothing is buffered."""
        if not self._count:
            return second
        found: DoubleArray = blas.dsyrk(self._sign, self.rows.T, 1.0, second, lower=1, overwrite_c=overwrite)
        return found


class Moments:
    """Number and sum of the rows z of each class, and the sum of z z^T over all classes, in double precision.

    Up to rounding, the sums do not depend on the order of the rows. Moments of disjoint parts of a stream can be
    merged, and rows can be removed again.

    Args:
        width: number of features.

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
        self._second: DoubleArray = np.zeros((width, width), order="F")  # only the lower triangle is valid
        self._added = _PendingRows(width, 1.0)
        self._removed: _PendingRows | None = None

    def add(self, rows: FloatArray | DoubleArray, labels: IntArray) -> None:
        """Add rows of shape [num_rows, width] with their labels."""
        self._sum(rows, labels, 1.0)
        self._second = self._added.put(rows, self._second)

    def remove(self, rows: FloatArray | DoubleArray, labels: IntArray) -> None:
        """Remove rows that were added before."""
        if not set(labels.tolist()) <= set(self.labels):
            raise StateError("cannot remove a row of a class that was never added")
        self._sum(rows, labels, -1.0)
        self._remove(rows)

    def merge(self, other: "Moments") -> None:
        """Add the rows of other moments of the same width."""
        if other.width != self.width:
            raise WrongWidthError(f"moments of width {other.width} cannot be added to those of width {self.width}")
        class_rows = self._class_rows(np.array(other.labels, np.int64))
        self._counts[class_rows] += other._counts
        self._sums[class_rows] += other._sums
        self._second += other._second
        self._second = self._added.put(other._added.rows, self._second)
        if other._removed is not None:
            self._remove(other._removed.rows)
        self.version += 1

    @property
    def counts(self) -> DoubleArray:
        """Number of rows of each class."""
        return self._counts

    @property
    def means(self) -> DoubleArray:
        """Mean row of each class, of shape [num_classes, width]."""
        return self._sums / np.maximum(self._counts, 1.0)[:, None]

    def within(self) -> DoubleArray:
        """Return a new matrix with the pooled within-class covariance; only its lower triangle is valid."""
        total = self._added.counted(self._second, overwrite=False)
        if self._removed is not None:
            total = self._removed.counted(total, overwrite=total is not self._second)
        total = total.copy(order="F") if total is self._second else total
        weighted = self.means * np.sqrt(self._counts)[:, None]
        found: DoubleArray = blas.dsyrk(-1.0, weighted.T, 1.0, total, lower=1, overwrite_c=1)
        found /= max(self._counts.sum(), 1.0)
        return found

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        removed = 0 if self._removed is None else self._removed.nbytes
        return self._second.nbytes + self._added.nbytes + removed + self._sums.nbytes + self._counts.nbytes

    def _sum(self, rows: FloatArray | DoubleArray, labels: IntArray, sign: float) -> None:
        if rows.shape[1] != self.width:
            raise WrongWidthError(f"rows have width {rows.shape[1]}, but the moments have width {self.width}")
        class_rows = self._class_rows(labels)
        np.add.at(self._counts, class_rows, sign)
        for row in np.unique(class_rows):
            self._sums[row] += sign * rows[class_rows == row].sum(0, dtype=np.float64)
        self.version += 1

    def _remove(self, rows: AnyArray) -> None:
        if self._removed is None:
            self._removed = _PendingRows(self.width, -1.0)
        self._second = self._removed.put(rows, self._second)

    def _class_rows(self, labels: IntArray) -> IntArray:
        """Return the row index of each label's class, after adding new classes in order of their labels."""
        new = sorted(set(labels.tolist()) - set(self.labels))
        if new:
            self.labels += new
            self._counts = np.concatenate([self._counts, np.zeros(len(new))])
            self._sums = np.concatenate([self._sums, np.zeros((len(new), self.width))])
        index = {label: row for row, label in enumerate(self.labels)}
        return np.array([index[label] for label in labels.tolist()], np.int64)

    def state(self) -> State:
        """Return the sums and the buffered rows."""
        arrays: dict[str, AnyArray] = {"counts": self._counts.copy(), "sums": self._sums.copy()}
        arrays |= {"second": np.array(self._second.T, order="C"), "pending": self._added.rows.copy()}
        if self._removed is not None:
            arrays["leaving"] = self._removed.rows.copy()
        return State(arrays, {"labels": list(self.labels)})

    def load_state(self, state: State) -> None:
        """Restore the sums and the buffered rows."""
        second = state.arrays["second"]
        if second.shape != (self.width, self.width):
            raise StateError(f"second moments of shape {second.shape} do not fit width {self.width}")
        self.labels = list(state.facts["labels"])
        self._counts, self._sums = np.array(state.arrays["counts"]), np.array(state.arrays["sums"])
        self._second = np.array(second.T, order="F")
        self._added, self._removed = _PendingRows(self.width, 1.0), None
        self._second = self._added.put(state.arrays["pending"], self._second)
        if "leaving" in state.arrays:
            self._remove(state.arrays["leaving"])
        self.version += 1
