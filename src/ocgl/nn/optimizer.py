"""Adam for a model whose output layer grows."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.kernels import kernel
from ocgl.nn.devices import array_of, device_of, tensor_of
from ocgl.nn.gradients import SparseGradient
from ocgl.nn.head import padded
from ocgl.state import State
from ocgl.types import BoolArray, FloatArray, PositionArray

_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


@kernel
def _adam(p: FloatArray, m: FloatArray, v: FloatArray, g: FloatArray, size: np.float32, scale: np.float32) -> None:
    beta2, rest2 = np.float32(_BETAS[1]), np.float32(1 - _BETAS[1])
    rest1, epsilon = np.float32(1 - _BETAS[0]), np.float32(_EPSILON)
    for j in range(len(p)):
        mean = m[j] + (g[j] - m[j]) * rest1
        square = v[j] * beta2 + g[j] * g[j] * rest2
        m[j] = mean
        v[j] = square
        p[j] -= size * mean / (np.sqrt(square) * scale + epsilon)


@kernel
def _adam_rows(
    value: FloatArray,
    first: FloatArray,
    second: FloatArray,
    grad: FloatArray,
    moved: BoolArray,
    begins: PositionArray,
    size: np.float32,
    scale: np.float32,
) -> None:
    """Apply one step of Adam to the rows that have had a nonzero gradient.

    `moved` marks those rows; `begins` has the column starts of the sparse rows, so a row with an empty range has no
    gradient now. All other rows have zero moments, and a step would not change them.
    """
    p, m, v, g = value.ravel(), first.ravel(), second.ravel(), grad.ravel()
    rows, width = value.shape
    end = 0
    while end < rows:
        begin = end
        while end < rows and (moved[end] or begins[end] < begins[end + 1]):
            moved[end] = True
            end += 1
        run = slice(begin * width, end * width)
        _adam(p[run], m[run], v[run], g[run], size, scale)
        end += begin == end


class GrowingAdam:
    """Adam whose moments grow with the model: new outputs start with zero moments, the step count continues.

    Dense gradients use torch's fused kernel, as `torch.optim.Adam(fused=True)` does. This class holds the moments
    itself because they grow, and because the overhead of torch's optimizer dominates for small models.

    Args:
        model: the model to update; call `grow` after its parameters have been replaced.
        lr: learning rate.
    """

    def __init__(self, model: nn.Module, lr: float) -> None:
        self._model = model
        self._lr = lr
        self._values = [p.data for p in model.parameters()]
        self._first = [torch.zeros_like(value) for value in self._values]
        self._second = [torch.zeros_like(value) for value in self._values]
        self._step = torch.zeros((), device=device_of(model))
        self._moved: dict[int, BoolArray] = {}
        self._buffer: FloatArray | None = None

    def apply(self, grads: Iterable[Tensor | SparseGradient]) -> None:
        """Apply one step with these gradients, one per parameter in the order of `model.parameters()`."""
        self._step += 1
        dense: dict[int, Tensor] = {}
        for i, grad in enumerate(grads):
            if isinstance(grad, SparseGradient):
                self._apply_sparse(i, grad)
            else:
                dense[i] = grad
                self._moved.pop(i, None)
        torch._fused_adam_(
            [self._values[i] for i in dense],
            list(dense.values()),
            [self._first[i] for i in dense],
            [self._second[i] for i in dense],
            [],
            [self._step] * len(dense),
            lr=self._lr,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            weight_decay=0.0,
            eps=_EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def _apply_sparse(self, index: int, grad: SparseGradient) -> None:
        value, first, second = (part[index].numpy() for part in (self._values, self._first, self._second))
        if index not in self._moved:
            self._mark(index)
        step = float(self._step)
        size = np.float32(self._lr / (1 - _BETAS[0] ** step))
        scale = np.float32(1 / np.sqrt(1 - _BETAS[1] ** step))
        self._buffer = grad.rows.back(grad.right, self._buffer)
        _adam_rows(value, first, second, self._buffer, self._moved[index], grad.rows.by_column[0], size, scale)

    def _mark(self, index: int) -> None:
        """Mark the rows that have nonzero moments."""
        first, second = self._first[index].numpy(), self._second[index].numpy()
        self._moved[index] = (first != 0).any(1) | (second != 0).any(1)

    def grow(self) -> None:
        """Read the model's parameters again and pad the moments of those that have grown with zeros."""
        self._moved.clear()
        self._values = [p.data for p in self._model.parameters()]
        self._first = [padded(m, v) for m, v in zip(self._first, self._values, strict=True)]
        self._second = [padded(m, v) for m, v in zip(self._second, self._values, strict=True)]

    @property
    def scratch_bytes(self) -> int:
        """Memory for sparse gradients in bytes, without the moments."""
        marks = sum(moved.nbytes for moved in self._moved.values())
        return marks + (0 if self._buffer is None else self._buffer.nbytes)

    @property
    def _names(self) -> list[str]:
        return [name for name, _ in self._model.named_parameters()]

    def state(self) -> State:
        """Return the moments, the step count, and the shape of the scratch buffer."""
        shape = None if self._buffer is None else list(self._buffer.shape)
        state = State({"step": array_of(self._step)}, {"sparse": sorted(self._moved), "room": shape})
        for name, first, second in zip(self._names, self._first, self._second, strict=True):
            state.arrays |= {f"{name}:first": array_of(first), f"{name}:second": array_of(second)}
        return state

    def load_state(self, state: State) -> None:
        """Restore the moments and the step count; restore the model's parameters first."""
        self._moved.clear()
        self._values = [p.data for p in self._model.parameters()]
        device = device_of(self._model)
        self._step = tensor_of(state.arrays["step"], device)
        self._first = [tensor_of(state.arrays[f"{name}:first"], device) for name in self._names]
        self._second = [tensor_of(state.arrays[f"{name}:second"], device) for name in self._names]
        for index in state.facts["sparse"]:
            self._mark(index)
        shape = state.facts["room"]
        self._buffer = None if shape is None else np.empty(shape, np.float32)
