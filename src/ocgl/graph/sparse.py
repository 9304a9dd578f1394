"""Products of sparse rows with dense matrices, and the way back."""

from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from ocgl.kernels import inlined, kernel
from ocgl.types import FloatArray, PositionArray


@inlined
def add_rows(
    into: FloatArray, table: FloatArray, rows: PositionArray, scales: FloatArray, begin: int, end: int
) -> None:
    """Add scaled rows of a table to a row, four at a time: their loads overlap."""
    width = len(into)
    for e in range(begin, end - 3, 4):
        a, b, c, d = table[rows[e]], table[rows[e + 1]], table[rows[e + 2]], table[rows[e + 3]]
        p, q, r, s = scales[e], scales[e + 1], scales[e + 2], scales[e + 3]
        for j in range(width):
            into[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * d[j])
    for e in range(begin + (end - begin) // 4 * 4, end):
        a, p = table[rows[e]], scales[e]
        for j in range(width):
            into[j] += p * a[j]


@kernel
def _product(
    indptr: PositionArray, indices: PositionArray, values: FloatArray, weight: FloatArray, out: FloatArray
) -> None:
    for v in range(len(indptr) - 1):
        into = out[v]
        into[:] = 0
        add_rows(into, weight, indices, values, indptr[v], indptr[v + 1])


class SparseRows:
    """Sparse rows X, for products XW and X'G.

    >>> rows = SparseRows(csr_array(np.array([[0, 2.0], [0, 1.0]], np.float32)))
    >>> rows.times(np.ones((2, 1), np.float32)).tolist()
    [[2.0], [1.0]]
    >>> rows.back(np.ones((2, 1), np.float32)).tolist()
    [[0.0], [3.0]]
    """

    def __init__(self, matrix: csr_array) -> None:
        self.matrix = matrix

    @cached_property
    def by_column(self) -> tuple[PositionArray, PositionArray, FloatArray]:
        """The same entries column by column: where each column starts, rows, values."""
        turned = self.matrix.tocsc()
        return turned.indptr, turned.indices, turned.data

    def times(self, weight: FloatArray) -> FloatArray:
        """Give XW."""
        out = np.empty((self.matrix.shape[0], weight.shape[1]), np.float32)
        _product(self.matrix.indptr, self.matrix.indices, self.matrix.data, weight, out)
        return out

    def back(self, grad: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Give X'G, in `out` if it is given."""
        if out is None:
            out = np.empty((self.matrix.shape[1], grad.shape[1]), np.float32)
        _product(*self.by_column, grad, out)
        return out
