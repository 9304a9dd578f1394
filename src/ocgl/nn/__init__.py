"""Backbones, the growing output layer, and its optimizer."""

from ocgl.nn.gcn import GCN, GCNOptions
from ocgl.nn.gradients import SparseGradient, gradients_of
from ocgl.nn.head import IGNORE, ClassOutputs, GrowingHead
from ocgl.nn.mlp import MLP
from ocgl.nn.network import GraphNetwork, Network
from ocgl.nn.optimizer import GrowingAdam
from ocgl.nn.propagate import propagate, propagate_back
from ocgl.nn.softmax import narrow_logits, softmax_gradient

__all__ = [
    "GCN",
    "IGNORE",
    "MLP",
    "ClassOutputs",
    "GCNOptions",
    "GraphNetwork",
    "GrowingAdam",
    "GrowingHead",
    "Network",
    "SparseGradient",
    "gradients_of",
    "narrow_logits",
    "propagate",
    "propagate_back",
    "softmax_gradient",
]
