"""Experience replay of sparsified subgraphs."""

from typing import Any, ClassVar

from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from ocgl.buffers import SubgraphBuffer
from ocgl.buffers.reservoir import Sampling
from ocgl.buffers.subgraphs import Centres, Source, offer_bound
from ocgl.graph import Batch, Cost
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.gradient import REPLAY_GRID, Examples, GradientStrategy, ReplayLoss


@strategy
class SSMER(GradientStrategy):
    """Experience replay whose memories keep a sparsified neighbourhood.

    L = CE(batch) + CE(centres of the memories), each a mean over its nodes

    A memory is a sparsified subgraph around a past node, frozen when it was stored: at most b1 first-hop and b2
    second-hop nodes, drawn uniformly, with the edges among them.

    Args:
        memory_proportion: memories drawn per labelled node of the batch.
        buffer_size: M, the nodes that the reservoir holds (see `centres`).
        replay_loss: two means, added (`sum_of_means`), or one mean over batch and memories together (`one_mean`).
        neighbors_budget: (b1, b2).
        source: cut subgraphs out of what was sampled around the `batch`, with the sampled edges only, or out of the
            store's `graph`, with all edges.
        centres: `on_top`: only neighbours count against M, and the buffer holds M // max(1, b1 + b2) subgraphs, up to
            M (1 + 1 / (b1 + b2)) nodes; `counted`: all nodes count, and it holds M // (1 + b1 + b2).
        reservoir: how the reservoir decides (see `Reservoir`).

    >>> SSMER(neighbors_budget=(5, 5)).needs_store
    False
    """

    name: ClassVar[str] = "ssm-er"
    title: ClassVar[str] = "SSM-ER"
    idea: ClassVar[str] = "ER with remembered sparsified subgraphs"
    keeps: ClassVar[str] = "P + M (F + b)"
    update_cost: ClassVar[str] = "G + mp B (1 + b1) F H"
    reference: ClassVar[str] = (
        "Zhang et al., Sparsified subgraph memory for continual graph representation learning, 2022"
    )
    replays: ClassVar[str] = "stored sparsified subgraphs"
    without_store: ClassVar[str] = "set source=batch to do without"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = REPLAY_GRID | {"neighbors_budget": ((5, 5), (10, 10), (25, 25))}

    memory_proportion: PositiveInt = 1
    buffer_size: NonNegativeInt = 500
    replay_loss: ReplayLoss = "sum_of_means"
    neighbors_budget: tuple[NonNegativeInt, NonNegativeInt] = (5, 5)
    source: Source = "batch"
    centres: Centres = "on_top"
    reservoir: Sampling = "uniform"

    def build(self, width: int) -> None:
        """Make the network and the reservoir."""
        super().build(width)
        self.buffer = SubgraphBuffer(
            self.buffer_size,
            self.neighbors_budget,
            width,
            self.sampling,
            self.source,
            self.centres,
            self.seed,
            self.reservoir,
        )

    def loss(self, examples: Examples) -> Tensor:
        """L = CE(batch) + CE(centres of the memories)."""
        memories = self.memories(self.buffer.draw_nodes(self.memory_proportion * examples.labelled))
        return self.replayed(self.replay_loss, examples, *memories)

    def after_batch(self, examples: Examples, batch: Batch) -> None:
        """Offer the nodes of the batch, with a subgraph around each that is kept, to the reservoir."""
        self.buffer.offer_batch(batch)

    @property
    def needs_store(self) -> bool:
        """Subgraphs may be cut out of the store, and passes may sample from it."""
        return self.source == "graph" or super().needs_store

    def extra_bound(self, nodes: int, row_bytes: int) -> Cost:
        """Return the most that cutting a subgraph around each of `nodes` nodes reads, beside further samples."""
        cuts = offer_bound(self.neighbors_budget, self.source, nodes, row_bytes)
        return super().extra_bound(nodes, row_bytes) + cuts
