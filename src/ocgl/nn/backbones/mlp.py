"""A multilayer perceptron: what the features are worth without the graph."""

from torch import Tensor, nn
from torch_geometric.nn import MLP

from ocgl.nn.attention import attention


class Net(nn.Module):
    """PyG's `MLP` with ReLU after every layer. It uses no edge, so no neighbour is sampled for it.

    Args:
        in_channels: number of features.
        hidden: units of every layer.
        layers: number of layers.
    """

    draws_nothing = True
    uses_edges = False

    def __init__(self, in_channels: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.layers = MLP([in_channels, *[hidden] * layers], norm=None, plain_last=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return one row per node."""
        rows: Tensor = self.layers(x)
        return rows

    def edge_scores(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the attention over edges and self-loops by the outputs of the first layer (see TWP)."""
        return attention(self.layers.lins[0](x), edge_index)
