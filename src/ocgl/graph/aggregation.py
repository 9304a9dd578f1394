"""Weighted sums over sampled neighbours, and their transpose."""

import numpy as np

from ocgl.kernels import kernel
from ocgl.types import FloatArray, IntArray, PositionArray

ONES = np.empty(0, np.float32)
"""Stands for weights that are all one."""


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
        row = table[nodes[v]]
        into = out[v]
        scale = own[v] if weighted else np.float32(1)
        for j in range(width):
            into[j] = scale * row[j]
        for e in range(indptr[v], indptr[v + 1]):
            row = table[nodes[indices[e]]]
            if weighted:
                scale = edge[e]
                for j in range(width):
                    into[j] += scale * row[j]
            else:
                for j in range(width):
                    into[j] += row[j]
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
