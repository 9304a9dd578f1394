"""Strategies that train a graph network with gradients: the training loop and what a method can change in it."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from ocgl.errors import ConfigError
from ocgl.graph import Batch, Cost, Neighborhood, NeighborSampling
from ocgl.graph.features import Table
from ocgl.graph.neighbor_sampling import Degrees, Norm
from ocgl.nn import GCN, IGNORE, ClassOutputs, GCNOptions, GraphNetwork
from ocgl.nn.devices import CPU, available
from ocgl.nn.head import Init
from ocgl.rng import generator
from ocgl.strategies._core.backbones import (
    GCN_NAME,
    Backbone,
    find_backbone,
    takes_weights,
    title_of_backbone,
    uses_edges,
)
from ocgl.strategies._core.base import Strategy, strategy
from ocgl.strategies._core.trainer import Gradients, Trainer
from ocgl.types import BoolArray, FloatArray, IntArray

GRID: dict[str, tuple[Any, ...]] = {"lr": (1e-2, 1e-3, 1e-4, 1e-5), "passes": (1, 5)}
"""The part of the paper's search space that all gradient-based methods share."""

REPLAY_GRID: dict[str, tuple[Any, ...]] = GRID | {"memory_proportion": (1, 2, 3)}
"""The same with the memories drawn per node of the batch."""


ReplayLoss = Literal["sum_of_means", "one_mean"]
"""Loss of a batch with memories: CE(batch) + CE(memories), each a mean, or one mean over all nodes together."""


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
    """Trains a graph network on each batch: one neighbourhood sample, then `passes` Adam steps.

    A method changes `loss`, or, where it does more than follow the gradient of a loss, `step`; `build` adds parts;
    `before_batch` and `after_batch` run once per batch.

    Args:
        lr: learning rate of Adam.
        passes: steps on each batch.
        layers: layers of the network; a neighbourhood has as many hops.
        hidden: hidden units.
        norm: weights of the sampled edges: `sum`, `mean` or `sym`.
        degrees: with `sym`, degrees in the sample or in the whole graph so far.
        init: distribution of initial weights: Glorot uniform or Kaiming normal.
        resample_passes: sample a new neighbourhood for every pass after the first; each counts as cost.
        backbone: the network: `gcn`, `sage`, `gat`, `gin`, `sgc`, `mlp`, `path/to/file.py:Net`, or a class
            `Net(in_channels, hidden, layers)` with `forward(x, edge_index)`.
        bias: `gcn` has a bias in every layer.
        dropout: probability with which `gcn` drops a hidden unit in training.
        residual: `gcn` adds the input of a hidden layer to its output, where both have the same width.
        layer_norm: `gcn` normalises the rows of every hidden layer.
    """

    grid: ClassVar[dict[str, tuple[Any, ...]]] = GRID
    update_cost: ClassVar[str] = "G"

    lr: PositiveFloat = 1e-3
    passes: PositiveInt = 1
    layers: PositiveInt = 2
    hidden: PositiveInt = Field(default=256)
    norm: Norm = "sum"
    degrees: Degrees = "sampled"
    init: Init = "glorot"
    resample_passes: bool = False
    backbone: Backbone = GCN_NAME
    bias: bool = False
    dropout: float = Field(default=0.0, ge=0, lt=1)
    residual: bool = False
    layer_norm: bool = False

    def __post_init__(self) -> None:
        self._make = None if self.backbone == GCN_NAME else find_backbone(self.backbone)
        self._check_backbone()
        super().__post_init__()

    def build(self, width: int) -> None:
        """Make the network and its optimizer."""
        super().build(width)
        rng = generator(self.seed, "init")
        self.trainer = Trainer(self.make_network(width, rng), self.lr, rng, self.device)

    def make_network(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make the network that `backbone` names, with a head that grows."""
        if self._make is None:
            options = GCNOptions(self.bias, self.dropout, self.residual, self.layer_norm)
            return GCN(width, self.layers, self.hidden, rng, self.init, options)
        name = title_of_backbone(self.backbone)
        network = GraphNetwork(self._make, width, self.layers, self.hidden, self.init, name)
        if self.norm != "sum" and not network.takes_weights:
            raise ConfigError(f"norm={self.norm} weighs edges, but {name} takes no edge_weight; leave norm at sum")
        return network

    def loss(self, examples: Examples) -> Tensor:
        """Return the loss on a batch: the mean cross-entropy over its labelled nodes."""
        return self.cross_entropy(examples)

    def step(self, examples: Examples) -> None:
        """Make one optimizer step on a batch."""
        self.descend(self.loss(examples))

    def before_batch(self, examples: Examples) -> None:
        """Prepare what all passes on a sample share. The head has grown already."""

    def after_batch(self, examples: Examples, batch: Batch) -> None:
        """Update buffers, importances or teachers, once, after the last pass. The network is in evaluation mode."""

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
                    if number and self.resample_passes:
                        examples = replace(examples, neighborhood=batch.resampled(self.sampling, number))
                        self.before_batch(examples)
                    self.step(examples)
            self.trainer.eval()  # what is asked of the network now leaves its running statistics as they are
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

    def replayed(self, kind: ReplayLoss, batch: Examples, *memories: Examples) -> Tensor:
        """Return the loss of a batch and its memories: two means, added, or one mean over all nodes."""
        if kind == "one_mean":
            return self.cross_entropy(batch, *memories)
        loss = self.cross_entropy(batch)
        for examples in memories:
            loss = loss + self.cross_entropy(examples)
        return loss

    def descend(self, loss: Tensor) -> None:
        """Make one optimizer step along the gradient of a loss."""
        self.trainer.descend(loss)

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Return the gradient of a loss by each parameter."""
        return self.trainer.gradients(loss)

    def apply(self, gradients: Gradients) -> None:
        """Make one optimizer step along gradients, one per parameter."""
        self.trainer.apply(gradients)

    def labelled(self, rows: Tensor, examples: Examples) -> Tensor:
        """Return the rows of the nodes with a label."""
        chosen = np.nonzero(examples.targets != IGNORE)[0]
        return rows[torch.from_numpy(chosen).to(rows.device)]

    @property
    def model(self) -> nn.Module:
        """The network."""
        return self.trainer.model

    @property
    def head(self) -> ClassOutputs:
        """The growing outputs of the network."""
        return self.trainer.head

    @property
    def nonfinite_losses(self) -> int:
        """Number of losses so far that were NaN or infinite."""
        return self.trainer.nonfinite_losses if self._width else 0

    # The interface of Strategy

    @property
    def sampling(self) -> NeighborSampling:
        """One hop per layer; none for a network that uses no edges."""
        return self.sampling_of(self.hops, self.norm, self.degrees)

    @property
    def hops(self) -> int:
        """Hops of the sampled neighbourhoods."""
        return self.layers if self._make is None or uses_edges(self._make) else 0

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        device: torch.device = self.__dict__.get("_device", CPU)
        return device

    @property
    def device_name(self) -> str:
        """Name of the device that the network is on."""
        return self.device.type

    def to(self, device: str) -> Self:
        """Move the network, its optimizer and what the method keeps beside them to a device."""
        name = available(device)
        if name != self.device_name:
            state = self.state()
            self.__dict__["_device"] = torch.device(name)
            self._take(state)
        return self

    def _check_backbone(self) -> None:
        """Raise `ConfigError` for a network that does not go with the hyperparameters."""
        if self._make is None:
            needed = {"residual": 3, "layer_norm": 2, "dropout": 2}
            for key in (key for key, least in needed.items() if getattr(self, key) and self.layers < least):
                raise ConfigError(f"{key} acts on hidden layers: it needs layers={needed[key]} or more")
            return
        name = title_of_backbone(self.backbone)
        given = [key for key in ("bias", "dropout", "residual", "layer_norm") if getattr(self, key)]
        if given:
            raise ConfigError(f"{given[0]} is an option of backbone=gcn; {name} has its own layers")
        if self.norm != "sum" and not takes_weights(self._make):
            raise ConfigError(f"norm={self.norm} weighs edges, but {name} takes no edge_weight; leave norm at sum")

    @property
    def needs_store(self) -> bool:
        """Passes may sample again."""
        return self.resample_passes

    def extra_bound(self, nodes: int, row_bytes: int) -> Cost:
        """Return the most that the samples of further passes read."""
        return super().extra_bound(nodes, row_bytes) + resampling_bound(self, nodes, row_bytes)

    @property
    def labels(self) -> IntArray:
        """The classes seen in training, in order of first observation."""
        return np.array(self.head.labels if self._width else [], np.int64)

    def scores(self, neighborhood: Neighborhood) -> FloatArray:
        """Return the logits."""
        self.check_neighborhood(neighborhood)
        self.trainer.eval()
        with torch.no_grad(), np.errstate(all="ignore"), self.trainer.draws(self.seed, self.updates):
            logits: FloatArray = self.logits(neighborhood).cpu().numpy()
        return logits

    def supports_cached_aggregates(self, table: Table) -> bool:
        """A GCN sums dense rows before the first product, sparse ones after it; other networks read single rows."""
        return self.backbone == GCN_NAME and not table.sparse


class Resampling(Protocol):
    """A strategy that can sample a new neighbourhood for every pass."""

    passes: int
    resample_passes: bool

    @property
    def sampling(self) -> NeighborSampling:
        """How neighbourhoods are sampled."""
        ...


def resampling_bound(strategy: Resampling, nodes: int, row_bytes: int) -> Cost:
    """Return the most that the samples of all passes after the first read."""
    if not strategy.resample_passes:
        return Cost()
    bound, times = strategy.sampling.bound(nodes, row_bytes), strategy.passes - 1
    return Cost(times * bound.nodes, times * bound.edges, times * bound.bytes)


def allowed(logits: Tensor, examples: Examples) -> Tensor:
    """Return logits with -inf for classes that the setting rules out."""
    if examples.allowed is None:
        return logits
    return logits.masked_fill(torch.from_numpy(~examples.allowed).to(logits.device), -torch.inf)


def mean_cross_entropy(logits: Tensor, targets: IntArray) -> Tensor:
    """Return the mean cross-entropy over the labelled nodes."""
    wanted = torch.from_numpy(targets).to(logits.device)
    return nn.functional.cross_entropy(logits, wanted, ignore_index=IGNORE)
