"""Gradients of a loss by parameter; for sparse features the first one stays factored."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ocgl.graph._kernels.sparse_rows import SparseRows
from ocgl.nn.gcn import GCN
from ocgl.types import FloatArray


@dataclass(frozen=True, eq=False)
class SparseGradient:
    """The gradient X'G for sparse rows X, as its two factors. Most rows of the product are zero.

    Args:
        rows: X.
        right: G, of shape [num_rows, num_units].
    """

    rows: SparseRows
    right: FloatArray

    def multiplied(self) -> Tensor:
        """Return the product as a dense matrix."""
        return torch.from_numpy(self.rows.back(self.right))


def gradients_of(model: nn.Module, loss: Tensor) -> list[Tensor | SparseGradient]:
    """Return the gradient of a loss by each parameter of a model, in the order of `model.parameters()`."""
    parameters = list(model.parameters())
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    pending = model.pending if isinstance(model, GCN) else []
    pending.clear()
    grads = iter(torch.autograd.grad(loss, learned, allow_unused=True))
    found: list[Tensor | SparseGradient | None] = [next(grads) if p.requires_grad else None for p in parameters]
    if pending:
        assert isinstance(model, GCN)
        first = next(i for i, parameter in enumerate(parameters) if parameter is model.first)
        for rows, right in pending:
            added, before = SparseGradient(rows, right), found[first]
            found[first] = added if before is None else _multiplied(before) + added.multiplied()
        pending.clear()
    # a parameter that is frozen, or has no part in the loss, does not move
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


def _multiplied(gradient: Tensor | SparseGradient) -> Tensor:
    return gradient.multiplied() if isinstance(gradient, SparseGradient) else gradient
