"""Elastic weight consolidation, online."""

from typing import Any, ClassVar

from pydantic import NonNegativeFloat, PositiveInt

from ocgl.graph import Batch
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.gradient import GRID, Examples, GradientStrategy
from ocgl.strategies._core.importance import STRENGTHS, Importances, without_effect
from ocgl.types import Json


@strategy
class EWC(GradientStrategy):
    """Holds parameters t near an anchor a, by the Fisher information F of the loss.

    L = CE(batch) + strength * sum of F (t - a)^2,  F the running mean of (grad CE(batch))^2

    Args:
        strength: weight of the penalty.
        anchor_every: batches between moves of the anchor; with 1, the penalty acts between passes only.

    >>> EWC(strength=100).strength
    100.0
    """

    name: ClassVar[str] = "ewc"
    title: ClassVar[str] = "EWC"
    idea: ClassVar[str] = "hold parameters near their last values, by squared gradients of the loss"
    keeps: ClassVar[str] = "P + 2 p"
    update_cost: ClassVar[str] = "G (1 + 1 / passes)"
    reference: ClassVar[str] = "Kirkpatrick et al., Overcoming catastrophic forgetting in neural networks, 2017"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = GRID | {"strength": STRENGTHS}

    strength: NonNegativeFloat = 100.0
    anchor_every: PositiveInt = 1

    def build(self, width: int) -> None:
        """Make the network and its importances."""
        super().build(width)
        self.importances = Importances({"fisher": self.strength}, self.anchor_every, self.device)

    def step(self, examples: Examples) -> None:
        """Follow grad CE + 2 strength F (t - a)."""
        gradient = self.gradients(self.cross_entropy(examples))
        self.apply(self.importances.penalized(gradient, self.trainer.parameters))

    def after_batch(self, examples: Examples, batch: Batch) -> None:
        """Take the squared gradient at the parameters reached into F."""
        fisher = [g.square() for g in self.gradients(self.cross_entropy(examples))]
        self.importances.update({"fisher": fisher}, examples.labelled, self.trainer.parameters)

    @classmethod
    def canonical_config(cls, config: Json) -> Json:
        """With one pass the anchor is where the parameters are: no strength acts."""
        return without_effect(cls.grid, config, ("strength",))
