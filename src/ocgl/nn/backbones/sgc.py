"""Simplified graph convolution (Wu et al., Simplifying graph convolutional networks, 2019)."""

from torch import Tensor, nn
from torch_geometric.nn import SGConv

from ocgl.nn.attention import attention
from ocgl.nn.backbones._layered import with_self_loops


class Net(nn.Module):
    r"""One `SGConv` of PyG: features are propagated `layers` times, then mapped linearly.

    .. math:: H = S^{layers} X W + b, \quad S = D^{-1/2} (A + I) D^{-1/2} \text{ over the sampled edges}

    Args:
        in_channels: number of features.
        hidden: units of the linear map.
        layers: number of propagations.
    """

    draws_nothing = True

    def __init__(self, in_channels: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.layer = SGConv(in_channels, hidden, K=layers, add_self_loops=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return one row per node."""
        rows: Tensor = self.layer(x, with_self_loops(edge_index, len(x)))
        return rows

    def edge_scores(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the attention over edges and self-loops by the outputs (see TWP)."""
        return attention(self(x, edge_index), edge_index)
