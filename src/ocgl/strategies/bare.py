"""Plain training on the stream, the lower bound."""

from typing import ClassVar

from torch import Tensor

from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.gradient import Examples, GradientStrategy


@strategy
class Bare(GradientStrategy):
    r"""A GCN trained on each batch as it comes, with nothing against forgetting.

    .. math:: L = CE(f(B), y)

    >>> Bare(lr=0.01).sampling.hops
    2
    """

    name: ClassVar[str] = "bare"
    title: ClassVar[str] = "bare"
    idea: ClassVar[str] = "plain training, the lower bound"
    reference: ClassVar[str] = (
        "Kipf and Welling, Semi-supervised classification with graph convolutional networks, 2017"
    )

    def loss(self, examples: Examples) -> Tensor:
        """L = CE(batch)."""
        return self.cross_entropy(examples)
