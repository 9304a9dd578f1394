"""Attention over sampled edges by the outputs of a first layer: what the topology loss of TWP is made of."""

import torch
from torch import Tensor, nn


def attention(hidden: Tensor, edge_index: Tensor) -> Tensor:
    """Return the attention that each node pays to the messages it receives, its own among them.

    e_uv = LeakyReLU_0.2(h_u . tanh(h_v)) over the sampled edges u to v and the self-loops; then softmax over what v
    receives.

    Args:
        hidden: the first layer's outputs h before its activation, of shape [num_nodes, num_units].
        edge_index: sampled edges without self-loops, of shape [2, num_edges].
    """
    nodes = torch.arange(len(hidden), device=hidden.device)
    source, target = torch.cat([edge_index[0], nodes]), torch.cat([edge_index[1], nodes])
    e = nn.functional.leaky_relu((hidden[source] * torch.tanh(hidden)[target]).sum(1), 0.2)
    none = hidden.new_full((len(hidden),), -torch.inf)
    most = none.scatter_reduce(0, target, e.detach(), "amax")
    raised = torch.exp(e - most[target])
    return raised / hidden.new_zeros(len(hidden)).index_add(0, target, raised)[target]
