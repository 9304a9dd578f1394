"""Backbones, the growing head, and the optimizer that follows it."""

from ocgl.models.gcn import GCN
from ocgl.models.gradients import SparseGradient, gradients_of
from ocgl.models.head import IGNORE, GrowingHead, padded
from ocgl.models.mlp import MLP
from ocgl.models.optimizer import GrowingAdam
from ocgl.models.propagate import propagate, propagate_back
from ocgl.models.softmax import narrow_logits, softmax_gradient

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
