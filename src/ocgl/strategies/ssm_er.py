"""Experience replay of sparsified subgraphs."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from ocgl.graph import Neighborhood
from ocgl.strategies.base import STRICT
from ocgl.strategies.ssm import SubgraphReplay
from ocgl.types import BoolArray, IntArray


@dataclass(kw_only=True, config=STRICT)
class SSMER(SubgraphReplay):
    """ER whose memories keep a sparsified, frozen neighbourhood.

    L = mean CE over (batch + centres of remembered subgraphs).

    >>> SSMER(neighbors_budget=(5, 5)).needs_store
    True
    """

    name: ClassVar[str] = "ssm-er"
    reference: ClassVar[str] = (
        "Zhang et al., Sparsified subgraph memory for continual graph representation learning, 2022"
    )

    def step(self, seen: Neighborhood, targets: IntArray, allowed: BoolArray | None) -> None:
        """Rehearse."""
        self.rehearse(seen, targets, allowed)
