"""A network of message-passing layers with a head that grows: what a method trains, whatever the layers are."""

import copy
import inspect
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from ocgl.errors import ConfigError
from ocgl.graph import Neighborhood
from ocgl.nn.head import ClassOutputs, GrowingHead, Init
from ocgl.nn.inputs import forget_inputs, inputs_of
from ocgl.rng import key, seeded_torch

MakeNet = Callable[[int, int, int], nn.Module]
"""Makes a network from the number of features, hidden units and layers: `Net(in_channels, hidden, layers)`."""

_EDGES = torch.tensor([[1, 2], [0, 0]])


class Network(Protocol):
    """What a method needs: parameters, a head that grows, and outputs for the seeds of a sampled neighbourhood.

    The neighbourhood may be of isolated nodes, or of a union of subgraphs. `nn.Module` has the rest.
    """

    @property
    def head(self) -> ClassOutputs:
        """The outputs, one for each class."""
        ...

    def __call__(self, neighborhood: Neighborhood) -> Tensor:
        """Return the logits of the seeds, of shape [num_seeds, num_classes]."""
        ...


class OwnHead(ClassOutputs):
    """The outputs of a network that grows its head by itself: `grow(classes)` gives it `classes` outputs.

    Args:
        module: the network.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._module = module

    def grow(self, labels: list[int], rng: np.random.Generator) -> int:
        """Add an output for each new label, smallest first, and return their number."""
        new = self.new(labels)
        if new:
            with seeded_torch(key(rng)):
                self.restore([*self.labels, *new])
        return len(new)

    def restore(self, labels: list[int]) -> None:
        """Set the labels, which start with the current ones, and let the network grow."""
        if len(labels) > len(self.labels):
            self._module.grow(len(labels))  # type: ignore[operator]
        self.set_labels(labels)


class GraphNetwork(nn.Module):
    """A network that anyone has written, with our growing head on top, or with a head of its own.

    Args:
        make: makes the layers; `forward(x, edge_index)` returns one row per node. A `forward` with `edge_weight` gets
            weights where the method asks for them, one with `num_sampled_nodes_per_hop` and
            `num_sampled_edges_per_hop` gets these numbers, as PyG's models do, and may leave out rows beyond the seeds.
        width: number of features.
        layers: number of layers.
        hidden: hidden units.
        init: distribution of the weights of our head.
        name: name of the network in errors.
    """

    def __init__(self, make: MakeNet, width: int, layers: int, hidden: int, init: Init, name: str) -> None:
        super().__init__()
        try:
            self.layers = make(width, hidden, layers)
        except Exception as error:
            text = f"the network {name} cannot be made with ({width}, {hidden}, {layers})"
            raise ConfigError(f"{text}, its numbers of features, hidden units and layers: {error!r}") from error
        if not isinstance(self.layers, nn.Module):
            raise ConfigError(f"{name} makes a {type(self.layers).__name__}, not a torch module")
        accepted = inspect.signature(self.layers.forward).parameters
        self.takes_weights = "edge_weight" in accepted and bool(getattr(self.layers, "supports_edge_weight", True))
        self._needs_weights = _needs_weights(self.layers)
        self._takes_hops = {"num_sampled_nodes_per_hop", "num_sampled_edges_per_hop"} <= accepted.keys()
        self._overwrites = False
        self.draws_nothing = bool(getattr(self.layers, "draws_nothing", False))
        self.head: GrowingHead | OwnHead
        if hasattr(self.layers, "grow"):
            self.head = OwnHead(self.layers)
            _try_growing(self.layers, width, name)
        else:
            self.head = GrowingHead(_try(self.layers, width, name).shape[1], bias=True, init=init)
        self._norms = [module for module in self.layers.modules() if isinstance(module, _BatchNorm)]

    def forward(self, neighborhood: Neighborhood) -> Tensor:
        """Return the logits of the seeds, of shape [num_seeds, num_classes]."""
        given = inputs_of(neighborhood, next(self.parameters()).device)
        extra: dict[str, Any] = {}
        if self.takes_weights and given.edge_weight is not None:
            extra["edge_weight"] = given.edge_weight
        elif self._needs_weights:
            extra["edge_weight"] = None
        if self._takes_hops:
            extra["num_sampled_nodes_per_hop"] = given.nodes_per_hop
            extra["num_sampled_edges_per_hop"] = given.edges_per_hop
        alone = self.training and len(given.x) == 1  # one node has no variance: running statistics take its place
        paused = [norm for norm in self._norms if alone and norm.training]
        for norm in paused:
            norm.eval()
        x, edges = given.x, given.edge_index
        if self._overwrites:
            x, edges = x.clone(), edges.clone()
        versions = x._version, edges._version
        try:
            rows: Tensor = self.layers(x, edges, **extra)[: neighborhood.seeds]
        finally:
            for norm in paused:
                norm.train()
        if not self._overwrites and (x._version, edges._version) != versions:
            self._overwrites = True  # the next pass must not read what this one has left
            forget_inputs(neighborhood)
        return self.head(rows) if isinstance(self.head, GrowingHead) else rows

    def attention(self, neighborhood: Neighborhood) -> Tensor:
        """Return the network's own scores of the sampled edges in its first layer (see TWP)."""
        given = inputs_of(neighborhood, next(self.parameters()).device)
        scores: Tensor = self.layers.edge_scores(given.x, given.edge_index)  # type: ignore[operator]
        return scores


def _needs_weights(layers: nn.Module) -> bool:
    """Return whether `forward` has an `edge_weight` without a default."""
    taken = inspect.signature(layers.forward).parameters.get("edge_weight")
    return taken is not None and taken.default is inspect.Parameter.empty


def _try(layers: nn.Module, width: int, name: str) -> Tensor:
    """Run a network on three nodes: lazy modules get their shapes, and what cannot work is found before any batch."""
    layers.eval()
    try:
        rows = _rows(layers, width, _EDGES)
    except Exception as error:
        raise ConfigError(f"the network {name} fails on three nodes with {width} features: {error!r}") from error
    finally:
        layers.train()
    if not isinstance(rows, Tensor) or rows.ndim != 2 or len(rows) != 3 or rows.is_complex():
        given = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise ConfigError(f"the network {name} must return one row per node: for 3 nodes it returned {given}")
    if rows.dtype != torch.float32 or any(p.is_complex() for p in layers.parameters()):
        raise ConfigError(f"the network {name} computes in {rows.dtype}; it gets and must return torch.float32")
    if any(type(m).get_extra_state is not nn.Module.get_extra_state for m in layers.modules()):
        raise ConfigError(f"the network {name} keeps extra state; keep it in parameters and buffers, which are saved")
    if any(is_lazy(p) for p in (*layers.parameters(), *layers.buffers())):
        raise ConfigError(f"the network {name} has lazy parts that its forward pass does not use")
    _try_training(layers, width, name)
    return rows


def _rows(layers: nn.Module, width: int, edges: Tensor) -> Tensor:
    extra: dict[str, Any] = {"edge_weight": None} if _needs_weights(layers) else {}
    with torch.no_grad():
        found: Tensor = layers(torch.zeros(3, width), edges, **extra)
    return found


def _try_training(layers: nn.Module, width: int, name: str) -> None:
    """Run a copy of a network in training, with edges and without any, as replayed nodes have none."""
    twin = copy.deepcopy(layers).train()
    for edges, what in ((_EDGES, "in training"), (_EDGES[:, :0], "without edges")):
        try:
            rows = _rows(twin, width, edges)
        except Exception as error:
            raise ConfigError(f"the network {name} fails on three nodes {what}: {error!r}") from error
        if not isinstance(rows, Tensor) or rows.ndim != 2 or len(rows) != 3:
            raise ConfigError(f"the network {name} must return one row per node, also {what}")


def try_edge_scores(layers: nn.Module, width: int, name: str) -> None:
    """Ask a network for the scores of its edges on three nodes, before any batch."""
    try:
        scores = copy.deepcopy(layers).edge_scores(torch.zeros(3, width), _EDGES)  # type: ignore[operator]
    except Exception as error:
        raise ConfigError(f"edge_scores of the network {name} fails on three nodes: {error!r}") from error
    if not isinstance(scores, Tensor) or not scores.requires_grad:
        raise ConfigError(f"edge_scores of the network {name} must return a tensor that depends on its parameters")


def _try_growing(layers: nn.Module, width: int, name: str) -> None:
    """Let a copy of a network with a head of its own grow, and check its outputs."""
    twin = copy.deepcopy(layers)
    old: Tensor | None = None
    for classes in (1, 3):
        twin.grow(classes)  # type: ignore[operator]
        rows = _try(twin, width, name)
        if rows.shape[1] != classes:
            raise ConfigError(f"after grow({classes}) the network {name} has {rows.shape[1]} outputs, not {classes}")
        before = [n for n, _ in layers.named_parameters()]
        if [n for n, _ in twin.named_parameters()] != before:
            raise ConfigError(f"the network {name} adds parameters when it grows; it may only enlarge those it has")
        changed = old is not None and not torch.allclose(old, rows[:, : old.shape[1]], atol=1e-6)
        if changed:
            raise ConfigError(f"the network {name} draws its old outputs anew when it grows; it must keep them")
        old = rows
