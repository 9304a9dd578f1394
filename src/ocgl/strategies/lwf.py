"""Learning without forgetting, online."""

import copy
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from ocgl.errors import ConfigError
from ocgl.graph import Batch, Neighborhood
from ocgl.nn.devices import array_of, tensor_of
from ocgl.nn.head import Init
from ocgl.state import State
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.gradient import GRID, Examples, GradientStrategy, allowed, mean_cross_entropy
from ocgl.strategies._core.trainer import Trainer
from ocgl.types import Json


@strategy
class LwF(GradientStrategy):
    """A copy of the network, taken every `update_every` batches, teaches the classes it knew.

    L = CE(batch) + lambda_dist * mean over the batch of -sum_c q_c log p_c
    q = softmax(teacher / T), p = softmax(student / T), both over the distilled classes

    Args:
        lambda_dist: weight of the distillation.
        temperature: T.
        update_every: batches between copies.
        distil: which of the teacher's classes are distilled: those `absent` from the batch (nothing if there are
            none), or all that are `known` to it.
        student: `known` for a student's softmax over the teacher's classes, so that new classes are free; `all` for
            one over all its classes, so that what it gives to new ones counts against it (with distil=known).
        init: distribution of initial weights.

    >>> LwF(update_every=10).sampling.hops
    2
    """

    name: ClassVar[str] = "lwf"
    title: ClassVar[str] = "LwF"
    idea: ClassVar[str] = "a past copy of the model teaches the classes it knew"
    keeps: ClassVar[str] = "P + p"
    update_cost: ClassVar[str] = "3/2 G"
    reference: ClassVar[str] = "Li and Hoiem, Learning without forgetting, 2018"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = GRID | {
        "lambda_dist": (0.1, 1.0, 10.0),
        "temperature": (0.2, 2.0, 20.0),
        "update_every": (1, 10, 100),
    }

    lambda_dist: NonNegativeFloat = 1.0
    temperature: PositiveFloat = 2.0
    update_every: PositiveInt = 10
    distil: Literal["absent", "known"] = "absent"
    student: Literal["known", "all"] = "known"
    init: Init = "kaiming"

    def __post_init__(self) -> None:
        if self.student == "all" and self.distil == "absent":
            raise ConfigError("student=all compares all classes: it goes with distil=known")
        super().__post_init__()

    def build(self, width: int) -> None:
        """Make the network and the place for its copy."""
        super().build(width)
        self.teacher = Teacher(self.trainer)
        self._taught: tuple[Tensor, Tensor] | None = None

    def before_batch(self, examples: Examples) -> None:
        """Ask the teacher once per sample: it does not change during a batch."""
        self._taught = None
        given = self.teacher.logits(examples.neighborhood)
        if given is not None:
            columns = self._distilled(given.shape[1], examples)
            if len(columns):
                self._taught = torch.softmax(given[:, columns] / self.temperature, 1), columns

    def loss(self, examples: Examples) -> Tensor:
        """L = CE(batch) - lambda_dist * mean of sum_c q_c log p_c."""
        logits = self.logits(examples.neighborhood)
        loss = mean_cross_entropy(allowed(logits, examples), examples.targets)
        if self._taught is not None and not self._teaches_itself(self._taught[0], logits):
            q, columns = self._taught
            compared = logits if self.student == "all" else logits[:, columns]
            log_p = torch.log_softmax(compared / self.temperature, 1)[:, : len(columns)]
            told = self.labelled((q * log_p).sum(1), examples)
            loss = loss - self.lambda_dist * told.mean()
        return loss

    def _distilled(self, known: int, examples: Examples) -> Tensor:
        """Return the outputs to distil, of those that the teacher knows."""
        outputs = np.arange(known)
        chosen = np.setdiff1d(outputs, examples.targets) if self.distil == "absent" else outputs
        return torch.from_numpy(chosen).to(self.device)

    def step(self, examples: Examples) -> None:
        """Make one step; from then on the teacher is not the student any more."""
        loss = self.loss(examples)
        self.teacher.fresh = False
        self.descend(loss)

    def after_batch(self, examples: Examples, batch: Batch) -> None:
        """Copy the network, every so often."""
        self._taught = None
        if (self.updates + 1) % self.update_every == 0:
            self.teacher.copy(self.model)

    def _teaches_itself(self, q: Tensor, logits: Tensor) -> bool:
        """Return whether p = q, so that the gradient of the distillation is zero; rounding must not say otherwise."""
        grown = self.student == "all" and q.shape[1] < logits.shape[1]
        return self.teacher.fresh and not grown

    @classmethod
    def canonical_config(cls, config: Json) -> Json:
        """A teacher that equals the student on the only pass teaches nothing."""
        plain = config.get("student", "known") == "known"
        if plain and config.get("passes") == 1 and config.get("update_every") == 1:
            return config | {key: cls.grid[key][0] for key in ("lambda_dist", "temperature")}
        return config


class Teacher:
    """A frozen copy of the network; `fresh` while the network has not moved since."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._model: nn.Module | None = None
        self.fresh = False

    def copy(self, model: nn.Module) -> None:
        """Become what the network is now."""
        self._model = copy.deepcopy(model).requires_grad_(False).eval()
        self.fresh = True

    def logits(self, neighborhood: Neighborhood) -> Tensor | None:
        """Return the outputs of the copy; None before the first copy."""
        if self._model is None:
            return None
        with torch.no_grad():
            logits: Tensor = self._model(neighborhood)
        return logits

    @property
    def nbytes(self) -> int:
        """As many bytes as the parameters and buffers of the network."""
        return self._trainer.parameter_bytes + self._trainer.buffer_bytes

    def state(self) -> State:
        """Return the copy."""
        if self._model is None:
            return State({}, {"fresh": self.fresh, "copied": False})
        arrays = {name: array_of(p) for name, p in self._model.named_parameters()}
        arrays |= {name: array_of(buffer) for name, buffer in self._model.named_buffers()}
        return State(dict(arrays), {"fresh": self.fresh, "copied": True})

    def load_state(self, state: State) -> None:
        """Take the copy."""
        self._model, self.fresh = None, bool(state.facts["fresh"])
        if state.facts["copied"]:
            self._model = copy.deepcopy(self._trainer.model).requires_grad_(False).eval()
            for name, parameter in self._model.named_parameters():
                parameter.data = tensor_of(state.arrays[name], self._trainer.device)
            for name, buffer in self._model.named_buffers():
                buffer.copy_(tensor_of(state.arrays[name]))
