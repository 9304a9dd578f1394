"""What EWC, MAS and TWP share: parameters are held near an anchor, each by its importance so far."""

from abc import abstractmethod

import torch
from pydantic import Field, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from ocgl.graph import Batch, Neighborhood
from ocgl.models import padded
from ocgl.state import State
from ocgl.strategies.base import STRICT
from ocgl.strategies.training import GCNStrategy, masked
from ocgl.types import BoolArray, IntArray, Json


class Importance:
    """Importances of parameters as an example-weighted running mean: W <- (n W + b G) / (n + b)."""

    def __init__(self, like: list[Tensor]) -> None:
        self.weights = [torch.zeros_like(p) for p in like]

    def update(self, terms: list[Tensor], seen: int, count: int) -> None:
        """Add the terms of a batch of `count` examples, after `seen` examples."""
        for weight, term in zip(self.weights, terms, strict=True):
            weight.mul_(seen / (seen + count)).add_(term, alpha=count / (seen + count))

    def grow(self, like: list[Tensor]) -> None:
        """Pad for new outputs: they have no importance yet."""
        self.weights = [padded(weight, len(p)) for weight, p in zip(self.weights, like, strict=True)]


@dataclass(kw_only=True, config=STRICT)
class ImportanceStrategy(GCNStrategy):
    """CE + sum over parameters of s W (t - a)^2: W the importance, s its strength, a the anchor.

    The anchor is the parameters after the last batch (or after every `anchor_every`-th): the penalty then acts only
    within the passes on a batch, and with one pass not at all. No batch or task end is known or needed.
    """

    anchor_every: PositiveInt = Field(default=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._examples = 0
        self._importances: dict[str, Importance] = {}
        self._anchor: list[Tensor] = []

    @classmethod
    def representative(cls, settings: Json) -> Json:
        """With one pass the anchor is where the parameters are: no strength acts."""
        inert = settings.get("passes") == 1 and settings.get("anchor_every", 1) == 1
        free = {"strength", "lambda_l", "lambda_t"} & cls.grid.keys() if inert else set()
        free |= {"beta"} & cls.grid.keys()  # without a gradient, it never acts
        return settings | {key: cls.grid[key][0] for key in free}

    @abstractmethod
    def strengths(self) -> dict[str, float]:
        """Name the importances that are kept, with their strengths."""

    @abstractmethod
    def terms(self, seen: Neighborhood, batch: Batch) -> dict[str, list[Tensor]]:
        """Give each importance's terms of a batch: squared, or absolute, gradients by parameter."""

    def step(self, seen: Neighborhood, targets: IntArray, allowed: BoolArray | None) -> None:
        """Descend on cross-entropy and penalty; the penalty's gradient is 2 s W (t - a)."""
        gradients = self.gradients(self.loss(masked(self.forward(seen), allowed), targets))
        for name, strength in self.strengths().items():
            weights = self._importances[name].weights
            for gradient, weight, now, anchor in zip(gradients, weights, self._values(), self._anchor, strict=True):
                gradient.addcmul_(weight, now - anchor, value=2 * strength)
        self.apply(gradients)

    def penalty(self) -> float:
        """Give the penalty's present value."""
        total = 0.0
        for name, strength in self.strengths().items():
            parts = zip(self._importances[name].weights, self._values(), self._anchor, strict=True)
            total += strength * sum(float((w * (t - a) ** 2).sum()) for w, t, a in parts)
        return total

    def after_batch(self, seen: Neighborhood, batch: Batch) -> None:
        """Update the importances at the parameters reached, then move the anchor there."""
        count = int(batch.known.sum())
        for name, terms in self.terms(seen, batch).items():
            self._importances[name].update(terms, self._examples, count)
        self._examples += count
        if (self.updates + 1) % self.anchor_every == 0:
            self._anchor = [value.clone() for value in self._values()]

    def on_growth(self) -> None:
        """Pad importances with zero and the anchor with the new values: the penalty keeps its value."""
        values = self._values()
        if not self._anchor:
            self._anchor = [value.clone() for value in values]
            self._importances = {name: Importance(values) for name in self.strengths()}
        for importance in self._importances.values():
            importance.grow(values)
        self._anchor = [torch.cat([a, v[len(a) :].clone()]) for a, v in zip(self._anchor, values, strict=True)]

    def _values(self) -> list[Tensor]:
        return [parameter.data for parameter in self.model.parameters()]

    @property
    def memory_bytes(self) -> int:
        """Parameters and moments, an anchor, and one weight per parameter and importance."""
        return super().memory_bytes + (1 + len(self.strengths())) * sum(a.nbytes for a in self._anchor)

    def state(self) -> State:
        """Give importances and anchor as well."""
        held = {"anchor": self._anchor} | {name: imp.weights for name, imp in self._importances.items()}
        arrays = {f"{name}:{i}": t.numpy().copy() for name, tensors in held.items() for i, t in enumerate(tensors)}
        return super().state().include("importance", State(dict(arrays), {"examples": self._examples}))

    def take_state(self, state: State) -> None:
        """Take importances and anchor as well."""
        super().take_state(state)
        part = state.part("importance")
        self._examples = part.facts["examples"]
        self._anchor, self._importances = [], {}
        if self._model is not None:
            self._anchor = self._taken(part, "anchor")
            self._importances = {name: Importance([]) for name in self.strengths()}
            for name, importance in self._importances.items():
                importance.weights = self._taken(part, name)

    def _taken(self, part: State, name: str) -> list[Tensor]:
        return [torch.from_numpy(part.arrays[f"{name}:{i}"].copy()) for i in range(len(self._values()))]
