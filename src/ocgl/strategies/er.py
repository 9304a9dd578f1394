"""Experience replay."""

from typing import Any, ClassVar

from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from ocgl.buffers import NodeBuffer
from ocgl.buffers.reservoir import Sampling
from ocgl.graph import Batch
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.gradient import REPLAY_GRID, Examples, GradientStrategy, ReplayLoss


@strategy
class ER(GradientStrategy):
    """Trains on the batch together with memories: past nodes, drawn from a reservoir, without their neighbours.

    L = CE(batch) + CE(memories), each a mean over its nodes

    Args:
        memory_proportion: memories drawn per labelled node of the batch.
        buffer_size: nodes that the reservoir holds.
        replay_loss: two means, added (`sum_of_means`), or one mean over batch and memories together (`one_mean`).
        reservoir: how the reservoir decides (see `Reservoir`).

    >>> ER(memory_proportion=2).memory_nodes
    0
    """

    name: ClassVar[str] = "er"
    title: ClassVar[str] = "ER"
    idea: ClassVar[str] = "train on the batch and remembered nodes without neighbours together"
    keeps: ClassVar[str] = "P + M F"
    update_cost: ClassVar[str] = "G + mp B F H"
    reference: ClassVar[str] = "Chaudhry et al., On tiny episodic memories in continual learning, 2019"
    replays: ClassVar[str] = "bare nodes without neighbours"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = REPLAY_GRID

    memory_proportion: PositiveInt = 1
    buffer_size: NonNegativeInt = 500
    replay_loss: ReplayLoss = "sum_of_means"
    reservoir: Sampling = "uniform"

    def build(self, width: int) -> None:
        """Make the network and the reservoir."""
        super().build(width)
        self.buffer = NodeBuffer(self.buffer_size, width, self.hops, self.seed, self.reservoir)

    def loss(self, examples: Examples) -> Tensor:
        """L = CE(batch) + CE(memories)."""
        memories = self.memories(self.buffer.draw_nodes(self.memory_proportion * examples.labelled))
        return self.replayed(self.replay_loss, examples, *memories)

    def after_batch(self, examples: Examples, batch: Batch) -> None:
        """Offer the nodes of the batch to the reservoir."""
        self.buffer.offer_batch(batch)
