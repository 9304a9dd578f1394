"""Elastic weight consolidation, online."""

from typing import Any, ClassVar

from pydantic import NonNegativeFloat
from pydantic.dataclasses import dataclass
from torch import Tensor

from ocgl.graph import Batch, Neighborhood
from ocgl.strategies.base import STRICT
from ocgl.strategies.importance import ImportanceStrategy
from ocgl.strategies.training import GradientStrategy

STRENGTHS = (1e0, 1e2, 1e4, 1e6, 1e8, 1e10)


@dataclass(kw_only=True, config=STRICT)
class EWC(ImportanceStrategy):
    """L = CE + strength * sum of F (t - a)^2, F a running mean of the squared gradient of the batch's mean CE.

    >>> EWC(strength=100).strengths()
    {'fisher': 100.0}
    """

    name: ClassVar[str] = "ewc"
    reference: ClassVar[str] = "Kirkpatrick et al., Overcoming catastrophic forgetting in neural networks, 2017"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = GradientStrategy.grid | {"strength": STRENGTHS}

    strength: NonNegativeFloat = 100.0

    def strengths(self) -> dict[str, float]:
        """One importance: the empirical Fisher information."""
        return {"fisher": self.strength}

    def terms(self, seen: Neighborhood, batch: Batch) -> dict[str, list[Tensor]]:
        """Square the gradient of the mean cross-entropy at the parameters reached."""
        return {"fisher": [g.square() for g in self.gradients(self.batch_loss(seen, batch))]}
