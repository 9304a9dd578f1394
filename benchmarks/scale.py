"""Flat cost: an update at 2.4 million nodes against one at 20,000, and the memory of the larger store.

Each size runs in a process of its own, so that peak memory is its own.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.updates import Row

LARGE = "sbm:products"
SMALL = "sbm:products,nodes=20000,edges=505171"
CHUNK = 20_000
ROUNDS = 150
SIZES = (10, 250)
GATED = 10  # 250 seeds reach more than half of the small graph: fewer distinct nodes there, so not the same work


def resident() -> dict[str, int]:
    """Give the process's memory in bytes: now (anonymous pages only) and at its peak (all pages)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith("kB")}
    return {"anonymous": int(fields["RssAnon"]) * 1024, "peak": int(fields["VmHWM"]) * 1024}


def child(dataset: str) -> None:
    """Grow the whole graph and time updates at the end. Prints JSON."""
    from ocgl.datasets import load
    from ocgl.graph import Labels
    from ocgl.strategies import Learner, make
    from ocgl.streams import make_stream

    torch.set_num_threads(1)
    graph = load(dataset)
    stream = make_stream(graph, "iid", batch_size=250)
    before = resident()["anonymous"]
    learner = Learner(make("bare"))
    most = 0
    begin = time.perf_counter()
    for start in range(0, len(stream.order), CHUNK):
        learner.arrive(stream.arrival(stream.order[start : start + CHUNK]))
        most = max(most, resident()["anonymous"])
    grown = time.perf_counter() - begin
    rng = np.random.default_rng(0)
    found: dict[str, float] = {}
    for size in SIZES:
        spent = []
        for _ in range(ROUNDS + 20):
            ids = rng.choice(stream.label_order, size, replace=False)
            begin = time.perf_counter()
            batch = learner.learn(Labels(ids, graph.y[ids]))
            spent.append(time.perf_counter() - begin)
        found |= {f"update_{size}": float(np.median(spent[20:])), f"seen_{size}": batch.neighborhood.cost.nodes}
    raw = 4 * graph.nodes * graph.width + 4 * 2 * graph.edges
    found |= {"store": most - before, "process": most, "raw": raw, "peak": resident()["peak"]}
    print(json.dumps(found | {"grow_seconds": grown, "nodes": graph.nodes, "edges": graph.edges}))


def measured(dataset: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", dataset], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure() -> list[Row]:
    small, large = measured(SMALL), measured(LARGE)
    rows = [
        Row(
            f"bare, batch of {size}, {large['nodes']:,.0f} nodes ({large[f'seen_{size}']:,.0f} seen)",
            1000 * large[f"update_{size}"],
            f"the same at {small['nodes']:,.0f} nodes ({small[f'seen_{size}']:,.0f} seen)",
            1000 * small[f"update_{size}"],
            1.3 if size == GATED else None,
            at_most=True,
        )
        for size in SIZES
    ]
    raw = large["raw"] / 2**20
    return [
        *rows,
        Row("growth of memory with the store, MiB", large["store"] / 2**20, "raw arrays", raw, 1.6, "MiB", True),
        Row("whole process without mapped files, MiB", large["process"] / 2**20, "raw arrays", raw, 1.6, "MiB", True),
    ]


if __name__ == "__main__":
    child(sys.argv[1])
