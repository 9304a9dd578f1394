"""Topology-aware weight preserving, online."""

from typing import Any, ClassVar

import numpy as np
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor, nn

from ocgl.errors import ConfigError
from ocgl.graph import Batch, Neighborhood
from ocgl.nn import GraphNetwork, SparseGradient, gradients_of
from ocgl.nn.network import try_edge_scores
from ocgl.strategies._core.backbones import GCN_NAME, find_backbone, title_of_backbone
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
        if self.backbone != GCN_NAME and not hasattr(find_backbone(self.backbone), "edge_scores"):
            name = title_of_backbone(self.backbone)
            raise ConfigError(
                f"twp needs scores of the edges in the first layer: {name} has no edge_scores(x, edge_index)"
            )
        super().__post_init__()

    def build(self, width: int) -> None:
        """Make the network and its two importances."""
        super().build(width)
        self.importances = Importances(
            {"loss": self.lambda_l, "topology": self.lambda_t}, self.anchor_every, self.device
        )

    def make_network(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make the network; one that cannot score its edges is refused before the first batch."""
        network = super().make_network(width, rng)
        if isinstance(network, GraphNetwork):
            try_edge_scores(network.layers, width, title_of_backbone(self.backbone))
        return network

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
        scores: Tensor = self.model.attention(neighborhood)  # type: ignore[operator]
        return [g.multiplied() if isinstance(g, SparseGradient) else g for g in gradients_of(self.model, scores.norm())]

    @classmethod
    def canonical_config(cls, config: Json) -> Json:
        """With one pass the anchor is where the parameters are: no strength acts. Beta never does."""
        return without_effect(cls.grid, config, ("lambda_l", "lambda_t")) | {"beta": cls.grid["beta"][0]}
