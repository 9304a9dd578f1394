"""Message-passing layers of torch_geometric one after the other, on no more rows than the seeds need."""

from collections.abc import Iterable
from itertools import accumulate

import torch
from torch import Tensor, nn

from ocgl.nn.attention import attention


def with_self_loops(edge_index: Tensor, nodes: int) -> Tensor:
    """Return edges without self-loops with one added for each of the first nodes.

    PyG's layers would look for loops first, for which an accelerator has to be waited for.
    """
    return torch.cat([edge_index, torch.arange(nodes, device=edge_index.device).expand(2, -1)], 1)


class Layered(nn.Module):
    """Layers with ReLU after each.

    Args:
        layers: message-passing layers that take a pair (rows of sources, rows of targets), as PyG's do.
    """

    draws_nothing = True
    needs_self_loops = False

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        num_sampled_nodes_per_hop: list[int] | None = None,
        num_sampled_edges_per_hop: list[int] | None = None,
    ) -> Tensor:
        """Return one row per node; with the numbers per hop, one row per seed."""
        if num_sampled_nodes_per_hop is None or num_sampled_edges_per_hop is None:
            for layer in self.layers:
                x = layer(x, self._edges(edge_index, len(x))).relu()
            return x
        rows, edges = list(accumulate(num_sampled_nodes_per_hop)), list(accumulate(num_sampled_edges_per_hop))
        for number, layer in enumerate(self.layers):
            hop = len(self.layers) - 1 - number
            x = layer((x, x[: rows[hop]]), self._edges(edge_index[:, : edges[hop]], rows[hop])).relu()
        return x

    def _edges(self, edge_index: Tensor, targets: int) -> Tensor:
        return with_self_loops(edge_index, targets) if self.needs_self_loops else edge_index

    def edge_scores(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the attention over edges and self-loops by the outputs of the first layer (see TWP)."""
        return attention(self.layers[0](x, edge_index), edge_index)
