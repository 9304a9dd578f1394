"""The graph convolutional network of Kipf and Welling (2017), on sampled neighbourhoods.

Each layer computes H' = Agg(H) W. Aggregating before the linear map is equivalent, by linearity, and only computes
the rows that the next layer needs. The first Agg acts on raw features, has no parameters, and runs once per batch.
Sparse features are multiplied by W first, because a sum of sparse rows has about as many entries as all its terms.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.graph import Neighborhood
from ocgl.graph._kernels.sparse_rows import SparseRows
from ocgl.nn.head import GrowingHead, glorot
from ocgl.nn.propagate import propagate, propagate_back
from ocgl.types import FloatArray

Pending = list[tuple[SparseRows, FloatArray]]


_EMPTY = np.empty((0, 0), np.float32)


class _Layers(torch.autograd.Function):
    """All layers as one autograd function: for small models, one node per operation costs as much as the products."""

    @staticmethod
    def forward(
        ctx: Any, neighborhood: Neighborhood, pending: Pending, learning: bool, head: Tensor, *inner: Tensor
    ) -> Tensor:
        sparse = neighborhood.table.sparse and len(inner) > 0
        received = [_EMPTY if sparse else neighborhood.aggregated]
        active = []
        for layer, weight in enumerate(inner, start=2):
            values = weight.detach().numpy()
            if sparse and layer == 2:
                hidden = propagate(neighborhood.sparse_rows.times(values, learning), neighborhood.block(1))
            else:
                hidden = received[-1] @ values
            active.append(np.maximum(hidden, 0, out=hidden))
            received.append(propagate(hidden, neighborhood.block(layer)))
        ctx.neighborhood, ctx.pending, ctx.received, ctx.active = neighborhood, pending, received, active
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
            grad = propagate_back(grad, ctx.neighborhood.block(layer + 2))
            grad *= ctx.active[layer] > 0
            if layer == 0 and ctx.neighborhood.table.sparse:
                inner_grads.insert(0, None)
                ctx.pending.append((ctx.neighborhood.sparse_rows, propagate_back(grad, ctx.neighborhood.block(1))))
            else:
                inner_grads.insert(0, torch.from_numpy(ctx.received[layer].T @ grad))
            if layer:
                grad = grad @ inner[layer].T
        return (None, None, None, head_grad, *inner_grads)


class GCN(nn.Module):
    """Graph convolutional network without bias, with ReLU between layers and a growing output layer.

    A single layer is a linear map from the aggregated features to the classes.

    Args:
        width: number of input features.
        layers: number of layers, at least 1.
        hidden: units of each hidden layer.
        rng: generator of the initial weights (Glorot uniform).
    """

    draws_nothing = True

    def __init__(self, width: int, layers: int, hidden: int, rng: np.random.Generator) -> None:
        super().__init__()
        sizes = [width, *[hidden] * (layers - 1)]
        self.inner = nn.ParameterList(
            nn.Parameter(glorot(inputs, outputs, inputs, rng)) for inputs, outputs in pairwise(sizes)
        )
        self.head = GrowingHead(sizes[-1], bias=False)
        self.pending: Pending = []
        """Factors (X, G) of the first weight's gradient X'G, for sparse rows X; see `gradients_of`."""

    @property
    def first(self) -> nn.Parameter:
        """The weight that multiplies the raw features."""
        return next(iter(self.inner), self.head.weight)

    def forward(self, neighborhood: Neighborhood) -> Tensor:
        """Return the logits of the seeds, of shape [num_seeds, num_classes]."""
        logits: Tensor = _Layers.apply(
            neighborhood, self.pending, torch.is_grad_enabled(), self.head.weight, *self.inner
        )  # type: ignore[no-untyped-call]
        return logits
