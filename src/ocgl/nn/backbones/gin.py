"""Graph isomorphism network (Xu et al., How powerful are graph neural networks?, 2019)."""

from torch_geometric.nn import MLP, GINConv

from ocgl.nn.backbones._layered import Layered


class Net(Layered):
    r"""Layers of PyG's `GINConv`, ReLU after each; each has a perceptron with one hidden layer.

    .. math:: h_v' = ReLU(MLP(h_v + \sum_{u \in N(v)} h_u))

    Args:
        in_channels: number of features.
        hidden: units of every layer.
        layers: number of layers.
    """

    def __init__(self, in_channels: int, hidden: int, layers: int) -> None:
        super().__init__(
            GINConv(MLP([hidden if number else in_channels, hidden, hidden], norm=None)) for number in range(layers)
        )
