"""Graph attention network (Velickovic et al., Graph attention networks, 2018)."""

from torch import Tensor
from torch_geometric.nn import GATConv

from ocgl.nn.backbones._layered import Layered

HEADS = 8


class Net(Layered):
    r"""Layers of PyG's `GATConv`, ReLU after each, with eight heads side by side (one if `hidden` is no multiple).

    .. math:: h_v' = ReLU(\sum_{u \in N(v) + v} a_{uv} W h_u + b)

    Args:
        in_channels: number of features.
        hidden: units of every layer, all heads together.
        layers: number of layers.
    """

    needs_self_loops = True

    def __init__(self, in_channels: int, hidden: int, layers: int) -> None:
        heads = HEADS if hidden % HEADS == 0 else 1
        super().__init__(
            GATConv(hidden if number else in_channels, hidden // heads, heads, add_self_loops=False)
            for number in range(layers)
        )

    def edge_scores(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the attention of the first layer, of shape [num_edges + num_nodes, num_heads]."""
        edges = self._edges(edge_index, len(x))
        scores: Tensor = self.layers[0](x, edges, return_attention_weights=True)[1][1]
        return scores
