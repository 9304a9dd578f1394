"""Plain training on the stream, the lower bound."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from ocgl.strategies.base import STRICT
from ocgl.strategies.training import GCNStrategy


@dataclass(kw_only=True, config=STRICT)
class Bare(GCNStrategy):
    """A GCN trained on each batch as it comes, with nothing against forgetting.

    L = CE(f(B), y), one Adam step per pass.

    >>> Bare(lr=0.01).look.hops
    2
    """

    name: ClassVar[str] = "bare"
    reference: ClassVar[str] = (
        "Kipf and Welling, Semi-supervised classification with graph convolutional networks, 2017"
    )
