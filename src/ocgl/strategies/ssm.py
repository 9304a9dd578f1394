"""Sparsified subgraph memory: what SSM-ER and SSM-A-GEM share."""

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import NonNegativeInt
from pydantic.dataclasses import dataclass

from ocgl.buffers import SubgraphBuffer
from ocgl.errors import NeedsStoreError
from ocgl.graph import Batch, Neighborhood
from ocgl.graph.features import dense
from ocgl.graph.sparsify import Sparsified, local_adjacency, sparsify
from ocgl.rng import generator, key, restore, state_of
from ocgl.state import State
from ocgl.strategies.base import STRICT
from ocgl.strategies.replay import Buffer, Replay
from ocgl.strategies.training import GCNStrategy
from ocgl.types import IntArray, PositionArray


@dataclass(kw_only=True, config=STRICT)
class SubgraphReplay(GCNStrategy, Replay[Neighborhood]):
    """Remembers nodes with a sparsified subgraph around them, frozen when it is stored.

    At most `neighbors_budget` = (b1, b2) first-hop and second-hop nodes, drawn uniformly; all visible edges among
    them. Neighbours count against the budget: a memory of M nodes holds M // (1 + b1 + b2) examples. `source`: the
    store's graph, or only what the batch's own look has sampled (no store needed).
    """

    grid: ClassVar[dict[str, tuple[Any, ...]]] = Replay.grid | {"neighbors_budget": ((5, 5), (10, 10), (25, 25))}

    replays: ClassVar[str] = "stored sparsified subgraphs"

    neighbors_budget: tuple[NonNegativeInt, NonNegativeInt] = (5, 5)
    source: Literal["graph", "batch"] = "graph"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rng_sparsify = generator(self.seed, "sparsify")

    @property
    def needs_store(self) -> bool:
        """Whether subgraphs are cut out of the store."""
        return self.source == "graph"

    def make_buffer(self, width: int, rng: np.random.Generator) -> Buffer:
        """Remember as many subgraphs as fit."""
        return SubgraphBuffer(self.buffer_size, self.neighbors_budget, width, rng)

    @property
    def subgraphs(self) -> SubgraphBuffer:
        """The memory."""
        assert isinstance(self._buffer, SubgraphBuffer)
        return self._buffer

    def recall(self, count: int) -> tuple[Neighborhood, IntArray] | None:
        """Draw remembered subgraphs, side by side."""
        return self.subgraphs.draw(count, self.look, self._rng_replay)

    def check(self, batch: Batch) -> None:
        """Refuse a batch without a store where one is needed."""
        super().check(batch)
        if self.needs_store and (batch.store is None or batch.neighborhood.table is not batch.store.features):
            raise NeedsStoreError(
                f"{self.name} cuts subgraphs out of the store it looks in: set source=batch to do without"
            )

    def after_batch(self, seen: Neighborhood, batch: Batch) -> None:
        """Offer each labelled node to the reservoir; build only what is kept."""
        seeds = np.nonzero(batch.known)[0]
        for seed, slot in zip(seeds, self.subgraphs.offer(len(seeds)), strict=True):
            if slot >= 0:
                subgraph, nodes = self._cut(seen, batch, int(seed))
                rows = dense(seen.table.take(nodes))
                self.subgraphs.put(int(slot), subgraph, rows, int(batch.labels[seed]))

    def _cut(self, seen: Neighborhood, batch: Batch, seed: int) -> tuple[Sparsified, PositionArray]:
        """Give a subgraph around a seed, and the positions of its nodes in the table of features."""
        drawn = key(self._rng_sparsify)
        if self.source == "graph":
            assert batch.store is not None
            found = batch.store.sparsified(int(seen.nodes[seed]), self.neighbors_budget, drawn)
            return found, found.nodes
        found = sparsify(local_adjacency(seen), seed, self.neighbors_budget, drawn)
        return found, seen.nodes[found.nodes]

    def state(self) -> State:
        """Give the sparsifier's generator as well."""
        state = super().state()
        state.facts["sparsify"] = state_of(self._rng_sparsify)
        return state

    def take_state(self, state: State) -> None:
        """Take the sparsifier's generator as well."""
        super().take_state(state)
        restore(self._rng_sparsify, state.facts["sparsify"])
