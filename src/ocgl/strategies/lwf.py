"""Learning without forgetting, online."""

import copy
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ocgl.graph import Batch, Neighborhood
from ocgl.models import GCN, IGNORE
from ocgl.state import State
from ocgl.strategies.base import STRICT
from ocgl.strategies.training import GCNStrategy, GradientStrategy, masked
from ocgl.types import BoolArray, IntArray, Json


@dataclass(kw_only=True, config=STRICT)
class LwF(GCNStrategy):
    """The model's own past self, copied every `update_every` batches, teaches the classes it knew.

    L = CE + lambda_dist * mean over the batch of -sum_c q_c log p_c, with q = softmax(teacher / T) and
    p = softmax(student / T) over the teacher's classes: new classes are free. With `student="all"` the student's
    softmax is over all its classes, so that what it gives to new ones counts against it.

    >>> LwF(update_every=10).look.hops
    2
    """

    name: ClassVar[str] = "lwf"
    reference: ClassVar[str] = "Li and Hoiem, Learning without forgetting, 2018"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = GradientStrategy.grid | {
        "lambda_dist": (0.1, 1.0, 10.0),
        "temperature": (0.2, 2.0, 20.0),
        "update_every": (1, 10, 100),
    }

    lambda_dist: NonNegativeFloat = 1.0
    temperature: PositiveFloat = 2.0
    update_every: PositiveInt = 10
    student: Literal["known", "all"] = "known"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._teacher: nn.Module | None = None
        self._taught: Tensor | None = None
        self._fresh = False  # the teacher is the present model: its gradient is zero, and rounding must not say else

    @classmethod
    def representative(cls, settings: Json) -> Json:
        """A teacher that equals the student on the only pass teaches nothing."""
        plain = settings.get("student", "known") == "known"
        if plain and settings.get("passes") == 1 and settings.get("update_every") == 1:
            return settings | {key: cls.grid[key][0] for key in ("lambda_dist", "temperature")}
        return settings

    def before_batch(self, seen: Neighborhood) -> None:
        """Ask the teacher once; it does not change during a batch."""
        self._taught = None
        if self._teacher is not None:
            with torch.no_grad():
                self._taught = torch.softmax(self._teacher(seen) / self.temperature, 1)

    def step(self, seen: Neighborhood, targets: IntArray, allowed: BoolArray | None) -> None:
        """Descend on cross-entropy and distillation."""
        logits = self.forward(seen)
        loss = self.loss(masked(logits, allowed), targets)
        grown = self._taught is not None and self.student == "all" and self._taught.shape[1] < logits.shape[1]
        if self._taught is not None and (grown or not self._fresh):
            classes = self._taught.shape[1]
            heard = logits if self.student == "all" else logits[:, :classes]
            known = torch.log_softmax(heard / self.temperature, 1)[:, :classes]
            told = (self._taught * known).sum(1)[torch.from_numpy(targets != IGNORE)]
            loss = loss - self.lambda_dist * told.mean()
        self._fresh = False
        self.descend(loss)

    def after_batch(self, seen: Neighborhood, batch: Batch) -> None:
        """Make the present model the teacher, every so often."""
        self._taught = None
        if (self.updates + 1) % self.update_every == 0:
            self._teacher = copy.deepcopy(self.model).requires_grad_(False)
            self._fresh = True

    @property
    def memory_bytes(self) -> int:
        """Parameters and moments, and as many parameters again for the teacher."""
        return 0 if self._model is None else super().memory_bytes + self.parameter_bytes

    def state(self) -> State:
        """Give the teacher as well."""
        state = super().state()
        state.facts["fresh"] = self._fresh
        if self._teacher is not None:
            arrays = {name: p.numpy().copy() for name, p in self._teacher.named_parameters()}
            state.include("teacher", State(dict(arrays)))
        return state

    def take_state(self, state: State) -> None:
        """Take the teacher as well."""
        super().take_state(state)
        self._teacher, self._fresh = None, bool(state.facts["fresh"])
        if "teacher" in state.facts:
            teacher = GCN(self._width, self.layers, self.hidden, np.random.default_rng(0)).requires_grad_(False)
            for name, parameter in teacher.named_parameters():
                parameter.data = torch.from_numpy(state.part("teacher").arrays[name].copy())
            self._teacher = teacher
