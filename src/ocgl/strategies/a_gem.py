"""Averaged gradient episodic memory."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from ocgl.graph import Neighborhood
from ocgl.strategies.base import STRICT
from ocgl.strategies.projection import projected_step
from ocgl.strategies.replay import NodeReplay
from ocgl.types import BoolArray, IntArray


@dataclass(kw_only=True, config=STRICT)
class AGEM(NodeReplay):
    """A reservoir of bare nodes; the batch's gradient g gives way to that of a draw of the memory, r.

    g <- g - (g.r / r.r) r where g.r < 0, before Adam sees it.

    >>> AGEM().look.hops
    2
    """

    name: ClassVar[str] = "a-gem"
    reference: ClassVar[str] = "Chaudhry et al., Efficient lifelong learning with A-GEM, 2019"

    def step(self, seen: Neighborhood, targets: IntArray, allowed: BoolArray | None) -> None:
        """Step along the projected gradient."""
        projected_step(self, seen, targets, allowed)
