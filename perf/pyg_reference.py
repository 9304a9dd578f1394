"""The update of `bare` as one writes it with PyG: GCNConv on the sampled subgraph, every sampled node transformed."""

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from ocgl.graph import Neighborhood
from ocgl.types import IntArray


class PyGUpdate(nn.Module):
    """Two GCNConv layers without normalisation or bias, self-loops given as edges, fused Adam."""

    def __init__(self, weights: list[Tensor], lr: float, passes: int) -> None:
        super().__init__()
        first, head = weights
        self.first = GCNConv(*first.shape, normalize=False, bias=False)
        self.second = GCNConv(*head.t().shape, normalize=False, bias=False)
        with torch.no_grad():
            self.first.lin.weight.copy_(first.t())
            self.second.lin.weight.copy_(head)
        self.passes = passes
        self.adam = torch.optim.Adam(self.parameters(), lr=lr, fused=True)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        logits: Tensor = self.second(torch.relu(self.first(x, edge_index)), edge_index)
        return logits

    def update(self, neighborhood: Neighborhood, targets: Tensor) -> None:
        x, edge_index = subgraph(neighborhood)
        for _ in range(self.passes):
            self.adam.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(self(x, edge_index)[: neighborhood.seeds], targets)
            loss.backward()  # type: ignore[no-untyped-call]
            self.adam.step()


def subgraph(neighborhood: Neighborhood) -> tuple[Tensor, Tensor]:
    """Gather the rows and list the edges, self-loops included, as PyG wants them."""
    targets = np.repeat(np.arange(len(neighborhood.indptr) - 1), np.diff(neighborhood.indptr))
    everyone: IntArray = np.arange(len(neighborhood.nodes))
    edges = np.stack([np.concatenate([neighborhood.indices, everyone]), np.concatenate([targets, everyone])])
    rows = neighborhood.rows()
    assert isinstance(rows, np.ndarray)
    return torch.from_numpy(rows), torch.from_numpy(edges.astype(np.int64))
