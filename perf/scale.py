"""Flat cost: updates and questions at 2.4 million nodes against 20,000, and the memory of the larger store."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from ocgl.datasets import load_dataset
from ocgl.graph import Cost
from ocgl.strategies import Learner, make_strategy
from ocgl.streams import Stream, make_stream
from perf.timing import Call, samples
from perf.updates import Row

LARGE = "sbm:products"
SMALL = "sbm:products,nodes=20000,edges=505171"
NAMES = ("large", "small")
CHUNK = 20_000
SIZES = (10, 50, 250)
LIMITS = {10: 1.3, 50: 1.3}
"""Wanted ratio of whole updates, by batch size."""
BLOCK = 30
BLOCKS = {"predict": 100, "update": 60}


def resident() -> dict[str, int]:
    """Return the process's memory in bytes: anonymous pages, pages of mapped files, and the most of both together."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines if line.endswith("kB")}
    return {"anonymous": fields["RssAnon"], "mapped": fields["RssFile"], "peak": fields["VmHWM"]}


def grown(dataset: str) -> tuple[Learner, Stream, dict[str, int]]:
    """Let a whole graph arrive; return the most anonymous and the most resident memory on the way.

    The system has a high-water mark of resident pages, not of anonymous ones. So it is set back before each chunk,
    and the mapped pages are taken off that were there all through the chunk: no less than the true peak.
    """
    stream = make_stream(load_dataset(dataset), "iid", batch_size=250)
    learner = Learner(make_strategy("bare"))
    most = {"anonymous": 0, "resident": 0}
    for start in range(0, len(stream.order), CHUNK):
        before = resident()
        Path("/proc/self/clear_refs").write_text("5")
        learner.arrive(stream.arrival(stream.order[start : start + CHUNK]))
        after = resident()
        anonymous = after["peak"] - min(before["mapped"], after["mapped"])
        most = {"anonymous": max(most["anonymous"], anonymous), "resident": max(most["resident"], after["peak"])}
    return learner, stream, most


class Updates:
    """An update on a batch drawn anew at every call, and what each of them cost."""

    def __init__(self, learner: Learner, stream: Stream, size: int) -> None:
        rng = np.random.default_rng(size)
        self.learner, self.stream = learner, stream
        self.drawn = [rng.choice(stream.label_order, size, replace=False) for _ in range(BLOCKS["update"] * BLOCK)]
        self.costs: list[Cost] = []

    def __call__(self, i: int) -> None:
        batch = self.learner.learn(self.learner.batch(self.stream.labels_of(self.drawn[i])))
        self.costs.append(batch.neighborhood.cost)

    def medians(self) -> dict[str, float]:
        """Return the nodes and edges of an update, the median over all calls."""
        return {what: float(np.median([getattr(cost, what) for cost in self.costs])) for what in ("nodes", "edges")}


def questions(learner: Learner, stream: Stream) -> Call:
    """Ask about another node at every call; what is asked must have learned."""
    assert len(learner.strategy.labels), "nothing has been learned: a question would cost no forward pass"
    drawn = np.random.default_rng(1).choice(stream.order, BLOCKS["predict"] * BLOCK, replace=False)
    return lambda i: learner.predict(drawn[i : i + 1])


def child() -> None:
    """Measure in a process of its own, so that its memory is the store's. Prints JSON."""
    torch.set_num_threads(1)
    load_dataset(SMALL), load_dataset(LARGE)
    before = resident()["anonymous"]
    large, large_stream, most = grown(LARGE)
    graph = large_stream.graph
    found: dict[str, float] = {"raw": 4 * graph.nodes * graph.width + 4 * 2 * graph.edges}
    found |= most | {"store": most["anonymous"] - before}
    small, small_stream, _ = grown(SMALL)
    both = {"large": (large, large_stream), "small": (small, small_stream)}
    for size in SIZES:
        calls = {name: Updates(*pair, size) for name, pair in both.items()}
        found |= percentiles(f"update_{size}", calls, BLOCKS["update"])
        for name, call in calls.items():
            found |= {f"{name}_update_{size}_{what}": value for what, value in call.medians().items()}
    found |= percentiles("predict", {name: questions(*pair) for name, pair in both.items()}, BLOCKS["predict"])
    print(json.dumps(found))


def percentiles(what: str, calls: Mapping[str, Call], blocks: int) -> dict[str, float]:
    """Return the 50th and 99th percentile of each call, in milliseconds."""
    times = samples(calls, blocks, BLOCK)
    return {f"{name}_{what}_p{p}": 1000 * float(np.percentile(t, p)) for name, t in times.items() for p in (50, 99)}


def flat(size: int, found: dict[str, float]) -> list[Row]:
    """Compare the median updates of a batch size, whole and per sampled edge.

    A batch of 250 may reach 27,750 nodes, more than the small graph has. There the update on the small graph samples
    fewer edges and is cheaper for that alone, so it has no limit; the time per sampled edge is there to read it by.
    """
    large, small = ({key: found[f"{name}_update_{size}_{key}"] for key in ("p50", "nodes", "edges")} for name in NAMES)
    what, reference = f"bare, batch of {size}, 2,449,028 nodes", "the same at 20,000 nodes"
    whole = Row(
        f"{what} ({large['nodes']:,.0f} sampled nodes)",
        large["p50"],
        f"{reference} ({small['nodes']:,.0f} sampled nodes)",
        small["p50"],
        LIMITS.get(size),
        at_most=True,
        name=f"flat-{size}",
    )
    per_edge = Row(
        f"{what}, per sampled edge ({large['edges']:,.0f})",
        1000 * large["p50"] / large["edges"],
        f"{reference} ({small['edges']:,.0f})",
        1000 * small["p50"] / small["edges"],
        unit="us",
        at_most=True,
    )
    return [whole, per_edge]


def tail(what: str, name: str, found: dict[str, float]) -> Row:
    large, small = (found[f"{graph}_{name}_p99"] for graph in NAMES)
    what, reference = f"bare, p99 of {what}, 2,449,028 nodes", "the same at 20,000 nodes"
    return Row(what, large, reference, small, 1.5, at_most=True, name=f"p99-{name}")


def memory(what: str, name: str, found: dict[str, float], wanted: float | None = None) -> Row:
    return Row(what, found[name] / 2**20, "raw arrays", found["raw"] / 2**20, wanted, "MiB", True, f"memory-{name}")


def measure() -> list[Row]:
    done = subprocess.run([sys.executable, "-m", "perf.scale"], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return [
        *(row for size in SIZES for row in flat(size, found)),
        tail("a question about one node", "predict", found),
        *(tail(f"an update, batch of {size}", f"update_{size}", found) for size in SIZES),
        memory("anonymous memory at its peak, growth with the store", "store", found, 1.6),
        memory("anonymous memory at its peak, whole process", "anonymous", found, 1.6),
        memory("VmHWM, with the dataset's mapped file pages (reclaimable)", "resident", found),
    ]


if __name__ == "__main__":
    child()
