"""Topology-aware weight preserving, online."""

from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import NonNegativeFloat
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ocgl.errors import ConfigError
from ocgl.graph import Batch, Neighborhood
from ocgl.graph.features import dense
from ocgl.strategies.base import STRICT
from ocgl.strategies.importance import ImportanceStrategy
from ocgl.strategies.training import GradientStrategy


def attention(seen: Neighborhood, weight: Tensor) -> Tensor:
    """Give the attention that each node of a look pays to the messages it receives, itself included.

    e_uv = LeakyReLU_0.2(h_u . tanh(h_v)) over the sampled edges u to v and the self-loops, h the first layer's
    output before ReLU, then softmax over what v receives.
    """
    last = dense(seen.table.take(seen.nodes[seen.sizes[-2] :]))
    h = torch.from_numpy(np.concatenate([seen.aggregated, last])) @ weight
    own = torch.arange(len(h))
    source = torch.cat([torch.from_numpy(seen.indices).long(), own])
    receivers = np.repeat(np.arange(len(seen.indptr) - 1), np.diff(seen.indptr))
    target = torch.cat([torch.from_numpy(receivers), own])
    e = nn.functional.leaky_relu((h[source] * torch.tanh(h)[target]).sum(1), 0.2)
    most = torch.full((len(h),), -torch.inf).scatter_reduce(0, target, e.detach(), "amax")
    raised = torch.exp(e - most[target])
    return raised / torch.zeros(len(h)).index_add(0, target, raised)[target]


@dataclass(kw_only=True, config=STRICT)
class TWP(ImportanceStrategy):
    """L = CE + sum of (lambda_l W_l + lambda_t W_t) (t - a)^2 + beta |grad CE|_1.

    W_l and W_t are running means of the squared gradients of CE and of the topology loss |attention|_2, the latter
    for the first layer only. As in the public code, the beta term is a number without a gradient: it changes
    nothing but the printed loss, and is kept for the grid's sake.

    >>> TWP(lambda_t=0).strengths()
    {'loss': 10000.0, 'topology': 0.0}
    """

    name: ClassVar[str] = "twp"
    reference: ClassVar[str] = "Liu et al., Overcoming catastrophic forgetting in graph neural networks, 2021"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = GradientStrategy.grid | {
        "lambda_l": (1e2, 1e4, 1e6),
        "lambda_t": (1e2, 1e4, 1e6),
        "beta": (1e-3, 1e-2, 1e-1),
    }

    lambda_l: NonNegativeFloat = 1e4
    lambda_t: NonNegativeFloat = 1e4
    beta: NonNegativeFloat = 1e-2

    def __post_init__(self) -> None:
        if self.norm == "sym" and self.degrees == "store":
            raise ConfigError("twp: attention is defined over sampled degrees; degrees=store does not go with norm=sym")
        super().__post_init__()

    def strengths(self) -> dict[str, float]:
        """Two importances: of the loss and of the topology."""
        return {"loss": self.lambda_l, "topology": self.lambda_t}

    def terms(self, seen: Neighborhood, batch: Batch) -> dict[str, list[Tensor]]:
        """Square the gradients of the cross-entropy and of the topology loss, each taken by itself."""
        loss = self.gradients(self.batch_loss(seen, batch))
        first, transposed = (self.head.weight, True) if self.layers == 1 else (next(iter(self.model.inner)), False)  # type: ignore[arg-type]
        topology = attention(seen, first.t() if transposed else first).norm()
        (by_first,) = torch.autograd.grad(topology, [first])
        squared = [by_first.square() if p is first else torch.zeros_like(p) for p in self.model.parameters()]
        return {"loss": [g.square() for g in loss], "topology": squared}
