"""Backbones, the growing output layer, and its optimizer."""

from ocgl.nn.gcn import GCN
from ocgl.nn.gradients import SparseGradient, gradients_of
from ocgl.nn.head import IGNORE, GrowingHead, padded
from ocgl.nn.mlp import MLP
from ocgl.nn.optimizer import GrowingAdam
from ocgl.nn.propagate import propagate, propagate_back
from ocgl.nn.softmax import narrow_logits, softmax_gradient

__all__ = [
    "GCN",
    "IGNORE",
    "MLP",
    "GrowingAdam",
    "GrowingHead",
    "SparseGradient",
    "gradients_of",
    "narrow_logits",
    "padded",
    "propagate",
    "propagate_back",
    "softmax_gradient",
]
