"""Message passing over sampled edges, and its gradient."""

import numpy as np

from ocgl.graph import Block
from ocgl.graph._kernels.aggregation import dense_rows, transposed
from ocgl.types import FloatArray


def propagate(hidden: FloatArray, block: Block) -> FloatArray:
    """Return the weighted sum of each target node's row and its sampled neighbours' rows.

    Args:
        hidden: input rows, of shape [block.inputs, width].
        block: the sampled edges and their weights.

    Returns:
        Rows of shape [block.rows, width].
    """
    nodes = np.arange(block.inputs, dtype=np.int32)
    return dense_rows(hidden, nodes, block.indptr, block.indices, block.edge_weight, block.self_weight, block.rows)


def propagate_back(grad: FloatArray, block: Block) -> FloatArray:
    """Return the gradient by the input of `propagate`, of shape [block.inputs, width].

    Args:
        grad: gradient by the output, of shape [block.rows, width].
        block: the block that `propagate` used.
    """
    return transposed(grad, block.indptr, block.indices, block.edge_weight, block.self_weight, block.inputs)
