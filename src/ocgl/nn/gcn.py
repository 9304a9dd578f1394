"""The graph convolutional network of Kipf and Welling (2017), on sampled neighbourhoods.

Each layer computes H' = Agg(H) W. Aggregating before the linear map is equivalent, by linearity, and only computes
the rows that the next layer needs. The first Agg acts on raw features, has no parameters, and runs once per batch.
Sparse features are multiplied by W first, because a sum of sparse rows has about as many entries as all its terms.

The plain network on the CPU is one autograd function in numpy, the fast path. With an option, or on another device,
the same layers are written with torch's own functions.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.graph import Block, Neighborhood
from ocgl.graph._kernels.sparse_rows import SparseRows
from ocgl.graph.features import dense
from ocgl.nn.attention import attention
from ocgl.nn.head import GrowingHead, Init, glorot, kaiming
from ocgl.nn.inputs import on_device
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


class _Aggregate(torch.autograd.Function):
    """Weighted sums over sampled neighbours on the CPU, with the kernels of the fast path."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, block: Block) -> Tensor:
        ctx.block = block
        return torch.from_numpy(propagate(hidden.detach().contiguous().numpy(), block))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return torch.from_numpy(propagate_back(grads[0].contiguous().numpy(), ctx.block)), None


def aggregate(hidden: Tensor, neighborhood: Neighborhood, layer: int) -> Tensor:
    """Return the weighted sum of each target node's row and its sampled neighbours' rows, on the device of the rows.

    Args:
        hidden: input rows of the layer.
        neighborhood: the sampled neighbourhood.
        layer: number of the layer, from 1.
    """
    if hidden.device.type != "cpu":
        return aggregate_with_torch(hidden, neighborhood, layer)
    summed: Tensor = _Aggregate.apply(hidden, neighborhood.block(layer))  # type: ignore[no-untyped-call]
    return summed


def aggregate_with_torch(hidden: Tensor, neighborhood: Neighborhood, layer: int) -> Tensor:
    """Return the same sums with torch's functions, on any device."""
    block = neighborhood.block(layer)
    device, edges = hidden.device, int(block.indptr[block.rows])
    source, target = on_device(neighborhood, "edge_index", device)[:, :edges]
    own, messages = hidden[: block.rows], hidden.index_select(0, source)
    if neighborhood.norm != "sum":
        own = own * on_device(neighborhood, "self_weight", device)[: block.rows, None]
        messages = messages * on_device(neighborhood, "edge_weight", device)[:edges, None]
    return own.index_add(0, target, messages)


@dataclass(frozen=True)
class GCNOptions:
    """What a GCN can have beside its weights; by default nothing.

    Args:
        bias: add a bias in every layer, the output layer included.
        dropout: probability with which a hidden unit is dropped in training.
        residual: add the input of a layer to its output, where both have the same width.
        layer_norm: normalise the rows of every hidden layer before ReLU.
    """

    bias: bool = False
    dropout: float = 0.0
    residual: bool = False
    layer_norm: bool = False


class GCN(nn.Module):
    """Graph convolutional network with ReLU between layers and a growing output layer.

    A single layer is a linear map from the aggregated features to the classes. Without options there is no bias:

    .. math:: H_{l+1} = ReLU(Agg(H_l) W_l)

    Args:
        width: number of input features.
        layers: number of layers, at least 1.
        hidden: units of each hidden layer.
        rng: generator of the initial weights.
        init: their distribution.
        options: bias, dropout, residual connections and layer normalisation.
    """

    def __init__(
        self,
        width: int,
        layers: int,
        hidden: int,
        rng: np.random.Generator,
        init: Init = "glorot",
        options: GCNOptions = GCNOptions(),
    ) -> None:
        super().__init__()
        sizes = [width, *[hidden] * (layers - 1)]
        self.inner = nn.ParameterList(
            nn.Parameter(
                glorot(inputs, outputs, inputs, rng) if init == "glorot" else kaiming((inputs, outputs), inputs, rng)
            )
            for inputs, outputs in pairwise(sizes)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(hidden)) for _ in self.inner if options.bias)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in self.inner if options.layer_norm)
        self.head = GrowingHead(sizes[-1], bias=options.bias, init=init)
        self.options = options
        self.draws_nothing = options.dropout == 0
        self.pending: Pending = []
        """Factors (X, G) of the first weight's gradient X'G, for sparse rows X; see `gradients_of`."""

    @property
    def first(self) -> nn.Parameter:
        """The weight that multiplies the raw features."""
        return next(iter(self.inner), self.head.weight)

    def forward(self, neighborhood: Neighborhood) -> Tensor:
        """Return the logits of the seeds, of shape [num_seeds, num_classes]."""
        if self.options != _PLAIN or self.head.weight.device.type != "cpu":
            return self._composed(neighborhood)
        logits: Tensor = _Layers.apply(
            neighborhood, self.pending, torch.is_grad_enabled(), self.head.weight, *self.inner
        )  # type: ignore[no-untyped-call]
        return logits

    def _composed(self, neighborhood: Neighborhood) -> Tensor:
        """The same layers with torch's functions, on any device and with any option."""
        received = on_device(neighborhood, "aggregated", self.head.weight.device)
        before: Tensor | None = None
        for layer, weight in enumerate(self.inner):
            hidden = received @ weight
            if self.options.bias:
                hidden = hidden + self.biases[layer]
            if self.options.layer_norm:
                hidden = self.norms[layer](hidden)
            hidden = nn.functional.dropout(torch.relu(hidden), self.options.dropout, self.training)
            if self.options.residual and before is not None:
                hidden = hidden + before[: len(hidden)]
            before = hidden
            received = aggregate(hidden, neighborhood, layer + 2)
        logits: Tensor = self.head(received)
        return logits

    def attention(self, neighborhood: Neighborhood) -> Tensor:
        """Return the attention over the sampled edges by the outputs of the first layer, before ReLU (see TWP)."""
        weight = self.first if len(self.inner) else self.first.t()
        device = weight.device
        own = on_device(neighborhood, "aggregated", device)
        last = torch.from_numpy(dense(neighborhood.table.take(neighborhood.nodes[neighborhood.sizes[-2] :])))
        hidden = torch.cat([own, last.to(device)]) @ weight
        return attention(hidden, on_device(neighborhood, "edge_index", device))


_PLAIN = GCNOptions()
