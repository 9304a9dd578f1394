"""Topology-aware weight preserving, online."""

from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor, nn

from ocgl.errors import ConfigError
from ocgl.graph import Batch, Neighborhood
from ocgl.graph.features import dense
from ocgl.nn import GCN
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.gradient import GRID, Examples, GradientStrategy
from ocgl.strategies._core.importance import Importances, without_effect
from ocgl.types import Json


@strategy
class TWP(GradientStrategy):
    """EWC, and the same for the attention of the first layer.

    L = CE(batch) + sum of (lambda_l W_l + lambda_t W_t) (t - a)^2 + beta |grad CE|_1
    W_l, W_t: running means of the squared gradients of CE and of the topology loss |attention|_2

    As in the public code, the beta term is a number without a gradient: it changes nothing but the printed loss. It
    is kept for the grid's sake. The topology loss reaches the first layer only.

    Args:
        lambda_l: weight of the penalty by the loss.
        lambda_t: weight of the penalty by the topology.
        beta: weight of the term without a gradient.
        anchor_every: batches between moves of the anchor; with 1, the penalty acts between passes only.

    >>> TWP(lambda_t=0).lambda_l
    10000.0
    """

    name: ClassVar[str] = "twp"
    title: ClassVar[str] = "TWP"
    idea: ClassVar[str] = "EWC, and the same for the attention of the first layer"
    keeps: ClassVar[str] = "P + 3 p"
    update_cost: ClassVar[str] = "G (1 + 1 / passes) + B r^2 F H / passes"
    reference: ClassVar[str] = "Liu et al., Overcoming catastrophic forgetting in graph neural networks, 2021"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = GRID | {
        "lambda_l": (1e2, 1e4, 1e6),
        "lambda_t": (1e2, 1e4, 1e6),
        "beta": (1e-3, 1e-2, 1e-1),
    }

    lambda_l: NonNegativeFloat = 1e4
    lambda_t: NonNegativeFloat = 1e4
    beta: NonNegativeFloat = 1e-2
    anchor_every: PositiveInt = 1

    def __post_init__(self) -> None:
        if self.norm == "sym" and self.degrees == "store":
            raise ConfigError("twp: attention is defined over sampled degrees; degrees=store does not go with norm=sym")
        super().__post_init__()

    def build(self, width: int) -> None:
        """Make the network and its two importances."""
        super().build(width)
        self.importances = Importances({"loss": self.lambda_l, "topology": self.lambda_t}, self.anchor_every)

    def step(self, examples: Examples) -> None:
        """Follow grad CE + 2 (lambda_l W_l + lambda_t W_t) (t - a)."""
        gradient = self.gradients(self.cross_entropy(examples))
        self.apply(self.importances.penalized(gradient, self.trainer.parameters))

    def after_batch(self, examples: Examples, batch: Batch) -> None:
        """Take the squared gradients of CE and of the topology loss at the parameters reached into W_l and W_t."""
        by_loss = [g.square() for g in self.gradients(self.cross_entropy(examples))]
        by_topology = [g.square() for g in self._topology_gradients(examples.neighborhood)]
        terms = {"loss": by_loss, "topology": by_topology}
        self.importances.update(terms, examples.labelled, self.trainer.parameters)

    def _topology_gradients(self, neighborhood: Neighborhood) -> list[Tensor]:
        assert isinstance(self.model, GCN)
        first = self.model.first
        weight = first.t() if self.layers == 1 else first
        (gradient,) = torch.autograd.grad(attention(neighborhood, weight).norm(), [first])
        return [gradient if p is first else torch.zeros_like(p) for p in self.model.parameters()]

    @classmethod
    def canonical_config(cls, config: Json) -> Json:
        """With one pass the anchor is where the parameters are: no strength acts. Beta never does."""
        return without_effect(cls.grid, config, ("lambda_l", "lambda_t")) | {"beta": cls.grid["beta"][0]}


def attention(neighborhood: Neighborhood, weight: Tensor) -> Tensor:
    """Return the attention that each node pays to the messages it receives, its own among them.

    e_uv = LeakyReLU_0.2(h_u . tanh(h_v)) over the sampled edges u to v and the self-loops, h the first layer's
    output before ReLU; then softmax over what v receives.
    """
    last = dense(neighborhood.table.take(neighborhood.nodes[neighborhood.sizes[-2] :]))
    h = torch.from_numpy(np.concatenate([neighborhood.aggregated, last])) @ weight
    nodes = torch.arange(len(h))
    source = torch.cat([torch.from_numpy(neighborhood.indices).long(), nodes])
    receivers = np.repeat(np.arange(len(neighborhood.indptr) - 1), np.diff(neighborhood.indptr))
    target = torch.cat([torch.from_numpy(receivers), nodes])
    e = nn.functional.leaky_relu((h[source] * torch.tanh(h)[target]).sum(1), 0.2)
    most = torch.full((len(h),), -torch.inf).scatter_reduce(0, target, e.detach(), "amax")
    raised = torch.exp(e - most[target])
    return raised / torch.zeros(len(h)).index_add(0, target, raised)[target]
