"""Gradient projection, shared by A-GEM and SSM-A-GEM."""

import torch
from torch import Tensor

_TINY = 1e-12


def project(gradients: list[Tensor], reference: list[Tensor]) -> list[Tensor]:
    """Return g - (g.r / r.r) r where g.r < 0, and g elsewhere; g and r are one vector over all parameters."""
    if gradients[0].device.type != "cpu":
        return _without_waiting(gradients, reference)
    against = sum(float(torch.dot(g.flatten(), r.flatten())) for g, r in zip(gradients, reference, strict=True))
    length = sum(float(torch.dot(r.flatten(), r.flatten())) for r in reference)
    if against >= 0 or length < _TINY:
        return gradients
    return [torch.sub(g, r, alpha=against / length) for g, r in zip(gradients, reference, strict=True)]


def _without_waiting(gradients: list[Tensor], reference: list[Tensor]) -> list[Tensor]:
    """The same on an accelerator, where asking for the sign of g.r would wait for the device."""
    pairs = list(zip(gradients, reference, strict=True))
    against = torch.stack([torch.dot(g.flatten(), r.flatten()) for g, r in pairs]).sum()
    length = torch.stack([torch.dot(r.flatten(), r.flatten()) for r in reference]).sum()
    share = torch.where((against < 0) & (length >= _TINY), against / length, torch.zeros_like(length))
    return [g - share * r for g, r in pairs]
