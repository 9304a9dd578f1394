"""Importances of parameters, shared by EWC, MAS and TWP."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ocgl.nn.devices import CPU, array_of, tensor_of
from ocgl.nn.head import grown, padded
from ocgl.state import State
from ocgl.types import Json

STRENGTHS = (1e0, 1e2, 1e4, 1e6, 1e8, 1e10)


class Importances:
    """Importance weights W and an anchor a for the penalty sum of s W (t - a)^2 over all parameters t.

    W is an example-weighted running mean of the terms G of each batch: W <- (n W + b G) / (n + b). The anchor moves
    to the parameters after every `anchor_every`-th batch. With `anchor_every=1` the penalty acts only between the
    passes on a batch, and with one pass not at all.

    Args:
        strengths: the strength s of each importance, by name.
        anchor_every: batches between moves of the anchor.
        device: where the parameters are.
    """

    def __init__(self, strengths: Mapping[str, float], anchor_every: int, device: torch.device = CPU) -> None:
        self.strengths = dict(strengths)
        self._device = device
        self._anchor_every = anchor_every
        self._examples = 0
        self._batches = 0
        self._weights: dict[str, list[Tensor]] = {name: [] for name in strengths}
        self._anchor: list[Tensor] = []

    def penalized(self, gradients: list[Tensor], parameters: list[Tensor]) -> list[Tensor]:
        """Add the gradient of the penalty, 2 s W (t - a), to gradients, in place."""
        for name, strength in self.strengths.items():
            parts = zip(gradients, self._weights[name], parameters, self._anchor, strict=True)
            for gradient, weight, now, anchor in parts:
                gradient.addcmul_(weight, now - anchor, value=2 * strength)
        return gradients

    def penalty(self, parameters: list[Tensor]) -> float:
        """Return the value of the penalty."""
        total = 0.0
        for name, strength in self.strengths.items():
            parts = zip(self._weights[name], parameters, self._anchor, strict=True)
            total += strength * sum(float((w * (t - a) ** 2).sum()) for w, t, a in parts)
        return total

    def update(self, terms: Mapping[str, list[Tensor]], examples: int, parameters: list[Tensor]) -> None:
        """Take the terms of a batch of `examples` nodes into the mean, and move the anchor if it is time."""
        total = self._examples + examples
        for name, values in terms.items():
            for weight, term in zip(self._weights[name], values, strict=True):
                weight.mul_(self._examples / total).add_(term, alpha=examples / total)
        self._examples = total
        self._batches += 1
        if self._batches % self._anchor_every == 0:
            self._anchor = [value.clone() for value in parameters]

    def grow(self, parameters: list[Tensor]) -> None:
        """Give new outputs no importance and their own values as anchor: the penalty keeps its value."""
        if not self._anchor:
            self._anchor = [value.clone() for value in parameters]
            self._weights = {name: [torch.zeros_like(value) for value in parameters] for name in self.strengths}
        for name, weights in self._weights.items():
            self._weights[name] = [padded(weight, p) for weight, p in zip(weights, parameters, strict=True)]
        self._anchor = [grown(a, v) for a, v in zip(self._anchor, parameters, strict=True)]

    @property
    def nbytes(self) -> int:
        """Bytes of the anchor and of one weight per parameter and importance."""
        return (1 + len(self.strengths)) * sum(anchor.nbytes for anchor in self._anchor)

    def state(self) -> State:
        """Return importances and anchor."""
        held = {"anchor": self._anchor, **self._weights}
        arrays = {f"{name}:{i}": array_of(t) for name, tensors in held.items() for i, t in enumerate(tensors)}
        facts = {"examples": self._examples, "batches": self._batches, "parameters": len(self._anchor)}
        return State(dict(arrays), facts)

    def load_state(self, state: State) -> None:
        """Take importances and anchor."""
        count = range(state.facts["parameters"])
        self._examples, self._batches = state.facts["examples"], state.facts["batches"]
        self._anchor = [tensor_of(state.arrays[f"anchor:{i}"], self._device) for i in count]
        self._weights = {
            name: [tensor_of(state.arrays[f"{name}:{i}"], self._device) for i in count] for name in self.strengths
        }


def without_effect(grid: Mapping[str, tuple[Any, ...]], config: Json, strengths: tuple[str, ...]) -> Json:
    """Return a configuration with the first value of every strength that cannot act.

    With one pass and an anchor that moves after every batch, the anchor is where the parameters are.
    """
    inert = config.get("passes") == 1 and config.get("anchor_every", 1) == 1
    return config | {name: grid[name][0] for name in strengths} if inert else config
