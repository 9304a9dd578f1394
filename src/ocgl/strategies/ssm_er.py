"""Experience replay of sparsified subgraphs."""

from typing import Any, ClassVar

from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from ocgl.buffers import SubgraphBuffer
from ocgl.buffers.subgraphs import Source, offer_bound
from ocgl.graph import Batch, Cost
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.gradient import REPLAY_GRID, Examples, GradientStrategy


@strategy
class SSMER(GradientStrategy):
    """Experience replay whose memories keep a sparsified neighbourhood.

    L = mean CE over (batch and centres of the memories)

    A memory is a sparsified subgraph around a past node, frozen when it was stored: at most b1 first-hop and b2
    second-hop nodes, drawn uniformly, and all edges among them. All its nodes count against the buffer, which
    therefore holds M // (1 + b1 + b2) subgraphs.

    Args:
        memory_proportion: memories drawn per labelled node of the batch.
        buffer_size: M, the nodes that the reservoir holds.
        neighbors_budget: (b1, b2).
        source: cut subgraphs out of the store's `graph`, or out of what was sampled around the `batch`.

    >>> SSMER(neighbors_budget=(5, 5)).needs_store
    True
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
    neighbors_budget: tuple[NonNegativeInt, NonNegativeInt] = (5, 5)
    source: Source = "graph"

    def build(self, width: int) -> None:
        """Make the network and the reservoir."""
        super().build(width)
        self.buffer = SubgraphBuffer(
            self.buffer_size, self.neighbors_budget, width, self.sampling, self.source, self.seed
        )

    def loss(self, examples: Examples) -> Tensor:
        """L = mean CE over (batch and centres of the memories)."""
        memories = self.memories(self.buffer.draw_nodes(self.memory_proportion * examples.labelled))
        return self.cross_entropy(examples, *memories)

    def after_batch(self, examples: Examples, batch: Batch) -> None:
        """Offer the nodes of the batch, with a subgraph around each that is kept, to the reservoir."""
        self.buffer.offer_batch(batch)

    @property
    def needs_store(self) -> bool:
        """Subgraphs are cut out of the store, unless `source` is `batch`."""
        return self.source == "graph"

    def extra_bound(self, nodes: int, row_bytes: int) -> Cost:
        """Return the most that cutting a subgraph around each of `nodes` nodes reads."""
        return offer_bound(self.neighbors_budget, self.source, nodes, row_bytes)
