"""Classifiers on fixed feature vectors."""

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.models.head import GrowingHead, glorot


class MLP(nn.Module):
    """`hidden` ReLU units and a growing head, with bias; no hidden units make it multinomial logistic regression."""

    def __init__(self, width: int, hidden: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.inner = nn.ParameterList()
        if hidden:
            self.inner.extend([nn.Parameter(glorot(hidden, width, hidden, rng)), nn.Parameter(torch.zeros(hidden))])
        self.head = GrowingHead(hidden or width, bias=True)

    def forward(self, vectors: Tensor) -> Tensor:
        """Give the logits."""
        if len(self.inner):
            vectors = torch.relu(nn.functional.linear(vectors, self.inner[0], self.inner[1]))
        logits: Tensor = self.head(vectors)
        return logits
