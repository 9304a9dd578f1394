"""Replay of vectors on chosen features: what LINEAR and PDGNN share."""

from abc import abstractmethod

import numpy as np
import torch
from pydantic import NonNegativeInt
from pydantic.dataclasses import dataclass

from ocgl.buffers import VectorBuffer
from ocgl.errors import ConfigError
from ocgl.graph import Look, Neighborhood
from ocgl.graph.features import Table
from ocgl.models.scaling import RunningScale, random_units
from ocgl.models.views import View
from ocgl.state import State
from ocgl.strategies.base import STRICT
from ocgl.strategies.replay import Buffer, VectorReplay
from ocgl.types import FloatArray


@dataclass(kw_only=True, config=STRICT)
class ViewedReplay(VectorReplay):
    """Trains on the method's own vectors, or on those of a `view` (`own+mean1`, ...; see `ocgl.models.views`).

    `project` narrows rows wider than that by a seeded projection (views only), `standardise` subtracts the running mean
    and divides by the running deviation, `relu` sets that many random ReLU features beside the standardised vectors.
    Vectors are remembered as they were seen and standardised when they are used.
    """

    view: str = ""
    project: NonNegativeInt = 0
    standardise: bool = False
    relu: NonNegativeInt = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relu and not self.standardise:
            raise ConfigError("random ReLU features are drawn for standardised vectors: set standardise=true")
        if self.project and not self.view:
            raise ConfigError("project goes with a view")
        self._view = View(self.view, self.project, self.seed) if self.view else None
        self._scale: RunningScale | None = None
        self._units: FloatArray | None = None

    @abstractmethod
    def own_look(self) -> Look:
        """Give the look of the method's own vectors."""

    @abstractmethod
    def own_vectors(self, seen: Neighborhood) -> FloatArray:
        """Give the method's own vectors."""

    @property
    def look(self) -> Look:
        """As far as the view goes, or the method's own look."""
        return self.own_look() if self._view is None else self._looking(self._view.hops, "sum")

    def encode(self, seen: Neighborhood) -> FloatArray:
        """Give the vectors as they are remembered."""
        return self.own_vectors(seen) if self._view is None else self._view.encode(seen)

    def starts_from_sums(self, table: Table) -> bool:
        """The sums are all that is used, unless sparse or narrowed rows come first."""
        if self._view is None:
            return not table.sparse
        return not table.sparse and self._view.hops > 0 and self._view.narrowed(table.width) == table.width

    def remembered_width(self, width: int) -> int:
        """Give the width of the vectors of features of some width."""
        return width if self._view is None else self._view.width(width)

    def trained_width(self, width: int) -> int:
        """Give the width of what the model is trained on."""
        return self.remembered_width(width) + self.relu

    def make_buffer(self, width: int, rng: np.random.Generator) -> Buffer:
        """Remember as many vectors as nodes are allowed."""
        inner = self.remembered_width(width)
        if self.standardise:
            self._scale = RunningScale(inner)
        if self.relu:
            self._units = random_units(inner, self.relu, self.seed)
        return VectorBuffer(self.buffer_size, inner, rng)

    def before_batch(self, seen: FloatArray) -> None:
        """Take the batch into the running mean and deviation, once."""
        if self._scale is not None:
            self._scale.observe(seen)

    def trained_on(self, vectors: FloatArray) -> FloatArray:
        """Give what the model is trained on, of vectors as they are remembered."""
        if self._scale is None:
            return vectors
        scaled = self._scale.apply(vectors)
        if self._units is None:
            return scaled
        return np.concatenate([scaled, np.maximum(scaled @ self._units, 0)], axis=1)

    def forward(self, seen: FloatArray) -> torch.Tensor:
        """Give the logits of vectors as they are remembered."""
        return super().forward(self.trained_on(seen))

    @property
    def memory_bytes(self) -> int:
        """Model and memory, the running scale, the projection and the random features."""
        extra = 0 if self._view is None else self._view.nbytes
        extra += 0 if self._scale is None else self._scale.nbytes
        return super().memory_bytes + extra + (0 if self._units is None else self._units.nbytes)

    def state(self) -> State:
        """Give the running scale as well."""
        state = super().state()
        return state if self._scale is None else state.include("scale", self._scale.state())

    def take_state(self, state: State) -> None:
        """Take the running scale as well."""
        self._scale = self._units = None
        super().take_state(state)
        if self._scale is not None:
            self._scale.load_state(state.part("scale"))
