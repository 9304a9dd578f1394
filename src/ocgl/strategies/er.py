"""Experience replay."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from ocgl.graph import Neighborhood
from ocgl.strategies.base import STRICT
from ocgl.strategies.replay import NodeReplay
from ocgl.types import BoolArray, IntArray


@dataclass(kw_only=True, config=STRICT)
class ER(NodeReplay):
    """A reservoir of bare nodes; every step has the batch and a draw of the memory, the memories without neighbours.

    L = mean CE over (batch + memories).

    >>> ER(memory_proportion=2).memory_nodes
    0
    """

    name: ClassVar[str] = "er"
    reference: ClassVar[str] = "Chaudhry et al., On tiny episodic memories in continual learning, 2019"

    def step(self, seen: Neighborhood, targets: IntArray, allowed: BoolArray | None) -> None:
        """Rehearse."""
        self.rehearse(seen, targets, allowed)
