"""Devices: which there are, and how arrays get to them and back."""

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.errors import ConfigError
from ocgl.types import AnyArray

CPU = torch.device("cpu")


def available(device: str) -> str:
    """Return the name of a device that there is; `auto` is the first of cuda, mps and cpu.

    >>> available("cpu")
    'cpu'
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    present = [name for name in there if there[name]]
    if device == "auto":
        return present[0]
    if device not in present:
        raise ConfigError(f"there is no device {device} here; there is {', '.join(present)} (or auto)")
    return device


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a network."""
    return next((parameter.device for parameter in model.parameters()), CPU)


def moved(model: nn.Module, device: torch.device) -> nn.Module:
    """Move a network to a device, in place: parameters and buffers become new ones there, shared ones stay shared."""
    if all(part.device == device for part in (*model.parameters(), *model.buffers())):
        return model
    known: dict[int, Tensor] = {}
    for module in model.modules():
        for parts in (module._parameters, module._buffers):
            for name, part in parts.items():
                if part is not None:
                    parts[name] = known.setdefault(id(part), _moved(part, device))  # type: ignore[assignment]
    return model


def _moved(part: Tensor, device: torch.device) -> Tensor:
    there = part.detach().to(device)
    return nn.Parameter(there, part.requires_grad) if isinstance(part, nn.Parameter) else there


def array_of(tensor: Tensor) -> AnyArray:
    """Return a copy of a tensor as an array."""
    return tensor.detach().cpu().numpy().copy()


def tensor_of(array: AnyArray, device: torch.device = CPU) -> Tensor:
    """Return a copy of an array as a tensor on a device."""
    return torch.from_numpy(np.array(array)).to(device)
