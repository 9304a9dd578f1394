"""What replay methods share: a reservoir of past examples, and training on the batch together with a draw of it."""

from abc import abstractmethod
from typing import Any, ClassVar, Generic, Protocol

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass
from torch import nn

from ocgl.buffers import VectorBuffer
from ocgl.graph import Batch, Neighborhood, isolated
from ocgl.graph.features import dense
from ocgl.rng import generator, restore, state_of
from ocgl.state import State, Stateful
from ocgl.strategies.base import STRICT
from ocgl.strategies.training import GCNStrategy, GradientStrategy, Seen, labelled, masked
from ocgl.types import BoolArray, FloatArray, IntArray


class Buffer(Stateful, Protocol):
    """A memory of bounded size."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...

    @property
    def nodes(self) -> int:
        """Nodes held."""
        ...


@dataclass(kw_only=True, config=STRICT)
class Replay(GradientStrategy[Seen], Generic[Seen]):
    """A strategy with a memory of `buffer_size` nodes; `memory_proportion` memories are drawn per node of the batch."""

    grid: ClassVar[dict[str, tuple[Any, ...]]] = GradientStrategy.grid | {"memory_proportion": (1, 2, 3)}

    memory_proportion: PositiveInt = 1
    buffer_size: NonNegativeInt = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rng_replay = generator(self.seed, "replay")
        self._buffer: Buffer | None = None

    @abstractmethod
    def make_buffer(self, width: int, rng: np.random.Generator) -> Buffer:
        """Make the empty memory for features of this width."""

    @abstractmethod
    def recall(self, count: int) -> tuple[Seen, IntArray] | None:
        """Draw up to `count` memories, as the model takes them, with their labels; None from an empty memory."""

    def rehearse(self, seen: Seen, targets: IntArray, allowed: BoolArray | None) -> None:
        """Make one step on the mean cross-entropy over batch and memories together (weights 1 : mp)."""
        logits = masked(self.forward(seen), allowed)
        recalled = self.recall(self.memory_proportion * labelled(targets))
        if recalled is not None:
            logits = torch.cat([logits, self.forward(recalled[0])])
            targets = np.concatenate([targets, self.head.targets(recalled[1])])
        self.descend(self.loss(logits, targets))

    def begin(self, width: int) -> nn.Module:
        """Make the memory with the model."""
        self._buffer = self.make_buffer(width, generator(self.seed, "buffer"))
        return super().begin(width)

    @property
    def memory_bytes(self) -> int:
        """Parameters, moments and the memory."""
        return super().memory_bytes + (0 if self._buffer is None else self._buffer.nbytes)

    @property
    def memory_nodes(self) -> int:
        """How many nodes are remembered."""
        return 0 if self._buffer is None else self._buffer.nodes

    def state(self) -> State:
        """Give the memory and the replay generator as well."""
        state = super().state()
        state.facts["replay"] = state_of(self._rng_replay)
        return state if self._buffer is None else state.include("buffer", self._buffer.state())

    def take_state(self, state: State) -> None:
        """Take the memory and the replay generator as well."""
        self._buffer = None
        super().take_state(state)
        restore(self._rng_replay, state.facts["replay"])
        if self._buffer is not None:
            self._buffer.load_state(state.part("buffer"))


@dataclass(kw_only=True, config=STRICT)
class VectorMemory(Replay[Seen], Generic[Seen]):
    """Remembers one vector per node."""

    def make_buffer(self, width: int, rng: np.random.Generator) -> Buffer:
        """Remember as many vectors as nodes are allowed."""
        return VectorBuffer(self.buffer_size, width, rng)

    @property
    def vectors(self) -> VectorBuffer:
        """The memory."""
        assert isinstance(self._buffer, VectorBuffer)
        return self._buffer

    def recall(self, count: int) -> tuple[Seen, IntArray] | None:
        """Draw remembered vectors."""
        vectors, labels = self.vectors.draw(count, self._rng_replay)
        return (self.revived(vectors), labels) if len(labels) else None

    @abstractmethod
    def revived(self, vectors: FloatArray) -> Seen:
        """Turn remembered vectors into what the model takes."""

    @abstractmethod
    def remembered(self, seen: Seen) -> FloatArray:
        """Give the vectors to remember of a batch."""

    def after_batch(self, seen: Seen, batch: Batch) -> None:
        """Offer each labelled node to the reservoir."""
        self.vectors.offer(self.remembered(seen)[batch.known], batch.labels[batch.known])


@dataclass(kw_only=True, config=STRICT)
class VectorReplay(VectorMemory[FloatArray]):
    """Remembers the vectors that the model is trained on, each as it was on arrival."""

    replays: ClassVar[str] = "stored vectors"

    def revived(self, vectors: FloatArray) -> FloatArray:
        """Take them as they are."""
        return vectors

    def remembered(self, seen: FloatArray) -> FloatArray:
        """Take them as they are."""
        return seen

    def forward(self, seen: FloatArray) -> torch.Tensor:
        """Give the logits of vectors."""
        logits: torch.Tensor = self.model(torch.from_numpy(seen))
        return logits


@dataclass(kw_only=True, config=STRICT)
class NodeReplay(GCNStrategy, VectorMemory[Neighborhood]):
    """Remembers bare nodes (x, y): a replayed node has no neighbours, only its self-loop."""

    replays: ClassVar[str] = "bare nodes without neighbours"

    def revived(self, vectors: FloatArray) -> Neighborhood:
        """Make isolated nodes of feature rows."""
        return isolated(vectors, self.layers)

    def remembered(self, seen: Neighborhood) -> FloatArray:
        """Take the nodes' own rows."""
        return dense(seen.own_rows())
