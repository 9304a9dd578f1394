"""How far, how wide and with which weights a method may look at the past, and what a look may cost."""

from dataclasses import dataclass
from typing import Literal

from ocgl.errors import ConfigError

Norm = Literal["sum", "mean", "sym"]
Degrees = Literal["sampled", "store"]

ROW_HEADER = 12
"""Bytes read to find a node's neighbours: where its row starts and how long it is."""


@dataclass(frozen=True)
class Cost:
    """What one look touched, or may touch at most: nodes, edges and bytes."""

    nodes: int = 0
    edges: int = 0
    bytes: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.nodes + other.nodes, self.edges + other.edges, self.bytes + other.bytes)

    def within(self, bound: "Cost") -> bool:
        """Tell whether no part exceeds the bound's."""
        return self.nodes <= bound.nodes and self.edges <= bound.edges and self.bytes <= bound.bytes


@dataclass(frozen=True)
class Look:
    """A bounded look: `hops` hops, at most `fanout` distinct neighbours per node (None: all of them; or one per hop).

    `norm` chooses the aggregation weights: `sum` (none), `mean` (divide by the number of neighbours plus one) or
    `sym` (1 / sqrt(d_u d_v)); `degrees` says which degrees those use, the sampled ones or the store's.

    >>> Look(hops=2, fanout=10).bound(seeds=10, row_bytes=4).nodes
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
            raise ConfigError("the mean is over the sampled neighbours; degrees=store goes with norm=sym")
        if isinstance(self.fanout, tuple) and len(self.fanout) != self.hops:
            raise ConfigError(f"{len(self.fanout)} fan-outs given for {self.hops} hops")
        if any(f < 1 for f in self.fanouts if f != -1):
            raise ConfigError(f"fanout must be positive or None, not {self.fanout}")

    @property
    def fanouts(self) -> tuple[int, ...]:
        """The cap of each hop, -1 for none."""
        caps = self.fanout if isinstance(self.fanout, tuple) else (self.fanout,) * self.hops
        return tuple(-1 if cap is None else cap for cap in caps)

    @property
    def bounded(self) -> bool:
        """Whether the cost of a look is independent of the graph."""
        return -1 not in self.fanouts

    def bound(self, seeds: int, row_bytes: int) -> Cost:
        """Give the most that a look at `seeds` nodes can touch, whatever the graph."""
        if not self.bounded:
            raise ConfigError("a look at all neighbours has no bound")
        nodes = reached = seeds
        edges = 0
        expanded = 0
        for cap in self.fanouts:
            expanded += reached
            reached *= cap
            edges += reached
            nodes += reached
        return Cost(nodes, edges, look_bytes(nodes * row_bytes, edges, expanded))


def look_bytes(features: int, edges: int, expanded: int) -> int:
    """Count the bytes of a look: feature rows, neighbour ids, and the headers of the rows read."""
    return features + 4 * edges + ROW_HEADER * expanded
