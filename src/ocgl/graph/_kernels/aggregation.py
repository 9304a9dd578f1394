"""Weighted sums over sampled neighbours, and their gradient."""

from dataclasses import dataclass

import numpy as np

from ocgl.kernels import LINE, inlined, kernel, prefetch
from ocgl.types import FloatArray, IntArray, PositionArray

ONES = np.empty(0, np.float32)
"""Placeholder for weights that are all one."""


_FEW_LINES = 8  # after these the hardware prefetcher loads the rest of a row


@dataclass(frozen=True, eq=False)
class Block:
    """The sampled edges of one layer.

    Args:
        indptr: CSR row starts of the sampled neighbours of each target node.
        indices: sampled neighbours, as local indices.
        edge_weight: weight of each sampled edge; empty if all are one.
        self_weight: weight of each target's self-loop; empty if all are one.
        rows: number of target nodes, the first of the input nodes.
        inputs: number of input nodes.
    """

    indptr: IntArray
    indices: PositionArray
    edge_weight: FloatArray
    self_weight: FloatArray
    rows: int
    inputs: int


@inlined
def _fetch_rows(table: FloatArray, nodes: PositionArray, indices: PositionArray, begin: int, end: int) -> None:
    """Prefetch the rows of the next node's neighbours: in a large table each one is a cache miss."""
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
    edge_weight: FloatArray,
    self_weight: FloatArray,
    rows: int,
) -> FloatArray:
    """Return, for each of the first `rows` nodes, the weighted sum of its row and its neighbours' rows.

    Args:
        table: features, of shape [num_table_rows, width].
        nodes: row of each local node in the table.
        indptr: CSR row starts of the sampled neighbours.
        indices: sampled neighbours, as local indices.
        edge_weight: weight of each edge; empty if all are one.
        self_weight: weight of each node's row; empty if all are one.
        rows: number of output rows.
    """
    width = table.shape[1]
    out = np.empty((rows, width), np.float32)
    weighted = len(self_weight) > 0
    for v in range(rows):
        if v + 1 < rows:
            _fetch_rows(table, nodes, indices, indptr[v + 1], indptr[v + 2])
        row = table[nodes[v]]
        into = out[v]
        scale = self_weight[v] if weighted else np.float32(1)
        for j in range(width):
            into[j] = scale * row[j]
        begin, end = indptr[v], indptr[v + 1]
        # Four rows per iteration: their loads overlap, and the sum is read and written a quarter as often.
        for e in range(begin, end - 3, 4):
            a, b = table[nodes[indices[e]]], table[nodes[indices[e + 1]]]
            c, d = table[nodes[indices[e + 2]]], table[nodes[indices[e + 3]]]
            if weighted:
                wa, wb, wc, wd = edge_weight[e], edge_weight[e + 1], edge_weight[e + 2], edge_weight[e + 3]
                for j in range(width):
                    into[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
            else:
                for j in range(width):
                    into[j] += (a[j] + b[j]) + (c[j] + d[j])
        for e in range(begin + (end - begin) // 4 * 4, end):
            row = table[nodes[indices[e]]]
            scale = edge_weight[e] if weighted else np.float32(1)
            for j in range(width):
                into[j] += scale * row[j]
    return out


@kernel
def sparse_rows(
    begins: IntArray,
    ends: IntArray,
    columns: PositionArray,
    values: FloatArray,
    width: int,
    nodes: PositionArray,
    indptr: IntArray,
    indices: PositionArray,
    edge_weight: FloatArray,
    self_weight: FloatArray,
    rows: int,
) -> FloatArray:
    """Return the same sums as `dense_rows`, for a table of sparse rows (begins, ends, columns, values)."""
    out = np.zeros((rows, width), np.float32)
    weighted = len(self_weight) > 0
    for v in range(rows):
        into = out[v]
        scale = self_weight[v] if weighted else np.float32(1)
        for i in range(begins[nodes[v]], ends[nodes[v]]):
            into[columns[i]] += scale * values[i]
        for e in range(indptr[v], indptr[v + 1]):
            node = nodes[indices[e]]
            if weighted:
                scale = edge_weight[e]
            for i in range(begins[node], ends[node]):
                into[columns[i]] += scale * values[i]
    return out


@kernel
def gathered(
    begins: IntArray, ends: IntArray, columns: PositionArray, values: FloatArray, nodes: PositionArray
) -> tuple[FloatArray, PositionArray, IntArray]:
    """Return a copy of selected sparse rows as CSR: values, columns and row starts."""
    starts = np.zeros(len(nodes) + 1, np.int64)
    for v in range(len(nodes)):
        starts[v + 1] = starts[v] + ends[nodes[v]] - begins[nodes[v]]
    copied, positions = np.empty(starts[-1], np.float32), np.empty(starts[-1], np.int32)
    for v in range(len(nodes)):
        begin, end = begins[nodes[v]], ends[nodes[v]]
        copied[starts[v] : starts[v + 1]] = values[begin:end]
        positions[starts[v] : starts[v + 1]] = columns[begin:end]
    return copied, positions, starts


@kernel
def transposed(
    grad: FloatArray,
    indptr: IntArray,
    indices: PositionArray,
    edge_weight: FloatArray,
    self_weight: FloatArray,
    inputs: int,
) -> FloatArray:
    """Return the gradient by the input rows of a weighted sum, given the gradient by its output rows.

    Args:
        grad: gradient by the sums, of shape [num_rows, width].
        indptr: CSR row starts of the sampled neighbours.
        indices: sampled neighbours, as local indices.
        edge_weight: weight of each edge; empty if all are one.
        self_weight: weight of each node's row; empty if all are one.
        inputs: number of input rows.
    """
    rows, width = grad.shape
    out = np.zeros((inputs, width), np.float32)
    weighted = len(self_weight) > 0
    for v in range(rows):
        scale = self_weight[v] if weighted else np.float32(1)
        for j in range(width):
            out[v, j] += scale * grad[v, j]
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if weighted:
                scale = edge_weight[e]
            for j in range(width):
                out[u, j] += scale * grad[v, j]
    return out
