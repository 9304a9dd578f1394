"""Gradients by parameter; that by a matrix behind sparse rows is kept as a product not yet made."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from ocgl.graph.sparse import SparseRows
from ocgl.models.gcn import GCN
from ocgl.types import FloatArray


@dataclass(frozen=True, eq=False)
class SparseGradient:
    """X'G for sparse rows X: most of its rows are zero, and an optimizer can use each as it is made."""

    rows: SparseRows
    right: FloatArray

    def multiplied(self) -> Tensor:
        """Give the gradient as a matrix."""
        return torch.from_numpy(self.rows.back(self.right))


def gradients_of(model: nn.Module, loss: Tensor) -> list[Tensor | SparseGradient]:
    """Give the gradient of a loss by each parameter of a model."""
    parameters = list(model.parameters())
    if not isinstance(model, GCN):
        return list(torch.autograd.grad(loss, parameters))
    model.pending.clear()
    found: list[Tensor | SparseGradient | None] = list(torch.autograd.grad(loss, parameters, allow_unused=True))
    first = next(i for i, parameter in enumerate(parameters) if parameter is model.first)
    for rows, right in model.pending:
        added, before = SparseGradient(rows, right), found[first]
        found[first] = added if before is None else _multiplied(before) + added.multiplied()
    model.pending.clear()
    return cast(list[Tensor | SparseGradient], found)


def _multiplied(gradient: Tensor | SparseGradient) -> Tensor:
    return gradient.multiplied() if isinstance(gradient, SparseGradient) else gradient
