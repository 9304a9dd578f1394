"""Multilayer perceptron with a growing output layer."""

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.nn.head import GrowingHead, glorot


class MLP(nn.Module):
    """One hidden ReLU layer and a growing output layer, both with bias.

    Args:
        width: number of input features.
        hidden: hidden units; with 0 the model is multinomial logistic regression.
        rng: generator of the initial weights (Glorot uniform).
    """

    draws_nothing = True

    def __init__(self, width: int, hidden: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.inner = nn.ParameterList()
        if hidden:
            self.inner.extend([nn.Parameter(glorot(hidden, width, hidden, rng)), nn.Parameter(torch.zeros(hidden))])
        self.head = GrowingHead(hidden or width, bias=True)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the logits, of shape [num_rows, num_classes]."""
        if len(self.inner):
            vectors = torch.relu(nn.functional.linear(vectors, self.inner[0], self.inner[1]))
        logits: Tensor = self.head(vectors)
        return logits
