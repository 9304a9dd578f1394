"""Products of sparse rows with dense matrices, and their gradient."""

from functools import cached_property

import numpy as np

from ocgl.kernels import inlined, kernel
from ocgl.types import FloatArray, IntArray, PositionArray

_CACHED = 1 << 22  # bytes of a result that stays in the processor's cache


@inlined
def _add_rows(
    into: FloatArray, table: FloatArray, rows: PositionArray, scales: FloatArray, begin: int, end: int
) -> None:
    """Add scaled rows of a table to a row. Four rows per iteration: their loads overlap."""
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
def _transposed(
    row_begins: IntArray,
    row_ends: IntArray,
    columns: PositionArray,
    values: FloatArray,
    nodes: PositionArray,
    width: int,
) -> tuple[PositionArray, PositionArray, FloatArray]:
    """Return selected CSR rows as CSC: column starts, local rows, values."""
    begins = np.zeros(width + 1, np.int32)
    for node in nodes:
        for i in range(row_begins[node], row_ends[node]):
            begins[columns[i] + 1] += 1
    for column in range(width):
        begins[column + 1] += begins[column]
    rows, entries = np.empty(begins[-1], np.int32), np.empty(begins[-1], np.float32)
    free = begins[:-1].copy()
    for v in range(len(nodes)):
        for i in range(row_begins[nodes[v]], row_ends[nodes[v]]):
            position = free[columns[i]]
            free[columns[i]] += 1
            rows[position], entries[position] = v, values[i]
    return begins, rows, entries


@kernel
def _by_row(
    row_begins: IntArray,
    row_ends: IntArray,
    columns: PositionArray,
    values: FloatArray,
    nodes: PositionArray,
    weight: FloatArray,
) -> FloatArray:
    out = np.zeros((len(nodes), weight.shape[1]), np.float32)
    for v in range(len(nodes)):
        _add_rows(out[v], weight, columns, values, row_begins[nodes[v]], row_ends[nodes[v]])
    return out


@kernel
def _by_column(
    begins: PositionArray, rows: PositionArray, entries: FloatArray, weight: FloatArray, count: int
) -> FloatArray:
    """Return XW from the columns of X: reads each row of W once, in order."""
    width = weight.shape[1]
    out = np.zeros((count, width), np.float32)
    for column in range(len(begins) - 1):
        row = weight[column]
        for e in range(begins[column], begins[column + 1]):
            into, scale = out[rows[e]], entries[e]
            for j in range(width):
                into[j] += scale * row[j]
    return out


@kernel
def _back(begins: PositionArray, rows: PositionArray, entries: FloatArray, grad: FloatArray, out: FloatArray) -> None:
    for column in range(len(begins) - 1):
        into = out[column]
        into[:] = 0
        _add_rows(into, grad, rows, entries, begins[column], begins[column + 1])


class SparseRows:
    """Selected rows X of a CSR table, for the products XW and X'G.

    Args:
        begins: where each row of the table begins.
        ends: where each row of the table ends.
        columns: column of each entry.
        values: value of each entry.
        nodes: the selected rows.
        width: number of columns.

    >>> table = np.array([0, 1]), np.array([1, 2]), np.array([1, 1], np.int32), np.array([2.0, 1.0], np.float32)
    >>> rows = SparseRows(*table, np.array([0, 1], np.int32), width=2)
    >>> rows.times(np.ones((2, 1), np.float32)).tolist()
    [[2.0], [1.0]]
    >>> rows.back(np.ones((2, 1), np.float32)).tolist()
    [[0.0], [3.0]]
    """

    def __init__(
        self,
        begins: IntArray,
        ends: IntArray,
        columns: PositionArray,
        values: FloatArray,
        nodes: PositionArray,
        width: int,
    ) -> None:
        self._table = (begins, ends, columns, values)
        self._nodes = nodes
        self._width = width

    @cached_property
    def by_column(self) -> tuple[PositionArray, PositionArray, FloatArray]:
        """X as CSC: column starts, rows, values."""
        return _transposed(*self._table, self._nodes, self._width)

    def times(self, weight: FloatArray, learning: bool = False) -> FloatArray:
        """Return XW; a row's result does not depend on the other rows.

        Args:
            weight: W, of shape [width, num_units].
            learning: whether a gradient follows. The gradient needs the columns of X anyway, so a result that fits
                in the cache is computed by column, which reads W once.
        """
        count = len(self._nodes)
        if learning and 4 * count * weight.shape[1] <= _CACHED:
            return _by_column(*self.by_column, weight, count)
        return _by_row(*self._table, self._nodes, weight)

    def back(self, grad: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return X'G, of shape [width, num_units].

        Args:
            grad: G, of shape [num_rows, num_units].
            out: array for the result; None to allocate one.
        """
        if out is None:
            out = np.empty((self._width, grad.shape[1]), np.float32)
        _back(*self.by_column, grad, out)
        return out
