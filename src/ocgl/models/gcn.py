"""The graph convolutional network of Kipf and Welling, on sampled neighbourhoods.

H' = Agg(H) W: aggregation comes before the linear map, which is the same by linearity and touches only the nodes
whose output is needed. The first Agg acts on raw features, has no parameters, and is done once per batch. Sparse rows
are the exception: a sum of them has about as many entries as they have together, so they are multiplied first.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.graph import Neighborhood
from ocgl.graph.sparse import SparseRows
from ocgl.models.head import GrowingHead, glorot
from ocgl.models.propagate import propagate, propagate_back
from ocgl.types import FloatArray

Pending = list[tuple[SparseRows, FloatArray]]


_EMPTY = np.empty((0, 0), np.float32)


class _Layers(torch.autograd.Function):
    """All layers as one differentiable step: at this size, autograd node by node costs as much as the products."""

    @staticmethod
    def forward(ctx: Any, seen: Neighborhood, pending: Pending, learning: bool, head: Tensor, *inner: Tensor) -> Tensor:
        sparse = seen.table.sparse and len(inner) > 0
        received = [_EMPTY if sparse else seen.aggregated]
        active = []
        for layer, weight in enumerate(inner, start=2):
            values = weight.detach().numpy()
            if sparse and layer == 2:
                hidden = propagate(seen.sparse_rows.times(values, learning), seen.block(1))
            else:
                hidden = received[-1] @ values
            active.append(np.maximum(hidden, 0, out=hidden))
            received.append(propagate(hidden, seen.block(layer)))
        ctx.seen, ctx.pending, ctx.received, ctx.active = seen, pending, received, active
        ctx.save_for_backward(head, *inner)
        return torch.from_numpy(received[-1] @ head.detach().numpy().T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        head, *inner = (weight.detach().numpy() for weight in ctx.saved_tensors)
        grad = grads[0].numpy()
        head_grad = torch.from_numpy(grad.T @ ctx.received[-1])
        inner_grads: list[Tensor | None] = []
        grad = grad @ head
        for layer in range(len(inner) - 1, -1, -1):
            grad = propagate_back(grad, ctx.seen.block(layer + 2))
            grad *= ctx.active[layer] > 0
            if layer == 0 and ctx.seen.table.sparse:
                inner_grads.insert(0, None)
                ctx.pending.append((ctx.seen.sparse_rows, propagate_back(grad, ctx.seen.block(1))))
            else:
                inner_grads.insert(0, torch.from_numpy(ctx.received[layer].T @ grad))
            if layer:
                grad = grad @ inner[layer].T
        return (None, None, None, head_grad, *inner_grads)


class GCN(nn.Module):
    """`layers` layers with `hidden` units and ReLU between them, no bias; one layer is a plain F to C map."""

    def __init__(self, width: int, layers: int, hidden: int, rng: np.random.Generator) -> None:
        super().__init__()
        sizes = [width, *[hidden] * (layers - 1)]
        self.inner = nn.ParameterList(
            nn.Parameter(glorot(inputs, outputs, inputs, rng)) for inputs, outputs in pairwise(sizes)
        )
        self.head = GrowingHead(sizes[-1], bias=False)
        self.pending: Pending = []
        """Gradients by the first layer's weight from sparse rows, not multiplied out: pairs X, G for X'G."""

    @property
    def first(self) -> nn.Parameter:
        """The weight that raw features are multiplied with."""
        return next(iter(self.inner), self.head.weight)

    def forward(self, seen: Neighborhood) -> Tensor:
        """Give the logits of the seeds."""
        logits: Tensor = _Layers.apply(seen, self.pending, torch.is_grad_enabled(), self.head.weight, *self.inner)  # type: ignore[no-untyped-call]
        return logits
