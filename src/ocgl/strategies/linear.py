"""LINEAR: logistic regression on averaged one-hop features, with replay of those averages."""

from typing import ClassVar

import numpy as np
import torch
from pydantic.dataclasses import dataclass
from torch import nn

from ocgl.graph import Look, Neighborhood
from ocgl.graph.features import Table
from ocgl.models import MLP, narrow_logits, softmax_gradient
from ocgl.strategies.base import STRICT
from ocgl.strategies.replay import VectorReplay
from ocgl.strategies.training import labelled
from ocgl.types import BoolArray, FloatArray, IntArray


@dataclass(kw_only=True, config=STRICT)
class Linear(VectorReplay):
    """z_v = (x_v + sum of x_u over at most `fanout` sampled neighbours) / (1 + their number), then softmax(Wz + b).

    Each step has the batch's z together with `memory_proportion` remembered ones per node of the batch, drawn
    uniformly from a reservoir; a remembered z stays as it was on arrival. Cost O(rF + FC) per node.

    >>> Linear(memory_proportion=3).look.hops
    1
    """

    name: ClassVar[str] = "linear"
    reference: ClassVar[str] = "Donghi et al., Online continual graph learning, 2025"

    @property
    def look(self) -> Look:
        """One hop, averaged."""
        return self._looking(1, "mean")

    def make_model(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make the affine classifier."""
        return MLP(width, 0, rng)

    def starts_from_sums(self, table: Table) -> bool:
        """z is all that is used; that of sparse rows is not kept: written out it may be larger than the store."""
        return not table.sparse

    def encode(self, seen: Neighborhood) -> FloatArray:
        """Give z."""
        return seen.aggregated

    def scores(self, seen: Neighborhood) -> FloatArray:
        """Give the logits."""
        self._check_look(seen, self._width)
        return narrow_logits(seen.aggregated, *self.head.arrays)

    def step(self, seen: FloatArray, targets: IntArray, allowed: BoolArray | None) -> None:
        """Rehearse, with the gradient in closed form."""
        recalled = self.recall(self.memory_proportion * labelled(targets))
        if recalled is not None:
            seen = np.concatenate([seen, recalled[0]])
            targets = np.concatenate([targets, self.head.targets(recalled[1])])
        gradients = softmax_gradient(seen, *self.head.arrays, targets, allowed)
        self.nonfinite_losses += not np.isfinite(gradients[1]).all()
        self.apply(torch.from_numpy(gradient) for gradient in gradients)
