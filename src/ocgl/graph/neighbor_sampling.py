"""Parameters of neighbourhood sampling (hops, fan-outs, weights), and its cost."""

from dataclasses import dataclass
from typing import Literal

from ocgl.errors import ConfigError

Norm = Literal["sum", "mean", "sym"]
Degrees = Literal["sampled", "store"]

ROW_HEADER = 12
"""Bytes read to locate a node's neighbours: the start and the length of its row."""


@dataclass(frozen=True)
class Cost:
    """Nodes, edges and bytes that a sample reads, or an upper bound on them."""

    nodes: int = 0
    edges: int = 0
    bytes: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.nodes + other.nodes, self.edges + other.edges, self.bytes + other.bytes)

    def within(self, bound: "Cost") -> bool:
        """Return whether no component exceeds that of `bound`."""
        return self.nodes <= bound.nodes and self.edges <= bound.edges and self.bytes <= bound.bytes


@dataclass(frozen=True)
class NeighborSampling:
    """How to sample a neighbourhood, and how to weight its edges.

    Args:
        hops: number of hops.
        fanout: most neighbours per node, without replacement; None for all of them, or a tuple with one value per hop.
        norm: aggregation weights, with d the degree plus one: `sum` (all one), `mean` (1 / d_v) or
            `sym` (1 / sqrt(d_u d_v)).
        degrees: which degrees `sym` uses: those of the sample (`sampled`) or of the whole graph (`store`).

    >>> NeighborSampling(hops=2, fanout=10).bound(seeds=10, row_bytes=4).nodes
    1110
    """

    hops: int = 2
    fanout: int | tuple[int | None, ...] | None = 10
    norm: Norm = "sum"
    degrees: Degrees = "sampled"

    def __post_init__(self) -> None:
        if self.hops < 0:
            raise ConfigError(f"hops must be 0 or more, not {self.hops}")
        if self.norm == "mean" and self.degrees == "store":
            raise ConfigError("norm=mean averages over the sampled neighbours; degrees=store needs norm=sym")
        if isinstance(self.fanout, tuple) and len(self.fanout) != self.hops:
            raise ConfigError(f"{len(self.fanout)} fan-outs given for {self.hops} hops")
        if any(f < 1 for f in self.fanouts if f != -1):
            raise ConfigError(f"fanout must be positive or None, not {self.fanout}")

    @property
    def fanouts(self) -> tuple[int, ...]:
        """Fan-out of each hop, -1 for all neighbours."""
        caps = self.fanout if isinstance(self.fanout, tuple) else (self.fanout,) * self.hops
        return tuple(-1 if cap is None else cap for cap in caps)

    @property
    def bounded(self) -> bool:
        """Whether the cost of a sample has a bound that does not depend on the graph."""
        return -1 not in self.fanouts

    def bound(self, seeds: int, row_bytes: int) -> Cost:
        """Return the highest cost of a sample in any graph.

        Args:
            seeds: number of seeds.
            row_bytes: upper bound on the bytes of a feature row.
        """
        if not self.bounded:
            raise ConfigError("a sample of all neighbours has no cost bound; set a fanout for every hop")
        nodes = reached = seeds
        edges = 0
        expanded = 0
        for cap in self.fanouts:
            expanded += reached
            reached *= cap
            edges += reached
            nodes += reached
        return Cost(nodes, edges, sample_bytes(nodes * row_bytes, edges, expanded))


def sample_bytes(features: int, edges: int, expanded: int) -> int:
    """Return the bytes that a sample reads: features, neighbour ids, and row headers.

    Args:
        features: bytes of the feature rows.
        edges: number of sampled edges.
        expanded: number of nodes whose neighbours are read.
    """
    return features + 4 * edges + ROW_HEADER * expanded
