"""The output layer, which grows by a neuron when a class is first observed."""

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.types import BoolArray, FloatArray, IntArray

IGNORE = -100
"""Target of a node without a label: it has no part in the loss (torch's own convention)."""


def glorot(rows: int, fan_in: int, fan_out: int, rng: np.random.Generator) -> Tensor:
    """Draw `rows` rows of a Glorot-uniform (fan_out x fan_in) matrix."""
    limit = np.sqrt(6.0 / (fan_in + fan_out))
    return torch.from_numpy(rng.uniform(-limit, limit, (rows, fan_in)).astype(np.float32))


def padded(tensor: Tensor, rows: int) -> Tensor:
    """Append rows of zeros, so that there are `rows` in all."""
    missing = rows - len(tensor)
    return torch.cat([tensor, tensor.new_zeros(missing, *tensor.shape[1:])]) if missing else tensor


class GrowingHead(nn.Module):
    """A linear map with one output per class seen in training, in order of first observation.

    >>> head = GrowingHead(4, bias=False)
    >>> head.grow([7, 3, 7], np.random.default_rng(0))
    2
    >>> head.labels
    [3, 7]
    """

    def __init__(self, inputs: int, bias: bool) -> None:
        super().__init__()
        self.labels: list[int] = []
        self._index: dict[int, int] = {}
        self.weight = nn.Parameter(torch.empty(0, inputs))
        self.bias = nn.Parameter(torch.empty(0)) if bias else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Give the logits."""
        return nn.functional.linear(hidden, self.weight, self.bias)

    def grow(self, labels: list[int], rng: np.random.Generator) -> int:
        """Add an output for each new label, smallest first; old rows keep their values. Gives how many."""
        new = sorted(set(labels) - self._index.keys())
        if new:
            self.restore([*self.labels, *new])
            fan_out, fan_in = self.weight.shape
            fresh = glorot(len(new), fan_in, fan_out, rng)
            self.weight.data[-len(new) :] = fresh
        return len(new)

    def restore(self, labels: list[int]) -> None:
        """Take these labels, of which the present ones are the beginning; new rows are zero."""
        self.labels = list(labels)
        self._index = {label: i for i, label in enumerate(self.labels)}
        # New parameters, not new data: autograd remembers the shape of those it has seen.
        self.weight = nn.Parameter(padded(self.weight.data, len(labels)))
        if self.bias is not None:
            self.bias = nn.Parameter(padded(self.bias.data, len(labels)))

    def targets(self, labels: IntArray) -> IntArray:
        """Give the output index of each label, and IGNORE for one without an output."""
        return np.array([self._index.get(label, IGNORE) for label in labels.tolist()])

    def allowed(self, candidates: IntArray) -> BoolArray:
        """Give, for each node, which outputs belong to its candidate classes (nodes x outputs)."""
        possible: BoolArray = (candidates[:, :, None] == np.array(self.labels)).any(1)
        return possible

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray]:
        """Weight and bias, without copying."""
        assert self.bias is not None
        return self.weight.data.numpy(), self.bias.data.numpy()
