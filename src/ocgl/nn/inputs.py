"""A sampled neighbourhood as tensors on a device; each is moved there once per batch, whatever the number of passes."""

from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ocgl.graph import Neighborhood

_MOVED: WeakKeyDictionary[Neighborhood, dict[tuple[str, torch.device], Tensor]] = WeakKeyDictionary()

Name = Literal["aggregated", "dense_rows", "edge_index", "edge_weight", "self_weight"]


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a network of message-passing layers reads.

    Attributes:
        x: features of all nodes, seeds first.
        edge_index: sampled edges (source, target), without self-loops, those of the first hop first.
        edge_weight: weight of each edge; None if all are one.
        nodes_per_hop: number of seeds, of further nodes within one hop, and so on.
        edges_per_hop: number of edges to nodes of hop 0, 1, and so on.
    """

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None
    nodes_per_hop: list[int]
    edges_per_hop: list[int]


def on_device(neighborhood: Neighborhood, name: Name, device: torch.device) -> Tensor:
    """Return an array of a neighbourhood as a tensor on a device; on the CPU it shares the array's memory."""
    if device.type == "cpu":
        return torch.from_numpy(getattr(neighborhood, name))
    moved = _MOVED.setdefault(neighborhood, {})
    key = (name, device)
    if key not in moved:
        moved[key] = torch.from_numpy(getattr(neighborhood, name)).to(device)
    return moved[key]


def forget_inputs(neighborhood: Neighborhood) -> None:
    """Forget features and edges that were written out for a neighbourhood: they are read again when they are used."""
    for name in ("dense_rows", "edge_index"):
        neighborhood.__dict__.pop(name, None)
    _MOVED.pop(neighborhood, None)


def inputs_of(neighborhood: Neighborhood, device: torch.device) -> Inputs:
    """Return a neighbourhood as tensors on a device."""
    weighted = neighborhood.norm != "sum" and neighborhood.hops > 0
    return Inputs(
        on_device(neighborhood, "dense_rows", device),
        on_device(neighborhood, "edge_index", device),
        on_device(neighborhood, "edge_weight", device) if weighted else None,
        *neighborhood.per_hop,
    )
