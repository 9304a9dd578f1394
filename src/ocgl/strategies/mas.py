"""Memory aware synapses, online."""

from typing import Any, ClassVar, Literal

from pydantic import NonNegativeFloat, PositiveInt

from ocgl.graph import Batch
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.gradient import GRID, Examples, GradientStrategy
from ocgl.strategies._core.importance import STRENGTHS, Importances, without_effect
from ocgl.types import Json


@strategy
class MAS(GradientStrategy):
    """Holds parameters t near an anchor a, by the sensitivity S of the outputs; the importance uses no labels.

    L = CE(batch) + strength * sum of S (t - a)^2,  S the running mean of |grad of mean_v |f(v)|^2|

    Args:
        strength: weight of the penalty.
        anchor_every: batches between moves of the anchor; with 1, the penalty acts between passes only.
        power: 1 for the absolute gradient, 2 for the squared one.
        average_outputs: take the mean of the squared outputs of a node instead of their sum.

    >>> MAS(strength=1).power
    1
    """

    name: ClassVar[str] = "mas"
    title: ClassVar[str] = "MAS"
    idea: ClassVar[str] = "hold parameters near their last values, by the sensitivity of the outputs"
    keeps: ClassVar[str] = "P + 2 p"
    update_cost: ClassVar[str] = "G (1 + 1 / passes)"
    reference: ClassVar[str] = "Aljundi et al., Memory aware synapses, 2018"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = GRID | {"strength": STRENGTHS}

    strength: NonNegativeFloat = 100.0
    anchor_every: PositiveInt = 1
    power: Literal[1, 2] = 1
    average_outputs: bool = False

    def build(self, width: int) -> None:
        """Make the network and its importances."""
        super().build(width)
        self.importances = Importances({"sensitivity": self.strength}, self.anchor_every, self.device)

    def step(self, examples: Examples) -> None:
        """Follow grad CE + 2 strength S (t - a)."""
        gradient = self.gradients(self.cross_entropy(examples))
        self.apply(self.importances.penalized(gradient, self.trainer.parameters))

    def after_batch(self, examples: Examples, batch: Batch) -> None:
        """Take the gradient of the outputs' mean squared length at the parameters reached into S."""
        squares = self.labelled(self.logits(examples.neighborhood), examples).square()
        length = squares.mean() if self.average_outputs else squares.sum(1).mean()
        sensitivity = [g.abs().pow(self.power) for g in self.gradients(length)]
        self.importances.update({"sensitivity": sensitivity}, examples.labelled, self.trainer.parameters)

    @classmethod
    def canonical_config(cls, config: Json) -> Json:
        """With one pass the anchor is where the parameters are: no strength acts."""
        return without_effect(cls.grid, config, ("strength",))
