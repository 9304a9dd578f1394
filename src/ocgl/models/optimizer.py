"""Adam that follows a growing head."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.models.head import padded
from ocgl.state import State

_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


class GrowingAdam:
    """One Adam for the whole stream: new outputs start with zero moments, the others keep theirs and the step.

    The arithmetic is torch's own fused kernel, the one torch.optim.Adam(fused=True) calls; the moments lie here in
    the open because they grow, and the small models of this field cannot afford the optimizer's bookkeeping.
    """

    def __init__(self, model: nn.Module, lr: float) -> None:
        self._model = model
        self._lr = lr
        self._values = [p.data for p in model.parameters()]
        self._first = [torch.zeros_like(value) for value in self._values]
        self._second = [torch.zeros_like(value) for value in self._values]
        self._step = torch.zeros(())

    def apply(self, grads: Iterable[Tensor]) -> None:
        """Follow given gradients once, one per parameter in order."""
        self._step += 1
        torch._fused_adam_(
            self._values,
            list(grads),
            self._first,
            self._second,
            [],
            [self._step] * len(self._values),
            lr=self._lr,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            weight_decay=0.0,
            eps=_EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def grow(self) -> None:
        """Take the model's parameters anew and pad the moments of those that have grown."""
        self._values = [p.data for p in self._model.parameters()]
        self._first = [padded(m, len(v)) for m, v in zip(self._first, self._values, strict=True)]
        self._second = [padded(m, len(v)) for m, v in zip(self._second, self._values, strict=True)]

    @property
    def _names(self) -> list[str]:
        return [name for name, _ in self._model.named_parameters()]

    def state(self) -> State:
        """Give moments and the step count."""
        state = State({"step": self._step.numpy().copy()})
        for name, first, second in zip(self._names, self._first, self._second, strict=True):
            state.arrays |= {f"{name}:first": first.numpy().copy(), f"{name}:second": second.numpy().copy()}
        return state

    def load_state(self, state: State) -> None:
        """Take moments and the step count; the model has its parameters already."""
        self._values = [p.data for p in self._model.parameters()]
        self._step = torch.from_numpy(np.array(state.arrays["step"]))
        self._first = [torch.from_numpy(np.array(state.arrays[f"{name}:first"])) for name in self._names]
        self._second = [torch.from_numpy(np.array(state.arrays[f"{name}:second"])) for name in self._names]
