"""Neighbourhood expansion (Figure 2 of the paper): how much of the graph a batch would see, with and without the cap.

Needs structure and labels only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ocgl.datasets import load_dataset
from ocgl.errors import ConfigError, OcglError
from ocgl.experiments.config import RunConfig
from ocgl.graph import NeighborSampling
from ocgl.graph._kernels.receptive_field import receptive_field_sizes
from ocgl.graph._kernels.sampling import sample
from ocgl.graph.adjacency import Adjacency, in_order
from ocgl.rng import generator, key
from ocgl.streams import Stream
from ocgl.streams.build import build
from ocgl.types import DoubleArray, IntArray

if TYPE_CHECKING:
    import polars as pl

Name = TypeVar("Name")

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
        full.append(receptive_field_sizes(*graph.arrays, seeds, max(hops), stamps, step.index + 1))
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
        {h: NeighborSampling(hops=h, fanout=fanout).bound(batch, 0).nodes for h in hops},
    )


def expansions_of(
    configs: Mapping[Name, RunConfig], data_root: Path | None, fanout: int = 10
) -> tuple[dict[Name, Expansion], list[str]]:
    """Measure the expansion of each config's stream, once per stream, where its data is on disk.

    Return the expansions by name, and for each dataset that is not there a line that says so. Nothing is downloaded.
    """
    found: dict[Name, Expansion] = {}
    known: dict[tuple[str, str], Expansion] = {}
    missing = []
    for name, config in configs.items():
        stream = (config.dataset, config.stream.model_dump_json())
        if stream not in known:
            try:
                graph = load_dataset(config.dataset, data_root, structure_only=True, download=False)
            except OcglError as error:
                missing.append(f"no neighbourhood expansion for {config.dataset}: {error}")
                continue
            known[stream] = expansion(build(graph, config.stream), (1, 2), fanout)
        found[name] = known[stream]
    return found, missing


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
