"""Averaged gradient episodic memory."""

from typing import Any, ClassVar

from pydantic import NonNegativeInt, PositiveInt

from ocgl.buffers import NodeBuffer
from ocgl.buffers.reservoir import Sampling
from ocgl.graph import Batch
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.gradient import REPLAY_GRID, Examples, GradientStrategy
from ocgl.strategies._core.projection import project


@strategy
class AGEM(GradientStrategy):
    """Projects the gradient g of the batch so that it does not point against the gradient r of the memories.

    g = grad CE(batch), r = grad CE(memories);  if g.r < 0:  g <- g - (g.r / r.r) r;  Adam follows g.
    A memory is a past node, drawn from a reservoir, without its neighbours.

    Args:
        memory_proportion: memories drawn per labelled node of the batch.
        buffer_size: nodes that the reservoir holds.
        reservoir: how the reservoir decides (see `Reservoir`).

    >>> AGEM().sampling.hops
    2
    """

    name: ClassVar[str] = "a-gem"
    title: ClassVar[str] = "A-GEM"
    idea: ClassVar[str] = "project the gradient of the batch off that of remembered nodes without neighbours"
    keeps: ClassVar[str] = "P + M F"
    update_cost: ClassVar[str] = "G + mp B F H"
    reference: ClassVar[str] = "Chaudhry et al., Efficient lifelong learning with A-GEM, 2019"
    replays: ClassVar[str] = "bare nodes without neighbours"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = REPLAY_GRID

    memory_proportion: PositiveInt = 1
    buffer_size: NonNegativeInt = 500
    reservoir: Sampling = "uniform"

    def build(self, width: int) -> None:
        """Make the network and the reservoir."""
        super().build(width)
        self.buffer = NodeBuffer(self.buffer_size, width, self.hops, self.seed, self.reservoir)

    def step(self, examples: Examples) -> None:
        """Follow the gradient of the batch, projected."""
        gradient = self.gradients(self.cross_entropy(examples))
        for memories in self.memories(self.buffer.draw_nodes(self.memory_proportion * examples.labelled)):
            gradient = project(gradient, self.gradients(self.cross_entropy(memories)))
        self.apply(gradient)

    def after_batch(self, examples: Examples, batch: Batch) -> None:
        """Offer the nodes of the batch to the reservoir."""
        self.buffer.offer_batch(batch)
