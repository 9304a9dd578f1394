"""PDGNN: a parameter-decoupled network that remembers topology-aware embeddings."""

from typing import ClassVar

import numpy as np
from pydantic import NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass
from torch import nn

from ocgl.graph import Look, Neighborhood
from ocgl.graph.features import dense
from ocgl.models import MLP, propagate
from ocgl.strategies.base import STRICT
from ocgl.strategies.viewed import ViewedReplay
from ocgl.types import BoolArray, FloatArray, IntArray


@dataclass(kw_only=True, config=STRICT)
class PDGNN(ViewedReplay):
    """z_v = (A^K X)_v with symmetric weights on the sampled K-hop subgraph, no parameters; then an MLP F-hidden-C.

    L = mean CE over (z of the batch + remembered z); a remembered z stays as it was on arrival. With a `view`, z is
    that view of the node instead.

    >>> PDGNN(layers=1).look.hops
    1
    """

    name: ClassVar[str] = "pdgnn"
    reference: ClassVar[str] = "Zhang et al., Topology-aware embedding memory for continual learning on graphs, 2024"

    layers: NonNegativeInt = 2
    hidden: PositiveInt = 256

    def own_look(self) -> Look:
        """As many hops as the embedding has."""
        return self._looking(self.layers, "sym")

    def make_model(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make the MLP."""
        return MLP(self.trained_width(width), self.hidden, rng)

    def own_vectors(self, seen: Neighborhood) -> FloatArray:
        """Give z: aggregate raw features once per hop."""
        if seen.hops == 0:
            return dense(seen.own_rows())
        z = seen.aggregated
        for layer in range(2, seen.hops + 1):
            z = propagate(z, seen.block(layer))
        return z

    def step(self, seen: FloatArray, targets: IntArray, allowed: BoolArray | None) -> None:
        """Rehearse."""
        self.rehearse(seen, targets, allowed)
