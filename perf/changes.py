"""Later edges against edges that come with their node, and what other changes of the graph cost."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ocgl.datasets import load_dataset
from ocgl.graph import GraphStore
from ocgl.streams import make_stream
from perf.updates import Row

GRAPH, BATCH, TURNS = "sbm:arxiv", 50, 3


def measure() -> list[Row]:
    """Time all edges of a graph: with their later node, one batch later, in another order, and removed.

    The stores grow side by side, a batch of each in turn, so that all meet the same caches and the same moments of the
    machine.
    """
    stream = make_stream(load_dataset(GRAPH), "iid", batch_size=BATCH, batching="all")
    steps = [(step.ids, step.arrival.rows, step.arrival.edges) for step in stream]
    every = np.concatenate([edges for _, _, edges in steps], axis=1)
    shuffled = every[:, np.random.default_rng(0).permutation(every.shape[1])]
    parts = np.array_split(shuffled, len(steps), axis=1)
    found: dict[str, list[float]] = {"with nodes": [], "next": [], "anywhere": [], "removed": []}
    none = np.empty((2, 0), np.int64)
    for _ in range(TURNS):
        whole, bare, soon, anywhere = GraphStore(), GraphStore(), GraphStore(), GraphStore()
        for ids, rows, _ in steps:
            anywhere.add(ids, rows)
        spent = dict.fromkeys(("nodes", *found), 0.0)
        before = none
        for (ids, rows, edges), part in zip(steps, parts, strict=True):
            spent["with nodes"] += _seconds(whole.add, ids, rows, edges)
            spent["nodes"] += _seconds(bare.add, ids, rows)
            soon.add(ids, rows)
            spent["next"] += _seconds(soon.add_edges, before)
            spent["anywhere"] += _seconds(anywhere.add_edges, part)
            before = edges
        for part in parts:
            spent["removed"] += _seconds(anywhere.remove_edges, part)
        spent["with nodes"] -= spent["nodes"]
        for name, seconds in found.items():
            seconds.append(1e6 * spent[name] / every.shape[1])
    middle = {name: float(np.median(seconds)) for name, seconds in found.items()}
    reference, own = "an edge that comes with its node", middle["with nodes"]
    rows_of = [
        ("an edge that comes one batch later", middle["next"], 1.2),
        ("an edge between two nodes anywhere", middle["anywhere"], None),
        ("an edge that is removed", middle["removed"], None),
    ]
    return [Row(what, ours, reference, own, wanted, unit="us", at_most=True) for what, ours, wanted in rows_of]


def _seconds(act: Callable[..., object], *given: Any) -> float:
    begin = time.perf_counter()
    act(*given)
    return time.perf_counter() - begin
