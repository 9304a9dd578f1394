"""Adam that follows a growing head."""

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.models.head import padded
from ocgl.state import State


class GrowingAdam:
    """One Adam for the whole stream: new outputs start with zero moments, the others keep theirs and the step."""

    def __init__(self, parameters: Iterable[tuple[str, nn.Parameter]], lr: float) -> None:
        self._named = dict(parameters)
        self._adam = torch.optim.Adam(list(self._named.values()), lr=lr, fused=True)

    def step(self, loss: Tensor) -> None:
        """Follow the gradient of the loss once."""
        self._adam.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.apply()

    def apply(self) -> None:
        """Follow the gradients that the parameters hold."""
        self._adam.step()

    def grow(self) -> None:
        """Pad the moments of parameters that have grown."""
        for parameter in self._named.values():
            for key, value in self._moments(parameter).items():
                self._adam.state[parameter][key] = padded(value, len(parameter))

    def state(self) -> State:
        """Give moments and step counts."""
        state = State()
        for name, parameter in self._named.items():
            for key, value in self._adam.state.get(parameter, {}).items():
                state.arrays[f"{name}:{key}"] = value.numpy().copy()
        return state

    def load_state(self, state: State) -> None:
        """Take moments and step counts."""
        self._adam.state.clear()
        for full, value in state.arrays.items():
            name, key = full.rsplit(":", 1)
            self._adam.state[self._named[name]][key] = torch.from_numpy(np.array(value))

    def _moments(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        held = cast(dict[str, Any], self._adam.state.get(parameter, {}))
        return {key: value for key, value in held.items() if value.dim()}
