"""The training loop that all gradient-based strategies share."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from pydantic import Field, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ocgl.errors import StateError
from ocgl.graph import Batch, Look, Neighborhood
from ocgl.graph.features import Table
from ocgl.graph.look import Degrees, Norm
from ocgl.models import GCN, IGNORE, GrowingAdam, GrowingHead, SparseGradient, gradients_of
from ocgl.rng import generator, restore, state_of
from ocgl.state import State
from ocgl.strategies.base import STRICT, Strategy
from ocgl.types import BoolArray, FloatArray, IntArray, Json

Seen = TypeVar("Seen")


def masked(logits: Tensor, allowed: BoolArray | None) -> Tensor:
    """Rule out the classes that the setting says a node cannot have."""
    return logits if allowed is None else logits.masked_fill(torch.from_numpy(~allowed), -torch.inf)


def labelled(targets: IntArray) -> int:
    """Count the nodes that have a part in the loss."""
    return int((targets != IGNORE).sum())


@dataclass(kw_only=True, config=STRICT)
class GradientStrategy(Strategy, Generic[Seen]):
    """One pass over the stream, `passes` Adam steps on each batch.

    A subclass says what it looks at, how it encodes a look (once per batch, reused by every pass), which model it
    trains, and, where it differs from plain descent, what a step is and what happens after a batch.
    """

    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"lr": (1e-2, 1e-3, 1e-4, 1e-5), "passes": (1, 5)}

    lr: PositiveFloat = 1e-3
    passes: PositiveInt = 1

    def __post_init__(self) -> None:
        self._rng_init = generator(self.seed, "init")
        self._model: nn.Module | None = None
        self._width = 0
        self.updates = 0
        self.nonfinite_losses = 0

    @abstractmethod
    def make_model(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make the model for features of this width; its `head` is a GrowingHead."""

    @abstractmethod
    def encode(self, seen: Neighborhood) -> Seen:
        """Turn a look into what the model takes."""

    def loss(self, logits: Tensor, targets: IntArray) -> Tensor:
        """Mean cross-entropy over the labelled nodes, over all current outputs."""
        return nn.functional.cross_entropy(logits, torch.from_numpy(targets), ignore_index=IGNORE)

    def step(self, seen: Seen, targets: IntArray, allowed: BoolArray | None) -> None:
        """Make one optimizer step on the batch."""
        self.descend(self.loss(masked(self.forward(seen), allowed), targets))

    def check(self, batch: Batch) -> None:
        """Refuse a batch that cannot be learned from, before anything changes."""
        self._check_look(batch.neighborhood, self._width)

    def before_batch(self, seen: Seen) -> None:
        """Prepare what all passes on a batch share, after the head has grown."""

    def after_batch(self, seen: Seen, batch: Batch) -> None:
        """Update buffers, importances or teachers, once, after the last pass."""

    def on_growth(self) -> None:
        """Follow the head, which has just grown."""

    def learn(self, batch: Batch) -> None:
        """Grow the head, look once, make `passes` steps, then update what the method keeps."""
        self.check(batch)
        if not batch.known.any():
            return
        if self._model is None:
            self.begin(batch.neighborhood.width)
        self._grow(batch.labels[batch.known])
        seen = self.encode(batch.neighborhood)
        targets = self.head.targets(batch.labels)
        allowed = None if batch.candidates is None else self.head.allowed(batch.candidates)
        with np.errstate(all="ignore"):  # divergence is counted, not warned of
            self.before_batch(seen)
            for _ in range(self.passes):
                self.step(seen, targets, allowed)
            self.after_batch(seen, batch)
        self.updates += 1

    def descend(self, loss: Tensor) -> None:
        """Follow the gradient of a loss."""
        self.apply(self._gradients(loss))

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Give the gradient of a loss by each parameter, and keep count of losses that are no number."""
        return [g.multiplied() if isinstance(g, SparseGradient) else g for g in self._gradients(loss)]

    def _gradients(self, loss: Tensor) -> list[Tensor | SparseGradient]:
        self.nonfinite_losses += not np.isfinite(loss.item())
        return gradients_of(self.model, loss)

    def batch_loss(self, seen: Seen, batch: Batch) -> Tensor:
        """Give the loss on a batch at the present parameters."""
        allowed = None if batch.candidates is None else self.head.allowed(batch.candidates)
        return self.loss(masked(self.forward(seen), allowed), self.head.targets(batch.labels))

    def apply(self, gradients: Iterable[Tensor | SparseGradient]) -> None:
        """Let the optimizer follow gradients, one per parameter."""
        self._optimizer.apply(gradients)

    def forward(self, seen: Seen) -> Tensor:
        """Give the logits of the model."""
        logits: Tensor = self.model(seen)
        return logits

    @property
    def model(self) -> nn.Module:
        """The model being trained."""
        assert self._model is not None, "nothing has been learned yet"
        return self._model

    @property
    def head(self) -> GrowingHead:
        """The model's growing output layer."""
        head = self.model.head
        assert isinstance(head, GrowingHead)
        return head

    @property
    def labels(self) -> IntArray:
        """The classes seen in training, in order of first observation."""
        return np.array(self.head.labels if self._model is not None else [], np.int64)

    def scores(self, seen: Neighborhood) -> FloatArray:
        """Give the logits."""
        self._check_look(seen, self._width)
        with torch.no_grad(), np.errstate(all="ignore"):
            logits: FloatArray = self.forward(self.encode(seen)).numpy()
        return logits

    @property
    def memory_bytes(self) -> int:
        """Parameters, both moments of the optimizer, and its room for a gradient where it keeps one."""
        return 0 if self._model is None else 3 * self.parameter_bytes + self._optimizer.scratch_bytes

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the parameters alone."""
        return sum(4 * parameter.numel() for parameter in self.model.parameters())

    def _grow(self, labels: IntArray) -> None:
        if self.head.grow(labels.tolist(), self._rng_init):
            self._optimizer.grow()
            self.on_growth()

    def begin(self, width: int) -> nn.Module:
        """Make everything that depends on the width of the features."""
        self._width = width
        self._model = self.make_model(width, self._rng_init)
        self._optimizer = GrowingAdam(self._model, self.lr)
        return self._model

    def state(self) -> State:
        """Give parameters, optimizer, generator and counters."""
        facts: Json = {"updates": self.updates, "nonfinite_losses": self.nonfinite_losses, "width": self._width}
        state = State({}, facts | {"init": state_of(self._rng_init)})
        if self._model is not None:
            arrays = {name: p.detach().numpy().copy() for name, p in self._model.named_parameters()}
            state.include("model", State(arrays, {"labels": self.head.labels}))
            state.include("optimizer", self._optimizer.state())
        return state

    def take_state(self, state: State) -> None:
        """Take parameters, optimizer, generator and counters."""
        self._model = None
        if state.facts["width"]:
            self.begin(state.facts["width"])
            part = state.part("model")
            self.head.restore(part.facts["labels"])
            for name, parameter in self.model.named_parameters():
                if parameter.shape != part.arrays[name].shape:
                    raise StateError(f"{name} has shape {part.arrays[name].shape}, not {tuple(parameter.shape)}")
                parameter.data = torch.from_numpy(np.array(part.arrays[name]))
            self._optimizer.load_state(state.part("optimizer"))
        self._width = state.facts["width"]
        self.updates = state.facts["updates"]
        self.nonfinite_losses = state.facts["nonfinite_losses"]
        restore(self._rng_init, state.facts["init"])


@dataclass(kw_only=True, config=STRICT)
class GCNStrategy(GradientStrategy[Neighborhood]):
    """A gradient-based strategy on a GCN; it sees the nodes within as many hops as there are layers."""

    layers: PositiveInt = 2
    hidden: PositiveInt = Field(default=256)
    norm: Norm = "sum"
    degrees: Degrees = "sampled"

    @property
    def look(self) -> Look:
        """One hop per layer."""
        return self._looking(self.layers, self.norm, self.degrees)

    def make_model(self, width: int, rng: np.random.Generator) -> nn.Module:
        """Make a GCN."""
        return GCN(width, self.layers, self.hidden, rng)

    def starts_from_sums(self, table: Table) -> bool:
        """Dense rows are summed before the first product, sparse ones after it."""
        return not table.sparse

    def encode(self, seen: Neighborhood) -> Neighborhood:
        """Take the look as it is; its aggregated features are computed once and kept with it."""
        return seen
