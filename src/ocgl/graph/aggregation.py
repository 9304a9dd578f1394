"""Weighted sums over sampled neighbours, and their transpose."""

from dataclasses import dataclass

import numpy as np

from ocgl.kernels import LINE, inlined, kernel, prefetch
from ocgl.types import FloatArray, IntArray, PositionArray

ONES = np.empty(0, np.float32)
"""Stands for weights that are all one."""


_FEW_LINES = 8  # after these the processor fetches the rest of a row by itself


@dataclass(frozen=True, eq=False)
class Block:
    """One step of message passing: the first `rows` of `inputs` nodes receive from their sampled neighbours."""

    indptr: IntArray
    indices: PositionArray
    edge: FloatArray
    own: FloatArray
    rows: int
    inputs: int


@inlined
def _fetch_rows(table: FloatArray, nodes: PositionArray, indices: PositionArray, begin: int, end: int) -> None:
    """Ask for the rows of some neighbours before they are needed: in a large table each is a cache miss."""
    flat, width = table.ravel(), table.shape[1]
    for e in range(begin, end):
        row = np.int64(nodes[indices[e]]) * width
        for line in range(row, row + min(width, _FEW_LINES * LINE // 4), LINE // 4):
            prefetch(flat, line)


@kernel
def dense_rows(
    table: FloatArray,
    nodes: PositionArray,
    indptr: IntArray,
    indices: PositionArray,
    edge: FloatArray,
    own: FloatArray,
    rows: int,
) -> FloatArray:
    """For each of the first `rows` nodes: its own row plus its neighbours' rows of the table, weighted."""
    width = table.shape[1]
    out = np.empty((rows, width), np.float32)
    weighted = len(own) > 0
    for v in range(rows):
        if v + 1 < rows:
            _fetch_rows(table, nodes, indices, indptr[v + 1], indptr[v + 2])
        row = table[nodes[v]]
        into = out[v]
        scale = own[v] if weighted else np.float32(1)
        for j in range(width):
            into[j] = scale * row[j]
        begin, end = indptr[v], indptr[v + 1]
        # Four rows at a time: their loads overlap, and the sum is read and written a quarter as often.
        for e in range(begin, end - 3, 4):
            a, b = table[nodes[indices[e]]], table[nodes[indices[e + 1]]]
            c, d = table[nodes[indices[e + 2]]], table[nodes[indices[e + 3]]]
            if weighted:
                wa, wb, wc, wd = edge[e], edge[e + 1], edge[e + 2], edge[e + 3]
                for j in range(width):
                    into[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
            else:
                for j in range(width):
                    into[j] += (a[j] + b[j]) + (c[j] + d[j])
        for e in range(begin + (end - begin) // 4 * 4, end):
            row = table[nodes[indices[e]]]
            scale = edge[e] if weighted else np.float32(1)
            for j in range(width):
                into[j] += scale * row[j]
    return out


@kernel
def sparse_rows(
    starts: IntArray,
    columns: PositionArray,
    values: FloatArray,
    width: int,
    nodes: PositionArray,
    indptr: IntArray,
    indices: PositionArray,
    edge: FloatArray,
    own: FloatArray,
    rows: int,
) -> FloatArray:
    """As `dense_rows`, over a table of sparse rows."""
    out = np.zeros((rows, width), np.float32)
    weighted = len(own) > 0
    for v in range(rows):
        into = out[v]
        scale = own[v] if weighted else np.float32(1)
        for i in range(starts[nodes[v]], starts[nodes[v] + 1]):
            into[columns[i]] += scale * values[i]
        for e in range(indptr[v], indptr[v + 1]):
            node = nodes[indices[e]]
            if weighted:
                scale = edge[e]
            for i in range(starts[node], starts[node + 1]):
                into[columns[i]] += scale * values[i]
    return out


@kernel
def gathered(
    starts: IntArray, columns: PositionArray, values: FloatArray, nodes: PositionArray
) -> tuple[FloatArray, PositionArray, IntArray]:
    """Copy some sparse rows; gives values, columns and row starts."""
    begins = np.zeros(len(nodes) + 1, np.int64)
    for v in range(len(nodes)):
        begins[v + 1] = begins[v] + starts[nodes[v] + 1] - starts[nodes[v]]
    taken, places = np.empty(begins[-1], np.float32), np.empty(begins[-1], np.int32)
    for v in range(len(nodes)):
        start, end = starts[nodes[v]], starts[nodes[v] + 1]
        taken[begins[v] : begins[v + 1]] = values[start:end]
        places[begins[v] : begins[v + 1]] = columns[start:end]
    return taken, places, begins


@kernel
def transposed(
    grad: FloatArray,
    indptr: IntArray,
    indices: PositionArray,
    edge: FloatArray,
    own: FloatArray,
    inputs: int,
) -> FloatArray:
    """Send the gradient of `rows` sums back to the `inputs` rows they were made of."""
    rows, width = grad.shape
    out = np.zeros((inputs, width), np.float32)
    weighted = len(own) > 0
    for v in range(rows):
        scale = own[v] if weighted else np.float32(1)
        for j in range(width):
            out[v, j] += scale * grad[v, j]
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if weighted:
                scale = edge[e]
            for j in range(width):
                out[u, j] += scale * grad[v, j]
    return out
