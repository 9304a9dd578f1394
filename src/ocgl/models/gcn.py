"""The graph convolutional network of Kipf and Welling, on sampled neighbourhoods.

H' = Agg(H) W: aggregation comes before the linear map, which is the same by linearity and touches only the nodes
whose output is needed. The first Agg acts on raw features, has no parameters, and is done once per batch.
"""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.graph import Neighborhood
from ocgl.models.head import GrowingHead, glorot
from ocgl.models.propagate import propagate


class GCN(nn.Module):
    """`layers` layers with `hidden` units and ReLU between them, no bias; one layer is a plain F to C map."""

    def __init__(self, width: int, layers: int, hidden: int, rng: np.random.Generator) -> None:
        super().__init__()
        sizes = [width, *[hidden] * (layers - 1)]
        self.inner = nn.ParameterList(
            nn.Parameter(glorot(inputs, outputs, inputs, rng)) for inputs, outputs in pairwise(sizes)
        )
        self.head = GrowingHead(sizes[-1], bias=False)

    def forward(self, seen: Neighborhood) -> Tensor:
        """Give the logits of the seeds."""
        h = torch.from_numpy(seen.aggregated)
        for layer, weight in enumerate(self.inner, start=2):
            h = propagate(torch.relu(h @ weight), seen.block(layer))
        logits: Tensor = self.head(h)
        return logits
