"""Message passing over sampled edges, as a differentiable step."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ocgl.graph import Block
from ocgl.graph.aggregation import dense_rows, transposed


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, block: Block) -> Tensor:
        ctx.block = block
        nodes = np.arange(block.inputs, dtype=np.int32)
        table = hidden.detach().contiguous().numpy()
        return torch.from_numpy(
            dense_rows(table, nodes, block.indptr, block.indices, block.edge, block.own, block.rows)
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        block = ctx.block
        grad = grads[0].contiguous().numpy()
        back = transposed(grad, block.indptr, block.indices, block.edge, block.own, block.inputs)
        return torch.from_numpy(back), None


def propagate(hidden: Tensor, block: Block) -> Tensor:
    """Give each receiving node its own row plus its sampled neighbours' rows, weighted."""
    out: Tensor = _Propagate.apply(hidden, block)  # type: ignore[no-untyped-call]
    return out
