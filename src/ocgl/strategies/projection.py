"""Gradient projection: descend without going up on the memories."""

import torch
from torch import Tensor

from ocgl.strategies.replay import Replay
from ocgl.strategies.training import Seen, labelled, masked
from ocgl.types import BoolArray, IntArray

_TINY = 1e-12


def project(gradients: list[Tensor], reference: list[Tensor]) -> list[Tensor]:
    """g - (g.r / r.r) r where g.r < 0, g elsewhere; one vector over all parameters."""
    against = sum(float(torch.dot(g.flatten(), r.flatten())) for g, r in zip(gradients, reference, strict=True))
    length = sum(float(torch.dot(r.flatten(), r.flatten())) for r in reference)
    if against >= 0 or length < _TINY:
        return gradients
    return [torch.sub(g, r, alpha=against / length) for g, r in zip(gradients, reference, strict=True)]


def projected_step(strategy: Replay[Seen], seen: Seen, targets: IntArray, allowed: BoolArray | None) -> None:
    """Step along the batch's gradient, projected so that it does not point against that of a draw of the memory."""
    gradients = strategy.gradients(strategy.loss(masked(strategy.forward(seen), allowed), targets))
    recalled = strategy.recall(strategy.memory_proportion * labelled(targets))
    if recalled is not None:
        memories, labels = recalled
        loss = strategy.loss(strategy.forward(memories), strategy.head.targets(labels))
        gradients = project(gradients, strategy.gradients(loss))
    strategy.apply(gradients)
