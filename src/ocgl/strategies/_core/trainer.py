"""A network with its growing head and its optimizer: what gradient-based strategies train."""

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.errors import StateError
from ocgl.nn import ClassOutputs, GrowingAdam, SparseGradient, gradients_of
from ocgl.nn.devices import CPU, array_of, moved, tensor_of
from ocgl.rng import restore, seeded_torch, state_of
from ocgl.state import State
from ocgl.types import IntArray

Gradients = Iterable[Tensor | SparseGradient]


class Trainer:
    """Follows gradients of a network whose head grows by an output when a class is first seen.

    Args:
        model: the network; its attribute `head` is a `GrowingHead`, or grows like one.
        lr: learning rate of Adam.
        rng: generator of the initial weights, also of new outputs.
        device: where the network and its optimizer are.
    """

    def __init__(self, model: nn.Module, lr: float, rng: np.random.Generator, device: torch.device = CPU) -> None:
        head = model.head
        assert isinstance(head, ClassOutputs)
        self.model, self.head, self.device = moved(model, device), head, device
        self.optimizer = GrowingAdam(model, lr)
        self._nonfinite = 0
        self._nonfinite_there = torch.zeros((), dtype=torch.int64, device=device)
        self._rng = rng
        self._draws_nothing = bool(getattr(model, "draws_nothing", False))

    @property
    def parameters(self) -> list[Tensor]:
        """The values of the parameters, in the model's order."""
        return [parameter.data for parameter in self.model.parameters()]

    def train(self) -> None:
        """Switch the network to training: dropout draws, batch normalisation uses the batch."""
        if not self.model.training:
            self.model.train()

    def eval(self) -> None:
        """Switch the network to predicting: nothing is drawn, and running statistics stay as they are."""
        if self.model.training:
            self.model.eval()

    def draws(self, *key: int) -> AbstractContextManager[None]:
        """Let the network draw (dropout) by a key; torch's own generator is left as it was."""
        return nullcontext() if self._draws_nothing else seeded_torch(*key, device=self.device.type)

    def add_outputs(self, labels: IntArray) -> bool:
        """Add an output for each new label; return whether there was one."""
        if not self.head.grow(labels.tolist(), self._rng):
            return False
        moved(self.model, self.device)  # a head of the network's own may have grown on the CPU
        self.optimizer.grow()
        return True

    def descend(self, loss: Tensor) -> None:
        """Make one optimizer step along the gradient of a loss."""
        self.apply(self._gradients(loss))

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Return the gradient of a loss by each parameter; count losses that are not finite."""
        return [g.multiplied() if isinstance(g, SparseGradient) else g for g in self._gradients(loss)]

    def apply(self, gradients: Gradients) -> None:
        """Make one optimizer step along gradients, one per parameter."""
        self.optimizer.apply(gradients)

    def _gradients(self, loss: Tensor) -> list[Tensor | SparseGradient]:
        if self.device.type == "cpu":
            self.count_loss(math.isfinite(loss.item()))
        else:  # counted there: reading the loss would wait for the device
            self._nonfinite_there += ~torch.isfinite(loss.detach())
        return gradients_of(self.model, loss)

    def count_loss(self, finite: bool) -> None:
        """Count a loss that is NaN or infinite."""
        self._nonfinite += not finite

    @property
    def nonfinite_losses(self) -> int:
        """Number of losses so far that were NaN or infinite."""
        return self._nonfinite + int(self._nonfinite_there)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the parameters alone."""
        return sum(parameter.numel() * parameter.element_size() for parameter in self.model.parameters())

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the network's buffers, such as running statistics."""
        return sum(buffer.numel() * buffer.element_size() for buffer in self.model.buffers())

    @property
    def nbytes(self) -> int:
        """Bytes of the parameters, of both moments of Adam, of its scratch room, and of the network's buffers."""
        return 3 * self.parameter_bytes + self.optimizer.scratch_bytes + self.buffer_bytes

    def state(self) -> State:
        """Return parameters and buffers of the network, optimizer, generator and counters."""
        state = State({}, {"init": state_of(self._rng), "nonfinite_losses": self.nonfinite_losses})
        arrays = {name: array_of(p) for name, p in self.model.named_parameters()}
        state.include("model", State(dict(arrays), {"labels": list(self.head.labels)}))
        buffers = {name: array_of(b) for name, b in self.model.named_buffers()}
        if buffers:
            state.include("buffers", State(dict(buffers)))
        return state.include("optimizer", self.optimizer.state())

    def load_state(self, state: State) -> None:
        """Take parameters and buffers of the network, optimizer, generator and counters."""
        part = state.part("model")
        self.head.restore(part.facts["labels"])
        for name, parameter in self.model.named_parameters():
            if parameter.shape != part.arrays[name].shape:
                raise StateError(f"{name} has shape {part.arrays[name].shape}, not {tuple(parameter.shape)}")
            parameter.data = tensor_of(part.arrays[name], self.device)
        self._load_buffers(state)
        self.optimizer.load_state(state.part("optimizer"))
        self._nonfinite = state.facts["nonfinite_losses"]
        self._nonfinite_there.zero_()
        restore(self._rng, state.facts["init"])

    def _load_buffers(self, state: State) -> None:
        buffers = dict(self.model.named_buffers())
        saved = state.part("buffers").arrays if "buffers" in state.facts else {}
        if saved.keys() != buffers.keys():
            raise StateError(f"it has the buffers {sorted(saved)}, not {sorted(buffers)}")
        for name, buffer in buffers.items():
            if tuple(buffer.shape) != saved[name].shape:
                raise StateError(f"{name} has shape {saved[name].shape}, not {tuple(buffer.shape)}")
            buffer.copy_(tensor_of(saved[name]))
