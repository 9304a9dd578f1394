"""Neighbourhood expansion (Figure 2 of the paper): how much of the graph a batch would see, with and without the cap.

Needs structure and labels only.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ocgl.errors import ConfigError
from ocgl.graph import Look
from ocgl.graph.adjacency import Adjacency, in_order
from ocgl.graph.balls import ball_sizes
from ocgl.graph.sampling import sample
from ocgl.rng import generator, key
from ocgl.streams import Stream
from ocgl.types import DoubleArray, IntArray

if TYPE_CHECKING:
    import polars as pl


WINDOW = 10
"""Batches in the rolling mean that Figure 2 draws."""


@dataclass(frozen=True, eq=False)
class Expansion:
    """Per batch: `full[h]` and `capped[h]` nodes within each number of hops, and how many nodes had arrived."""

    dataset: str
    hops: tuple[int, ...]
    fanout: int
    full: dict[int, IntArray]
    capped: dict[int, IntArray]
    nodes: IntArray
    bound: dict[int, int]

    def table(self) -> list[dict[str, float]]:
        """Summarise per number of hops; `full_rolling_max` is what Figure 2 shows, the mean of ten batches."""
        return [
            {
                "hops": h,
                "full_mean": float(self.full[h].mean()),
                "full_max": int(self.full[h].max()),
                "full_max_share": float(self.full[h].max() / self.nodes[-1]),
                "full_rolling_max": float(rolling_mean(self.full[h]).max()),
                "full_rolling_max_share": float(rolling_mean(self.full[h]).max() / self.nodes[-1]),
                "capped_mean": float(self.capped[h].mean()),
                "capped_max": int(self.capped[h].max()),
                "bound": self.bound[h],
            }
            for h in self.hops
        ]

    def frame(self) -> "pl.DataFrame":
        """Give the series as a table, one row per batch."""
        import polars as pl

        series = {f"full_{h}": self.full[h] for h in self.hops} | {f"capped_{h}": self.capped[h] for h in self.hops}
        return pl.DataFrame({"batch": np.arange(len(self.nodes)), "nodes": self.nodes} | series)


def rolling_mean(values: IntArray, window: int = WINDOW) -> DoubleArray:
    """Average each value with up to `window` - 1 before it."""
    sums = np.cumsum(np.concatenate(([0.0], values)))
    begin = np.maximum(np.arange(len(values)) + 1 - window, 0)
    end = np.arange(len(values)) + 1
    averages: DoubleArray = (sums[end] - sums[begin]) / (end - begin)
    return averages


def expansion(stream: Stream, hops: tuple[int, ...] = (1, 2), fanout: int = 10, seed: int = 0) -> Expansion:
    """Let the graph grow along the stream and measure around each batch's training nodes."""
    graph = Adjacency()
    stamps = np.zeros(len(stream.order), np.int64)
    rng = generator(seed, "neighbors")
    caps = np.full(max(hops), fanout, np.int64)
    full, capped, arrived = [], [], []
    for step in stream:
        _grow(graph, stream, step.ids)
        labels = stream.labels_at(step.index)
        if labels is None:
            continue
        seeds = stream.position[labels.ids].astype(np.int32)
        full.append(ball_sizes(*graph.arrays, seeds, max(hops), stamps, step.index + 1))
        capped.append(sample(*graph.arrays, seeds, caps, np.uint64(key(rng)))[1][1:])
        arrived.append(len(graph))
    sizes, drawn = np.array(full), np.array(capped)
    batch = int(max(np.diff(stream.label_cuts, prepend=0)))
    return Expansion(
        stream.graph.name,
        hops,
        fanout,
        {h: sizes[:, h - 1] for h in hops},
        {h: drawn[:, h - 1] for h in hops},
        np.array(arrived),
        {h: Look(hops=h, fanout=fanout).bound(batch, 0).nodes for h in hops},
    )


def _grow(graph: Adjacency, stream: Stream, ids: IntArray) -> None:
    later, earlier = stream.position[stream.edges_back(ids)].astype(np.int32)
    graph.add_nodes(len(ids))
    graph.add_edges(*in_order(later, earlier))


def parse_hops(text: str) -> tuple[int, ...]:
    """Read numbers of hops, as the command line gives them."""
    try:
        depths = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        depths = (0,)
    if min(depths) < 1:
        raise ConfigError(f"--hops {text!r}: numbers from 1, with commas")
    return depths
