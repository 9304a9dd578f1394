"""Flat cost: an update at 2.4 million nodes against one at 20,000, and the memory of the larger store."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import Call, medians, samples
from benchmarks.updates import Row
from ocgl.datasets import load
from ocgl.graph import Batch
from ocgl.strategies import Learner, make
from ocgl.streams import Stream, make_stream

LARGE = "sbm:products"
SMALL = "sbm:products,nodes=20000,edges=505171"
CHUNK = 20_000
ROUNDS = 180
SIZES = (10, 250)


def resident() -> dict[str, int]:
    """Give the process's memory in bytes: now (anonymous pages only) and at its peak (all pages)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith("kB")}
    return {"anonymous": int(fields["RssAnon"]) * 1024, "peak": int(fields["VmHWM"]) * 1024}


def grown(dataset: str) -> tuple[Learner, Stream, int]:
    """Let a whole graph arrive; gives the most anonymous memory seen on the way."""
    stream = make_stream(load(dataset), "iid", batch_size=250)
    learner = Learner(make("bare"))
    most = 0
    for start in range(0, len(stream.order), CHUNK):
        learner.arrive(stream.arrival(stream.order[start : start + CHUNK]))
        most = max(most, resident()["anonymous"])
    return learner, stream, most


def updates(learner: Learner, stream: Stream, size: int) -> Call:
    rng = np.random.default_rng(0)
    drawn = [rng.choice(stream.label_order, size, replace=False) for _ in range(ROUNDS)]
    return lambda i: learner.learn(stream.labels_of(drawn[i]))


def child() -> None:
    """Measure in a process of its own, so that its memory is the store's. Prints JSON."""
    torch.set_num_threads(1)
    load(SMALL), load(LARGE)
    before = resident()["anonymous"]
    large, large_stream, most = grown(LARGE)
    graph = large_stream.graph
    found: dict[str, float] = {"raw": 4 * graph.nodes * graph.width + 4 * 2 * graph.edges}
    found |= {"store": most - before, "process": most}
    small, small_stream, _ = grown(SMALL)
    for size in SIZES:
        calls = {"large": updates(large, large_stream, size), "small": updates(small, small_stream, size)}
        times = medians(calls, blocks=ROUNDS // 15)
        found |= {f"{name}_{size}": seconds for name, seconds in times.items()}
        for name, call in calls.items():
            batch = call(0)
            assert isinstance(batch, Batch)
            found[f"{name}_{size}_seen"] = batch.neighborhood.cost.nodes
    both = {"large": (large, large_stream), "small": (small, small_stream)}
    found |= tails("predict", {name: questions(*pair) for name, pair in both.items()}, 100)
    found |= tails("update", {name: updates(*pair, SIZES[0]) for name, pair in both.items()}, 60)
    print(json.dumps(found))


def tails(what: str, calls: dict[str, Call], blocks: int) -> dict[str, float]:
    """Give the 50th and 99th percentile of each call."""
    times = samples({name: again(call) for name, call in calls.items()}, blocks, block=30)
    return {f"{name}_{what}_p{p}": float(np.percentile(t, p)) for name, t in times.items() for p in (50, 99)}


def again(call: Call) -> Call:
    return lambda i: call(i % ROUNDS)


def questions(learner: Learner, stream: Stream) -> Call:
    drawn = np.random.default_rng(1).choice(stream.order, ROUNDS)
    return lambda i: learner.predict(drawn[i : i + 1])


def measure() -> list[Row]:
    done = subprocess.run([sys.executable, "-m", "benchmarks.scale"], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    rows = [
        Row(
            f"bare, batch of {size}, 2,449,028 nodes ({found[f'large_{size}_seen']:,.0f} seen)",
            1000 * found[f"large_{size}"],
            f"the same at 20,000 nodes ({found[f'small_{size}_seen']:,.0f} seen)",
            1000 * found[f"small_{size}"],
            1.3,
            at_most=True,
        )
        for size in SIZES
    ]
    rows += [
        Row(
            f"bare, p99 of {what}, 2,449,028 nodes",
            1000 * found[f"large_{name}_p99"],
            "the same at 20,000 nodes",
            1000 * found[f"small_{name}_p99"],
            1.5,
            at_most=True,
        )
        for name, what in (("predict", "a question about one node"), ("update", f"an update, batch of {SIZES[0]}"))
    ]
    raw = found["raw"] / 2**20
    return [
        *rows,
        Row("growth of memory with the store", found["store"] / 2**20, "raw arrays", raw, 1.6, "MiB", True),
        Row("whole process without mapped files", found["process"] / 2**20, "raw arrays", raw, 1.6, "MiB", True),
    ]


if __name__ == "__main__":
    child()
