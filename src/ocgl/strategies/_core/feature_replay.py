"""Replay of fixed feature vectors, shared by LINEAR and PDGNN."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import nn

from ocgl.buffers import VectorBuffer
from ocgl.buffers.reservoir import Sampling
from ocgl.errors import ConfigError
from ocgl.graph import Batch, Cost, Neighborhood, NeighborSampling
from ocgl.graph.features import Table
from ocgl.nn import GrowingHead
from ocgl.nn.neighbor_features import NeighborFeatures
from ocgl.nn.scaling import RandomFeatures, RunningScale
from ocgl.rng import generator
from ocgl.strategies._core.base import Strategy, strategy
from ocgl.strategies._core.gradient import REPLAY_GRID, ReplayLoss, resampling_bound
from ocgl.strategies._core.trainer import Trainer
from ocgl.types import BoolArray, FloatArray, IntArray


@strategy
class FeatureReplay(Strategy):
    """Trains a classifier on one fixed vector z per node, the batch's together with remembered ones.

    A method says what z is (`features`), which classifier it trains (`make_model`) and what a step is. A remembered z
    stays as it was on arrival.

    Args:
        lr: learning rate of Adam.
        passes: steps on each batch.
        memory_proportion: memories drawn per labelled node of the batch.
        buffer_size: vectors that the reservoir holds.
        replay_loss: two means, added (`sum_of_means`), or one mean over batch and memories together (`one_mean`).
        reservoir: how the reservoir decides (see `Reservoir`).
        resample_passes: sample a new neighbourhood for every pass after the first; each counts as cost. The last z is
            remembered.
        view: use these features instead of the method's own: parts joined by `+` (see `NeighborFeatures`).
        project: multiply rows wider than this by a seeded Gaussian matrix of this width (views only; 0: never).
        standardise: subtract the running mean and divide by the running deviation.
        relu: number of random ReLU features beside the standardised vectors.
    """

    grid: ClassVar[dict[str, tuple[Any, ...]]] = REPLAY_GRID
    keeps: ClassVar[str] = "P + M F"
    replays: ClassVar[str] = "stored vectors"

    lr: PositiveFloat = 1e-3
    passes: PositiveInt = 1
    memory_proportion: PositiveInt = 1
    buffer_size: NonNegativeInt = 500
    replay_loss: ReplayLoss = "sum_of_means"
    reservoir: Sampling = "uniform"
    resample_passes: bool = False
    view: str = ""
    project: NonNegativeInt = 0
    standardise: bool = False
    relu: NonNegativeInt = 0

    def __post_init__(self) -> None:
        if self.relu and not self.standardise:
            raise ConfigError("random ReLU features are drawn for standardised vectors: set standardise=true")
        if self.project and not self.view:
            raise ConfigError("project goes with a view")
        super().__post_init__()

    def setup(self) -> None:
        """Make the feature map."""
        super().setup()
        self.neighbor_features = NeighborFeatures(self.view, self.project, self.seed) if self.view else None

    def build(self, width: int) -> None:
        """Make the classifier, the reservoir and what prepares vectors for the classifier."""
        super().build(width)
        length = width if self.neighbor_features is None else self.neighbor_features.width(width)
        self.buffer = VectorBuffer(self.buffer_size, length, self.seed, self.reservoir)
        self.scale = RunningScale(length) if self.standardise else None
        self.random_features = RandomFeatures(length, self.relu, self.seed) if self.relu else None
        rng = generator(self.seed, "init")
        self.trainer = Trainer(self.make_model(length + self.relu, rng), self.lr, rng)

    @abstractmethod
    def own_sampling(self) -> NeighborSampling:
        """Return the sampling of the method's own features."""

    @abstractmethod
    def own_features(self, neighborhood: Neighborhood) -> FloatArray:
        """Return the method's own z of each seed."""

    @abstractmethod
    def make_model(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make the classifier for vectors of this length; its `head` is a `GrowingHead`."""

    @abstractmethod
    def step(self, z: FloatArray, targets: IntArray, allowed: BoolArray | None) -> None:
        """Make one optimizer step on the batch and a draw of the memory."""

    def update(self, batch: Batch) -> None:
        """Compute z once, make `passes` steps, then offer z to the reservoir."""
        if self.trainer.add_outputs(batch.labels[batch.known]):
            self.grow_parts(self.trainer.parameters)
        z = self.features(batch.neighborhood)
        targets = self.head.targets(batch.labels)
        allowed = None if batch.candidates is None else self.head.allowed(batch.candidates)
        self.trainer.train()
        with np.errstate(all="ignore"):  # a diverging loss is counted, not warned of
            if self.scale is not None:
                self.scale.observe(z)
            for number in range(self.passes):
                if number and self.resample_passes:
                    z = self.features(batch.resampled(self.sampling, number))
                with self.trainer.draws(self.seed, self.updates, number):
                    self.step(z, targets, allowed)
            self.buffer.offer(z[batch.known], batch.labels[batch.known])

    def features(self, neighborhood: Neighborhood) -> FloatArray:
        """Return z of each seed, as it is remembered."""
        if self.neighbor_features is None:
            return self.own_features(neighborhood)
        return self.neighbor_features.encode(neighborhood)

    def inputs(self, z: FloatArray) -> FloatArray:
        """Return what the classifier is trained on: z, standardised and with random features if wanted."""
        if self.scale is None:
            return z
        scaled = self.scale.apply(z)
        return scaled if self.random_features is None else self.random_features.beside(scaled)

    @property
    def model(self) -> nn.Module:
        """The classifier."""
        return self.trainer.model

    @property
    def head(self) -> GrowingHead:
        """The growing output layer of the classifier."""
        assert isinstance(self.trainer.head, GrowingHead)
        return self.trainer.head

    @property
    def nonfinite_losses(self) -> int:
        """Number of losses so far that were NaN or infinite."""
        return self.trainer.nonfinite_losses if self._width else 0

    @property
    def sampling(self) -> NeighborSampling:
        """As far as the features reach."""
        if self.neighbor_features is None:
            return self.own_sampling()
        return self.sampling_of(self.neighbor_features.hops, "sum")

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
        with torch.no_grad(), np.errstate(all="ignore"):
            inputs = torch.from_numpy(self.inputs(self.features(neighborhood)))
            logits: FloatArray = self.model(inputs).numpy()
        return logits

    def supports_cached_aggregates(self, table: Table) -> bool:
        """The sums are all that is used, unless sparse or projected rows come first."""
        if self.neighbor_features is None:
            return not table.sparse
        return not table.sparse and self.neighbor_features.sums_rows(table.width)
