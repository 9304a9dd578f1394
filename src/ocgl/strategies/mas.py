"""Memory aware synapses, online."""

from typing import Any, ClassVar, Literal

import torch
from pydantic import NonNegativeFloat
from pydantic.dataclasses import dataclass
from torch import Tensor

from ocgl.graph import Batch, Neighborhood
from ocgl.strategies.base import STRICT
from ocgl.strategies.ewc import STRENGTHS
from ocgl.strategies.importance import ImportanceStrategy
from ocgl.strategies.training import GradientStrategy


@dataclass(kw_only=True, config=STRICT)
class MAS(ImportanceStrategy):
    """As EWC, with the importance |ds/dt| of the outputs' length s = mean over the batch of |f(v)|^2; no labels used.

    >>> MAS(strength=1).strengths()
    {'sensitivity': 1.0}
    """

    name: ClassVar[str] = "mas"
    reference: ClassVar[str] = "Aljundi et al., Memory aware synapses, 2018"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = GradientStrategy.grid | {"strength": STRENGTHS}

    strength: NonNegativeFloat = 100.0
    power: Literal[1, 2] = 1

    def strengths(self) -> dict[str, float]:
        """One importance: the sensitivity of the outputs."""
        return {"sensitivity": self.strength}

    def terms(self, seen: Neighborhood, batch: Batch) -> dict[str, list[Tensor]]:
        """Give the absolute (or squared) gradient of the outputs' mean squared length."""
        length = self.forward(seen)[torch.from_numpy(batch.known)].square().sum(1).mean()
        return {"sensitivity": [g.abs().pow(self.power) for g in self.gradients(length)]}
