"""LINEAR: logistic regression on averaged one-hop features, with replay of those averages."""

from typing import ClassVar

import numpy as np
import torch
from pydantic.dataclasses import dataclass
from torch import nn

from ocgl.graph import Look, Neighborhood
from ocgl.models import MLP, narrow_logits, softmax_gradient
from ocgl.strategies.base import STRICT
from ocgl.strategies.training import labelled
from ocgl.strategies.viewed import ViewedReplay
from ocgl.types import BoolArray, FloatArray, IntArray


@dataclass(kw_only=True, config=STRICT)
class Linear(ViewedReplay):
    """z_v = (x_v + sum of x_u over at most `fanout` sampled neighbours) / (1 + their number), then softmax(Wz + b).

    Each step has the batch's z together with `memory_proportion` remembered ones per node of the batch, drawn
    uniformly from a reservoir; a remembered z stays as it was on arrival. Cost O(rF + FC) per node. With a `view`, z is
    that view of the node instead.

    >>> Linear(memory_proportion=3).look.hops
    1
    """

    name: ClassVar[str] = "linear"
    reference: ClassVar[str] = "Donghi et al., Online continual graph learning, 2025"

    def own_look(self) -> Look:
        """One hop, averaged."""
        return self._looking(1, "mean")

    def own_vectors(self, seen: Neighborhood) -> FloatArray:
        """Give z."""
        return seen.aggregated

    def make_model(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make the affine classifier."""
        return MLP(self.trained_width(width), 0, rng)

    def scores(self, seen: Neighborhood) -> FloatArray:
        """Give the logits."""
        self._check_look(seen, self._width)
        return narrow_logits(self.trained_on(self.encode(seen)), *self.head.arrays)

    def step(self, seen: FloatArray, targets: IntArray, allowed: BoolArray | None) -> None:
        """Rehearse, with the gradient in closed form."""
        recalled = self.recall(self.memory_proportion * labelled(targets))
        if recalled is not None:
            seen = np.concatenate([seen, recalled[0]])
            targets = np.concatenate([targets, self.head.targets(recalled[1])])
        gradients = softmax_gradient(self.trained_on(seen), *self.head.arrays, targets, allowed)
        self.nonfinite_losses += not np.isfinite(gradients[1]).all()
        self.apply(torch.from_numpy(gradient) for gradient in gradients)
