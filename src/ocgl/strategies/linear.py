"""LINEAR: logistic regression on averaged one-hop features, with replay of those averages."""

from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ocgl.buffers import VectorBuffer
from ocgl.graph import Look, Neighborhood
from ocgl.models import MLP, softmax_gradient
from ocgl.rng import generator, restore, state_of
from ocgl.state import State
from ocgl.strategies.base import STRICT
from ocgl.strategies.training import GradientStrategy
from ocgl.types import BoolArray, FloatArray, IntArray


@dataclass(kw_only=True, config=STRICT)
class Linear(GradientStrategy[FloatArray]):
    """z_v = (x_v + sum of x_u over at most `fanout` sampled neighbours) / (1 + their number), then softmax(Wz + b).

    Each step has the batch's z together with `memory_proportion` remembered ones per node of the batch, drawn
    uniformly from a reservoir; a remembered z stays as it was on arrival. Cost O(rF + FC) per node.

    >>> Linear(memory_proportion=3).look.hops
    1
    """

    name: ClassVar[str] = "linear"
    reference: ClassVar[str] = "Donghi et al., Online Continual Graph Learning, 2025"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = GradientStrategy.grid | {"memory_proportion": (1, 2, 3)}

    memory_proportion: PositiveInt = 1
    buffer_size: NonNegativeInt = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rng_replay = generator(self.seed, "replay")
        self._buffer: VectorBuffer | None = None

    @property
    def look(self) -> Look:
        """One hop, averaged."""
        return self._looking(1, "mean")

    def make_model(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make the affine classifier."""
        self._buffer = VectorBuffer(self.buffer_size, width, generator(self.seed, "buffer"))
        return MLP(width, 0, rng)

    def encode(self, seen: Neighborhood) -> FloatArray:
        """Give z."""
        return seen.aggregated

    def forward(self, seen: FloatArray) -> Tensor:
        """Give the logits."""
        logits: Tensor = self.model(torch.from_numpy(seen))
        return logits

    def step(self, seen: FloatArray, targets: IntArray, allowed: BoolArray | None) -> None:
        """Make one step on the batch and a draw of the memory: one mean over both."""
        vectors, labels = self.memory.draw(self.memory_proportion * len(seen), self._rng_replay)
        if len(labels):
            seen = np.concatenate([seen, vectors])
            targets = np.concatenate([targets, self.head.targets(labels)])
        self.apply(softmax_gradient(seen, *self.head.arrays, targets, allowed))

    def after_batch(self, seen: FloatArray, labels: IntArray) -> None:
        """Offer each labelled node to the reservoir."""
        known = labels >= 0
        self.memory.offer(seen[known], labels[known])

    @property
    def memory(self) -> VectorBuffer:
        """The remembered vectors."""
        assert self._buffer is not None, "nothing has been learned yet"
        return self._buffer

    @property
    def memory_bytes(self) -> int:
        """Parameters, moments and the buffer."""
        return super().memory_bytes + (0 if self._buffer is None else self._buffer.nbytes)

    @property
    def memory_nodes(self) -> int:
        """How many vectors are remembered."""
        return 0 if self._buffer is None else len(self._buffer)

    def state(self) -> State:
        """Give the buffer and the replay generator as well."""
        state = super().state()
        state.facts["replay"] = state_of(self._rng_replay)
        return state if self._buffer is None else state.include("buffer", self._buffer.state())

    def load_state(self, state: State) -> None:
        """Take the buffer and the replay generator as well."""
        self._buffer = None
        super().load_state(state)
        restore(self._rng_replay, state.facts["replay"])
        if self._buffer is not None:
            self.memory.load_state(state.part("buffer"))
