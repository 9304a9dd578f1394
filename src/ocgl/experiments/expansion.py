"""Neighbourhood expansion (Figure 2 of the paper): how many nodes a batch reaches, with and without sampling.

It needs edges and labels, but no features.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ocgl.datasets import load_dataset
from ocgl.errors import ConfigError, OcglError, StreamError
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
"""Batches in the rolling mean that Figure 2 shows."""


@dataclass(frozen=True, eq=False)
class Expansion:
    """Number of nodes that each batch of a stream reaches.

    Attributes:
        dataset: name of the dataset.
        hops: the measured numbers of hops.
        fanout: most neighbours sampled per node.
        full: by number of hops, the nodes that each batch reaches through all neighbours.
        capped: by number of hops, the nodes that each batch reaches through sampled neighbours.
        nodes: nodes that have arrived when each batch is learned.
        bound: by number of hops, the most nodes that a batch can reach through sampled neighbours.
    """

    dataset: str
    hops: tuple[int, ...]
    fanout: int
    full: dict[int, IntArray]
    capped: dict[int, IntArray]
    nodes: IntArray
    bound: dict[int, int]

    def table(self) -> list[dict[str, float]]:
        """Return a summary per number of hops; `full_rolling_max` is the maximum of the curve in Figure 2."""
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
        """Return all measurements as a data frame, one row per batch."""
        import polars as pl

        series = {f"full_{h}": self.full[h] for h in self.hops} | {f"capped_{h}": self.capped[h] for h in self.hops}
        return pl.DataFrame({"batch": np.arange(len(self.nodes)), "nodes": self.nodes} | series)


def rolling_mean(values: IntArray, window: int = WINDOW) -> DoubleArray:
    """Return the mean of each value and up to `window` - 1 values before it."""
    sums = np.cumsum(np.concatenate(([0.0], values)))
    begin = np.maximum(np.arange(len(values)) + 1 - window, 0)
    end = np.arange(len(values)) + 1
    averages: DoubleArray = (sums[end] - sums[begin]) / (end - begin)
    return averages


def expansion(stream: Stream, hops: tuple[int, ...] = (1, 2), fanout: int = 10, seed: int = 0) -> Expansion:
    """Measure how many nodes the labelled nodes of each batch reach while the graph grows.

    Args:
        stream: the stream to measure on.
        hops: numbers of hops to measure.
        fanout: most neighbours sampled per node.
        seed: seed of the neighbour sampling.
    """
    if stream.timeline is not None:
        raise StreamError("the expansion of neighbourhoods is measured on graphs that only grow; this one has changes")
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
    configs: Mapping[Name, RunConfig], datasets: Collection[str], data_root: Path | None, fanout: int = 10
) -> tuple[dict[Name, Expansion], list[str]]:
    """Measure the expansion of the stream of each config, once per stream, without downloading data.

    Args:
        configs: run configs by name; they may be a stranger's.
        datasets: names of the datasets that may be loaded; others are left out.
        data_root: folder of the datasets; None for the default.
        fanout: most neighbours sampled per node.

    Returns:
        The expansions by name, and a message for each config whose dataset is not on disk.
    """
    found: dict[Name, Expansion] = {}
    measured: dict[tuple[str, str], Expansion] = {}
    missing = []
    for name, config in configs.items():
        if config.dataset not in datasets:
            continue
        stream = (config.dataset, config.stream.model_dump_json())
        if stream not in measured:
            try:
                graph = load_dataset(config.dataset, data_root, structure_only=True, download=False)
            except OcglError as error:
                missing.append(f"the neighbourhood expansion of {config.dataset} is left out: {error}")
                continue
            measured[stream] = expansion(build(graph, config.stream), (1, 2), fanout)
        found[name] = measured[stream]
    return found, missing


def _grow(graph: Adjacency, stream: Stream, ids: IntArray) -> None:
    later, earlier = stream.position[stream.edges_back(ids)].astype(np.int32)
    graph.add_nodes(len(ids))
    graph.add_edges(*in_order(later, earlier))


def parse_hops(text: str) -> tuple[int, ...]:
    """Return the numbers of hops in a comma-separated list, sorted and without duplicates."""
    try:
        depths = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        depths = (0,)
    if min(depths) < 1:
        raise ConfigError(f"--hops {text!r}: give whole numbers from 1, separated by commas")
    return depths
