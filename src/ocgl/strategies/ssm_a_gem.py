"""Averaged gradient episodic memory with sparsified subgraphs."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from ocgl.graph import Neighborhood
from ocgl.strategies.base import STRICT
from ocgl.strategies.projection import projected_step
from ocgl.strategies.ssm import SubgraphReplay
from ocgl.types import BoolArray, IntArray


@dataclass(kw_only=True, config=STRICT)
class SSMAGEM(SubgraphReplay):
    """A-GEM whose reference gradient is that of remembered subgraphs.

    >>> SSMAGEM().look.hops
    2
    """

    name: ClassVar[str] = "ssm-a-gem"
    reference: ClassVar[str] = "Zhang et al., 2022, with Chaudhry et al., 2019"

    def step(self, seen: Neighborhood, targets: IntArray, allowed: BoolArray | None) -> None:
        """Step along the projected gradient."""
        projected_step(self, seen, targets, allowed)
