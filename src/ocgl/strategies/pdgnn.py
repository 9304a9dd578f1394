"""PDGNN: a parameter-decoupled network that remembers topology-aware embeddings."""

from typing import ClassVar

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn

from ocgl.graph import Neighborhood, NeighborSampling
from ocgl.graph.features import dense
from ocgl.nn import IGNORE, MLP, propagate
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.feature_replay import FeatureReplay
from ocgl.strategies._core.gradient import mean_cross_entropy
from ocgl.types import BoolArray, FloatArray, IntArray


@strategy
class PDGNN(FeatureReplay):
    """z_v = (A^K X)_v with symmetric weights on the sampled K-hop neighbourhood, no parameters; then an MLP on z.

    L = mean CE over (z of the batch and remembered z)

    Args:
        layers: K.
        hidden: hidden units of the MLP.

    >>> PDGNN(layers=1).sampling.hops
    1
    """

    name: ClassVar[str] = "pdgnn"
    title: ClassVar[str] = "PDGNN"
    idea: ClassVar[str] = "an MLP on parameter-free K-hop embeddings, with remembered embeddings"
    update_cost: ClassVar[str] = "(1 + mp) B F H"
    reference: ClassVar[str] = "Zhang et al., Topology-aware embedding memory for continual learning on graphs, 2024"

    layers: NonNegativeInt = 2
    hidden: PositiveInt = 256

    def own_sampling(self) -> NeighborSampling:
        """As many hops as the embedding has."""
        return self.sampling_of(self.layers, "sym")

    def own_features(self, neighborhood: Neighborhood) -> FloatArray:
        """Return z: aggregate raw features once per hop."""
        if neighborhood.hops == 0:
            return dense(neighborhood.own_rows())
        z = neighborhood.aggregated
        for layer in range(2, neighborhood.hops + 1):
            z = propagate(z, neighborhood.block(layer))
        return z

    def make_model(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make the MLP."""
        return MLP(width, self.hidden, rng)

    def step(self, z: FloatArray, targets: IntArray, allowed: BoolArray | None) -> None:
        """L = mean CE over (batch and memories)."""
        logits = self._logits(z)
        if allowed is not None:
            logits = logits.masked_fill(torch.from_numpy(~allowed), -torch.inf)
        memories, labels = self.buffer.draw(self.memory_proportion * int((targets != IGNORE).sum()))
        if len(labels):
            logits = torch.cat([logits, self._logits(memories)])
            targets = np.concatenate([targets, self.head.targets(labels)])
        self.trainer.descend(mean_cross_entropy(logits, targets))

    def _logits(self, z: FloatArray) -> Tensor:
        logits: Tensor = self.model(torch.from_numpy(self.inputs(z)))
        return logits
