"""LINEAR: logistic regression on averaged one-hop features, with replay of those averages."""

from typing import ClassVar

import numpy as np
import torch
from torch import nn

from ocgl.errors import ConfigError
from ocgl.graph import Neighborhood, NeighborSampling
from ocgl.nn import IGNORE, MLP, narrow_logits, softmax_gradient
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.feature_replay import FeatureReplay
from ocgl.types import BoolArray, FloatArray, IntArray


@strategy
class Linear(FeatureReplay):
    """z_v = (x_v + sum of x_u over at most `fanout` sampled neighbours u) / (1 + their number); softmax(W z + b).

    L = CE(z of the batch) + CE(remembered z), each a mean over its nodes

    Cost O(rF + FC) per node.

    Args:
        self_counts: the node is one of the `fanout` averaged nodes, with at most `fanout` - 1 neighbours.

    >>> Linear(memory_proportion=3).sampling.hops
    1
    """

    name: ClassVar[str] = "linear"
    title: ClassVar[str] = "LINEAR"
    idea: ClassVar[str] = "logistic regression on one-hop means, with remembered means"
    update_cost: ClassVar[str] = "(1 + mp) B F C"
    reference: ClassVar[str] = "Donghi et al., Online continual graph learning, 2025"

    self_counts: bool = False

    def __post_init__(self) -> None:
        if self.self_counts and (self.view or not isinstance(self.fanout, int) or self.fanout < 2):
            raise ConfigError("self_counts leaves fanout - 1 neighbours: give one number from 2 as fanout, and no view")
        super().__post_init__()

    def own_sampling(self) -> NeighborSampling:
        """One hop, averaged."""
        if self.self_counts and isinstance(self.fanout, int):
            return NeighborSampling(1, self.fanout - 1, "mean")
        return self.sampling_of(1, "mean")

    def own_features(self, neighborhood: Neighborhood) -> FloatArray:
        """Return z: the mean over the node and its sampled neighbours."""
        return neighborhood.aggregated

    def make_model(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make the affine classifier W z + b."""
        return MLP(width, 0, rng)

    def step(self, z: FloatArray, targets: IntArray, allowed: BoolArray | None) -> None:
        """L = CE(batch) + CE(memories), with its gradient in closed form."""
        batch = len(targets) if self.replay_loss == "sum_of_means" else None
        memories, labels = self.buffer.draw(self.memory_proportion * int((targets != IGNORE).sum()))
        if len(labels):
            z, targets = np.concatenate([z, memories]), np.concatenate([targets, self.head.targets(labels)])
        gradients = softmax_gradient(self.inputs(z), *self.head.arrays, targets, allowed, batch)
        self.trainer.count_loss(bool(np.isfinite(gradients[1]).all()))
        self.trainer.apply(torch.from_numpy(gradient) for gradient in gradients)

    def scores(self, neighborhood: Neighborhood) -> FloatArray:
        """Return the logits W z + b."""
        self.check_neighborhood(neighborhood)
        return narrow_logits(self.inputs(self.features(neighborhood)), *self.head.arrays)
