"""Message passing over sampled edges, forward and back."""

import numpy as np

from ocgl.graph import Block
from ocgl.graph.aggregation import dense_rows, transposed
from ocgl.types import FloatArray


def propagate(hidden: FloatArray, block: Block) -> FloatArray:
    """Give each receiving node its own row plus its sampled neighbours' rows, weighted."""
    nodes = np.arange(block.inputs, dtype=np.int32)
    return dense_rows(hidden, nodes, block.indptr, block.indices, block.edge, block.own, block.rows)


def propagate_back(grad: FloatArray, block: Block) -> FloatArray:
    """Send the gradient of what was received back to the rows it was made of."""
    return transposed(grad, block.indptr, block.indices, block.edge, block.own, block.inputs)
