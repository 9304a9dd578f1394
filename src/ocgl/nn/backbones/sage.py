"""GraphSAGE with mean aggregation (Hamilton et al., Inductive representation learning on large graphs, 2017)."""

from torch_geometric.nn import SAGEConv

from ocgl.nn.backbones._layered import Layered


class Net(Layered):
    r"""Layers of PyG's `SAGEConv`, ReLU after each.

    .. math:: h_v' = ReLU(W_1 h_v + W_2 mean_{u \in N(v)} h_u + b)

    Args:
        in_channels: number of features.
        hidden: units of every layer.
        layers: number of layers.
    """

    def __init__(self, in_channels: int, hidden: int, layers: int) -> None:
        super().__init__(SAGEConv(hidden if number else in_channels, hidden) for number in range(layers))
