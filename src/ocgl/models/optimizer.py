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

    def __init__(self, parameters: Iterable[tuple[str, nn.Parameter]], lr: float) -> None:
        self._named = dict(parameters)
        self._parameters = list(self._named.values())
        self._lr = lr
        self._first = [torch.zeros_like(p.data) for p in self._parameters]
        self._second = [torch.zeros_like(p.data) for p in self._parameters]
        self._step = torch.zeros(())

    def step(self, loss: Tensor) -> None:
        """Follow the gradient of the loss once."""
        self.apply(torch.autograd.grad(loss, self._parameters))

    def apply(self, grads: Iterable[Tensor]) -> None:
        """Follow given gradients once, one per parameter in order."""
        self._step += 1
        torch._fused_adam_(
            [p.data for p in self._parameters],
            list(grads),
            self._first,
            self._second,
            [],
            [self._step] * len(self._parameters),
            lr=self._lr,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            weight_decay=0.0,
            eps=_EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def grow(self) -> None:
        """Pad the moments of parameters that have grown."""
        self._first = [padded(m, len(p)) for m, p in zip(self._first, self._parameters, strict=True)]
        self._second = [padded(m, len(p)) for m, p in zip(self._second, self._parameters, strict=True)]

    def state(self) -> State:
        """Give moments and the step count."""
        state = State({"step": self._step.numpy().copy()})
        for name, first, second in zip(self._named, self._first, self._second, strict=True):
            state.arrays |= {f"{name}:first": first.numpy().copy(), f"{name}:second": second.numpy().copy()}
        return state

    def load_state(self, state: State) -> None:
        """Take moments and the step count."""
        self._step = torch.from_numpy(np.array(state.arrays["step"]))
        self._first = [torch.from_numpy(np.array(state.arrays[f"{name}:first"])) for name in self._named]
        self._second = [torch.from_numpy(np.array(state.arrays[f"{name}:second"])) for name in self._named]
