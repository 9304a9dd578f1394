"""Later edges against edges that come with their node, and what other changes of the graph cost."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocgl.datasets import load_dataset
from ocgl.graph import GraphStore
from ocgl.streams import make_stream
from perf.updates import Row

GRAPH, BATCH, TURNS = "sbm:arxiv", 50, 3


def measure() -> list[Row]:
    """Time all edges of a graph in turns: with their later node, later and in another order, and removed."""
    stream = make_stream(load_dataset(GRAPH), "iid", batch_size=BATCH, batching="all")
    steps = [(step.ids, step.arrival.rows, step.arrival.edges) for step in stream]
    every = np.concatenate([edges for _, _, edges in steps], axis=1)
    shuffled = every[:, np.random.default_rng(0).permutation(every.shape[1])]
    parts = np.array_split(shuffled, len(steps), axis=1)
    found: dict[str, list[float]] = {"nodes": [], "with nodes": [], "next": [], "later": [], "removed": []}
    for _ in range(TURNS):
        whole, bare, soon = GraphStore(), GraphStore(), GraphStore()
        soon.add(*steps[0][:2])
        spent = 0.0
        for (ids, rows, _), (_, _, edges) in zip(steps[1:], steps[:-1], strict=True):
            soon.add(ids, rows)
            spent += _seconds(soon.add_edges, [(edges,)])
        found["next"].append(spent)
        found["with nodes"].append(_seconds(whole.add, steps))
        found["nodes"].append(_seconds(bare.add, [step[:2] for step in steps]))
        found["later"].append(_seconds(bare.add_edges, [(part,) for part in parts]))
        found["removed"].append(_seconds(bare.remove_edges, [(part,) for part in parts]))
    count = every.shape[1]
    best = {name: 1e6 * min(seconds) / count for name, seconds in found.items()}
    own = best["with nodes"] - best["nodes"]
    reference = "an edge that comes with its node"
    soon_after = Row("an edge that comes one batch later", best["next"], reference, own, 1.2, unit="us", at_most=True)
    later = Row("an edge between two nodes anywhere", best["later"], reference, own, None, unit="us", at_most=True)
    removed = Row("an edge that is removed", best["removed"], reference, own, None, unit="us", at_most=True)
    return [soon_after, later, removed]


def _seconds(act: Callable[..., object], calls: Sequence[tuple[Any, ...]]) -> float:
    begin = time.perf_counter()
    for given in calls:
        act(*given)
    return time.perf_counter() - begin
