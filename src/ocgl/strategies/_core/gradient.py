"""Strategies that train a graph network with gradients: the training loop and what a method can change in it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from ocgl.graph import Batch, Neighborhood, NeighborSampling
from ocgl.graph.features import Table
from ocgl.graph.neighbor_sampling import Degrees, Norm
from ocgl.nn import GCN, IGNORE, GrowingHead
from ocgl.rng import generator
from ocgl.strategies._core.base import Strategy, strategy
from ocgl.strategies._core.trainer import Gradients, Trainer
from ocgl.types import BoolArray, FloatArray, IntArray

GRID: dict[str, tuple[Any, ...]] = {"lr": (1e-2, 1e-3, 1e-4, 1e-5), "passes": (1, 5)}
"""The part of the paper's search space that all gradient-based methods share."""

REPLAY_GRID: dict[str, tuple[Any, ...]] = GRID | {"memory_proportion": (1, 2, 3)}
"""The same with the memories drawn per node of the batch."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Nodes that a loss is computed on.

    Attributes:
        neighborhood: their sampled neighbourhood.
        targets: the output of each node's label; IGNORE for a node without a label, which has no part in a loss.
        allowed: the outputs that each node can have (nodes x outputs), where the setting tells.
    """

    neighborhood: Neighborhood
    targets: IntArray
    allowed: BoolArray | None = None

    @property
    def labelled(self) -> int:
        """Number of nodes with a label."""
        return int((self.targets != IGNORE).sum())


@strategy
class GradientStrategy(Strategy):
    """Trains a GCN on each batch: one neighbourhood sample, then `passes` Adam steps.

    A method changes `loss`, or, where it does more than follow the gradient of a loss, `step`; `build` adds parts;
    `before_batch` and `after_batch` run once per batch.

    Args:
        lr: learning rate of Adam.
        passes: steps on each batch.
        layers: layers of the network; a neighbourhood has as many hops.
        hidden: hidden units.
        norm: weights of the sampled edges: `sum`, `mean` or `sym`.
        degrees: with `sym`, degrees in the sample or in the whole graph so far.
    """

    grid: ClassVar[dict[str, tuple[Any, ...]]] = GRID
    update_cost: ClassVar[str] = "G"

    lr: PositiveFloat = 1e-3
    passes: PositiveInt = 1
    layers: PositiveInt = 2
    hidden: PositiveInt = Field(default=256)
    norm: Norm = "sum"
    degrees: Degrees = "sampled"

    def build(self, width: int) -> None:
        """Make the network and its optimizer."""
        super().build(width)
        rng = generator(self.seed, "init")
        self.trainer = Trainer(GCN(width, self.layers, self.hidden, rng), self.lr, rng)

    def loss(self, examples: Examples) -> Tensor:
        """Return the loss on a batch: the mean cross-entropy over its labelled nodes."""
        return self.cross_entropy(examples)

    def step(self, examples: Examples) -> None:
        """Make one optimizer step on a batch."""
        self.descend(self.loss(examples))

    def before_batch(self, examples: Examples) -> None:
        """Prepare what all passes on a batch share. The head has grown already."""

    def after_batch(self, examples: Examples, batch: Batch) -> None:
        """Update buffers, importances or teachers, once, after the last pass."""

    def update(self, batch: Batch) -> None:
        """Grow the head, make `passes` steps, then update what the method keeps."""
        if self.trainer.add_outputs(batch.labels[batch.known]):
            self.grow_parts(self.trainer.parameters)
        examples = self.examples(batch)
        self.trainer.train()
        with np.errstate(all="ignore"):  # a diverging loss is counted, not warned of
            with self.trainer.draws(self.seed, self.updates, 0):
                self.before_batch(examples)
            for number in range(self.passes):
                with self.trainer.draws(self.seed, self.updates, number + 1):
                    self.step(examples)
            with self.trainer.draws(self.seed, self.updates, self.passes + 1):
                self.after_batch(examples, batch)

    # What methods are written with

    def examples(self, batch: Batch) -> Examples:
        """Return the nodes of a batch with the outputs of their labels."""
        allowed = None if batch.candidates is None else self.head.allowed(batch.candidates)
        return Examples(batch.neighborhood, self.head.targets(batch.labels), allowed)

    def memories(self, drawn: tuple[Neighborhood, IntArray] | None) -> list[Examples]:
        """Return what was drawn from a buffer as examples: one group, or none while the buffer is empty."""
        return [] if drawn is None else [Examples(drawn[0], self.head.targets(drawn[1]))]

    def logits(self, neighborhood: Neighborhood) -> Tensor:
        """Return the outputs of the network for the seeds (seeds x classes)."""
        logits: Tensor = self.model(neighborhood)
        return logits

    def cross_entropy(self, *groups: Examples) -> Tensor:
        """Return the mean cross-entropy over the labelled nodes of all groups together."""
        logits = [allowed(self.logits(examples.neighborhood), examples) for examples in groups]
        targets = [examples.targets for examples in groups]
        if len(groups) == 1:
            return mean_cross_entropy(logits[0], targets[0])
        return mean_cross_entropy(torch.cat(logits), np.concatenate(targets))

    def descend(self, loss: Tensor) -> None:
        """Make one optimizer step along the gradient of a loss."""
        self.trainer.descend(loss)

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Return the gradient of a loss by each parameter."""
        return self.trainer.gradients(loss)

    def apply(self, gradients: Gradients) -> None:
        """Make one optimizer step along gradients, one per parameter."""
        self.trainer.apply(gradients)

    @property
    def model(self) -> nn.Module:
        """The network."""
        return self.trainer.model

    @property
    def head(self) -> GrowingHead:
        """The growing output layer of the network."""
        return self.trainer.head

    @property
    def nonfinite_losses(self) -> int:
        """Number of losses so far that were NaN or infinite."""
        return self.trainer.nonfinite_losses if self._width else 0

    # The interface of Strategy

    @property
    def sampling(self) -> NeighborSampling:
        """One hop per layer."""
        return self.sampling_of(self.layers, self.norm, self.degrees)

    @property
    def labels(self) -> IntArray:
        """The classes seen in training, in order of first observation."""
        return np.array(self.head.labels if self._width else [], np.int64)

    def scores(self, neighborhood: Neighborhood) -> FloatArray:
        """Return the logits."""
        self.check_neighborhood(neighborhood)
        self.trainer.eval()
        with torch.no_grad(), np.errstate(all="ignore"):
            logits: FloatArray = self.logits(neighborhood).numpy()
        return logits

    def supports_cached_aggregates(self, table: Table) -> bool:
        """Dense rows are summed before the first product, sparse ones after it."""
        return not table.sparse


def allowed(logits: Tensor, examples: Examples) -> Tensor:
    """Return logits with -inf for classes that the setting rules out."""
    if examples.allowed is None:
        return logits
    return logits.masked_fill(torch.from_numpy(~examples.allowed), -torch.inf)


def mean_cross_entropy(logits: Tensor, targets: IntArray) -> Tensor:
    """Return the mean cross-entropy over the labelled nodes."""
    return nn.functional.cross_entropy(logits, torch.from_numpy(targets), ignore_index=IGNORE)
