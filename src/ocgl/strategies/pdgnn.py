"""PDGNN: a parameter-decoupled network that remembers topology-aware embeddings."""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn

from ocgl.graph import Block, Neighborhood, NeighborSampling
from ocgl.graph.features import Table, dense
from ocgl.nn import IGNORE, MLP, propagate
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.feature_replay import FeatureReplay
from ocgl.strategies._core.gradient import mean_cross_entropy
from ocgl.types import BoolArray, FloatArray, IntArray


@strategy
class PDGNN(FeatureReplay):
    """z_v = (A^K X)_v with symmetric weights on the sampled K-hop neighbourhood, no parameters; then an MLP on z.

    L = CE(z of the batch) + CE(remembered z), each a mean over its nodes

    Args:
        layers: K.
        hidden: hidden units of the MLP.
        sgc_degrees: degrees of the symmetric weights: `sampled` in-degrees plus one, with self-loops, or those of each
            hop's `block` (edges that leave u, edges that reach v), without self-loops.

    >>> PDGNN(layers=1).sampling.hops
    1
    """

    name: ClassVar[str] = "pdgnn"
    title: ClassVar[str] = "PDGNN"
    idea: ClassVar[str] = "an MLP on parameter-free K-hop embeddings, with remembered embeddings"
    update_cost: ClassVar[str] = "(1 + mp) B F H"
    reference: ClassVar[str] = "Zhang et al., Topology-aware embedding memory for continual learning on graphs, 2024"

    layers: NonNegativeInt = 2
    hidden: PositiveInt = 256
    sgc_degrees: Literal["sampled", "block"] = "sampled"

    def own_sampling(self) -> NeighborSampling:
        """As many hops as the embedding has."""
        return self.sampling_of(self.layers, "sym" if self.sgc_degrees == "sampled" else "sum")

    def own_features(self, neighborhood: Neighborhood) -> FloatArray:
        """Return z: aggregate raw features once per hop."""
        if neighborhood.hops == 0:
            return dense(neighborhood.own_rows())
        if self.sgc_degrees == "block":
            z = neighborhood.table.aggregate(neighborhood.nodes, by_block_degrees(neighborhood.block(1)))
            for layer in range(2, neighborhood.hops + 1):
                z = propagate(z, by_block_degrees(neighborhood.block(layer)))
            return z
        z = neighborhood.aggregated
        for layer in range(2, neighborhood.hops + 1):
            z = propagate(z, neighborhood.block(layer))
        return z

    def make_model(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make the MLP."""
        return MLP(width, self.hidden, rng)

    def step(self, z: FloatArray, targets: IntArray, allowed: BoolArray | None) -> None:
        """L = CE(batch) + CE(memories)."""
        logits = self._logits(z)
        if allowed is not None:
            logits = logits.masked_fill(torch.from_numpy(~allowed), -torch.inf)
        memories, labels = self.buffer.draw(self.memory_proportion * int((targets != IGNORE).sum()))
        if len(labels) and self.replay_loss == "one_mean":
            logits = torch.cat([logits, self._logits(memories)])
            targets = np.concatenate([targets, self.head.targets(labels)])
        loss = mean_cross_entropy(logits, targets)
        if len(labels) and self.replay_loss == "sum_of_means":
            loss = loss + mean_cross_entropy(self._logits(memories), self.head.targets(labels))
        self.trainer.descend(loss)

    def _logits(self, z: FloatArray) -> Tensor:
        logits: Tensor = self.model(torch.from_numpy(self.inputs(z)))
        return logits

    def supports_cached_aggregates(self, table: Table) -> bool:
        """Weights by the degrees of a block are known when its nodes are."""
        return self.sgc_degrees == "sampled" and super().supports_cached_aggregates(table)


def by_block_degrees(block: Block) -> Block:
    """Return a block without self-loops and with weights 1 / sqrt(out_u in_v) by the degrees in the block."""
    received = np.diff(block.indptr[: block.rows + 1])
    edges = block.indices[: block.indptr[block.rows]]
    sent = np.bincount(edges, minlength=block.inputs)
    target = np.repeat(np.arange(block.rows), received)
    weights = 1.0 / np.sqrt(sent[edges].astype(np.float64) * received[target])
    return replace(block, edge_weight=weights.astype(np.float32), self_weight=np.zeros(block.rows, np.float32))
