"""The output layer, which adds an output when a class is first observed."""

from abc import abstractmethod
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.types import BoolArray, FloatArray, IntArray

IGNORE = -100
"""Target of a node without a label; the loss ignores it (torch's default `ignore_index`)."""


Init = Literal["glorot", "kaiming"]
"""Distribution of initial weights: Glorot uniform, or Kaiming normal."""


def glorot(rows: int, fan_in: int, fan_out: int, rng: np.random.Generator) -> Tensor:
    """Draw `rows` rows of a Glorot-uniform matrix of shape [fan_out, fan_in]."""
    limit = np.sqrt(6.0 / (fan_in + fan_out))
    return torch.from_numpy(rng.uniform(-limit, limit, (rows, fan_in)).astype(np.float32))


def kaiming(shape: tuple[int, int], fan_in: int, rng: np.random.Generator) -> Tensor:
    """Draw a Kaiming-normal matrix: normal with mean 0 and variance 2 / fan_in."""
    return torch.from_numpy((rng.standard_normal(shape) * np.sqrt(2.0 / fan_in)).astype(np.float32))


def padded(tensor: Tensor, like: Tensor) -> Tensor:
    """Return the tensor extended with zeros to the shape of another one."""
    return grown(tensor, torch.zeros_like(like)) if tensor.shape != like.shape else tensor


def grown(tensor: Tensor, larger: Tensor) -> Tensor:
    """Return a copy of a larger tensor with its first rows and columns replaced by those of a smaller one."""
    found = larger.clone()
    found[tuple(slice(0, size) for size in tensor.shape)] = tensor
    return found


class ClassOutputs:
    """The outputs of a network: one per class observed in training, in order of first observation."""

    def __init__(self) -> None:
        super().__init__()
        self.labels: list[int] = []
        self._index: dict[int, int] = {}

    def new(self, labels: list[int]) -> list[int]:
        """Return the labels without an output, smallest first."""
        return sorted(set(labels) - self._index.keys())

    def set_labels(self, labels: list[int]) -> None:
        """Set the labels of the outputs."""
        self.labels = list(labels)
        self._index = {label: i for i, label in enumerate(self.labels)}

    @abstractmethod
    def grow(self, labels: list[int], rng: np.random.Generator) -> int:
        """Add an output for each new label, smallest first, and return their number."""

    @abstractmethod
    def restore(self, labels: list[int]) -> None:
        """Set the labels, which start with the current ones, and add outputs for the others."""

    def targets(self, labels: IntArray) -> IntArray:
        """Return the output index of each label, `IGNORE` for a label without an output."""
        return np.array([self._index.get(label, IGNORE) for label in labels.tolist()])

    def allowed(self, candidates: IntArray) -> BoolArray:
        """Return a mask of shape [num_nodes, num_outputs]: the outputs of each node's candidate classes.

        Args:
            candidates: labels that each node can have, of shape [num_nodes, num_candidates].
        """
        possible: BoolArray = (candidates[:, :, None] == np.array(self.labels)).any(1)
        return possible


class GrowingHead(ClassOutputs, nn.Module):
    """A linear layer with one output per class observed in training, in order of first observation.

    Args:
        inputs: number of input features.
        bias: whether to add a bias.
        init: distribution of the weights of a new output.

    >>> head = GrowingHead(4, bias=False)
    >>> head.grow([7, 3, 7], np.random.default_rng(0))
    2
    >>> head.labels
    [3, 7]
    """

    def __init__(self, inputs: int, bias: bool, init: Init = "glorot") -> None:
        super().__init__()
        self._init = init
        self.weight = nn.Parameter(torch.empty(0, inputs))
        self.bias = nn.Parameter(torch.empty(0)) if bias else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the logits, of shape [num_rows, num_classes]."""
        return nn.functional.linear(hidden, self.weight, self.bias)

    def grow(self, labels: list[int], rng: np.random.Generator) -> int:
        """Add an output for each new label, smallest first, and return their number.

        Existing rows do not change; new biases are zero.
        """
        new = self.new(labels)
        if new:
            self.restore([*self.labels, *new])
            fan_out, fan_in = self.weight.shape
            if self._init == "glorot":
                fresh = glorot(len(new), fan_in, fan_out, rng)
            else:
                fresh = kaiming((len(new), fan_in), fan_in, rng)
            self.weight.data[-len(new) :] = fresh
        return len(new)

    def restore(self, labels: list[int]) -> None:
        """Set the labels, which start with the current ones, and add zero rows for the others."""
        self.set_labels(labels)
        # New parameters, not new data: autograd caches the shape of a parameter it has used.
        weight = self.weight.data
        self.weight = nn.Parameter(padded(weight, weight.new_empty(len(labels), weight.shape[1])))
        if self.bias is not None:
            self.bias = nn.Parameter(padded(self.bias.data, weight.new_empty(len(labels))))

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray]:
        """Weight and bias as numpy arrays that share memory with the parameters."""
        assert self.bias is not None
        return self.weight.data.numpy(), self.bias.data.numpy()
