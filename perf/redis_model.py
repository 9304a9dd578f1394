"""A small model of sampling from a graph on Redis: bytes and round trips, checked here; times elsewhere, extrapolated.

    python -m perf.redis_model [--page]

Degrees are skewed (Pareto). From them alone the model says how many rows, features, bytes and round trips a sample
takes. That is compared with what is counted on a cluster on this machine, whose graph has the same kind of degrees.
From the processor time that the servers and the client were seen to take, and a network of a given latency, it then
says what N masters would do with larger graphs: that is extrapolation. The figures go to docs/cluster/model.json, and
the tables in docs/cluster.md are made of them; --page only writes the tables.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
from tests.redis.servers import Cluster

from ocgl.graph import NeighborSampling
from ocgl.graph.redis import RedisStore
from ocgl.types import FloatArray, IntArray, Json
from perf.pages import fill, markdown_table

OUT, PAGE_FILE, SCALE = Path("docs/cluster/model.json"), Path("docs/cluster.md"), Path("docs/cluster/scale.json")
SEEDS, CAP, HOPS, WIDTH = 10, 10, 2, 128
SHORT = 128
"""Entries of a row that are read with it."""
TAIL = 1.5
"""Exponent of the tail of the degrees: P(degree > d) falls as d to the power of minus this."""
NODES, DEGREE, ROUNDS, DRAWS = 60_000, 24, 300, 4000
GIGABIT = 1e9 / 8
MASTER_BYTES = 25e9
"""Memory that a master is planned to use."""
BUSY = 0.5
"""Share of the time that masters are busy, for the 99th percentile."""


def degrees_of(nodes: int, mean: float, rng: np.random.Generator) -> FloatArray:
    """Draw expected degrees with a heavy tail."""
    lowest = mean * (TAIL - 1) / TAIL
    return np.minimum(lowest * (1 - rng.random(nodes)) ** (-1 / TAIL), np.sqrt(mean * nodes))


class Predicted:
    """What a sample takes, drawn from the degrees of a graph alone.

    The neighbour at the end of an edge has a degree drawn in proportion to the degree. In a graph of `nodes` nodes, the
    same node may be met twice.

    Args:
        degrees: degrees of the nodes, or of a sample of them.
        nodes: number of nodes of the graph.
    """

    def __init__(self, degrees: IntArray, nodes: int) -> None:
        rng = np.random.default_rng(0)
        share = degrees / degrees.sum()
        found = [self._one(degrees, share, nodes, rng) for _ in range(DRAWS)]
        self.mean = dict(zip(("rows", "features", "bytes", "trips"), np.mean(found, 0), strict=True))

    def _one(
        self, degrees: IntArray, share: FloatArray, nodes: int, rng: np.random.Generator
    ) -> tuple[float, float, float, float]:
        scale = max(nodes // len(degrees), 1)
        here = rng.choice(len(degrees), SEEDS, replace=False)
        known = {(int(i), int(rng.integers(0, scale))) for i in here}
        rows, size, trips = 0, 0.0, HOPS + 1
        for _ in range(HOPS):
            rows += len(here)
            own = degrees[here]
            size += 4 * np.minimum(own, SHORT).sum() + 4 * (own > SHORT).sum()
            drawn = np.minimum(own, CAP)
            beyond = (drawn * np.maximum(own - SHORT, 0) / np.maximum(own, 1)).sum()
            extra = rng.poisson(beyond)
            trips += extra > 0
            size += 4 * extra
            count = int(drawn.sum())
            kinds, copies = rng.choice(len(degrees), count, p=share), rng.integers(0, scale, count)
            met = zip(kinds.tolist(), copies.tolist(), strict=True)
            new = set(met) - known
            known |= new
            here = np.array([i for i, _ in new], np.int64)
        return rows, len(known), size + 4 * WIDTH * len(known), trips


def processor_seconds(cluster: Cluster) -> float:
    """Return the processor time that all masters have taken."""
    lines = [line for server in cluster.masters for line in server.ask("INFO cpu").decode().split()]
    return sum(float(line.split(":")[1]) for line in lines if line.startswith(("used_cpu_sys:", "used_cpu_user:")))


def grown(store: RedisStore, nodes: int) -> IntArray:
    """Let a graph with skewed degrees arrive; return its degrees."""
    rng = np.random.default_rng(0)
    weights = degrees_of(nodes, DEGREE, rng)
    ends = rng.choice(nodes, (2, nodes * DEGREE // 2), p=weights / weights.sum())
    ends = ends[:, ends[0] != ends[1]]
    ends = np.unique(np.sort(ends, 0)[::-1], axis=1)  # later end first, sorted by it
    for begin in range(0, nodes, 500):
        first, last = np.searchsorted(ends[0], (begin, begin + 500))
        x = rng.normal(size=(500, WIDTH)).astype(np.float32)
        store.add(np.arange(begin, begin + 500), x, ends[:, first:last])
    return np.bincount(ends.ravel(), minlength=nodes)


def measure() -> Json:
    """Count what samples take on this machine, and what the model says of the same degrees."""
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        store = RedisStore(cluster.address("model", "cache=0"))
        degrees = grown(store, NODES)
        rng, sampling, traffic = np.random.default_rng(1), NeighborSampling(HOPS, CAP), store.servers.traffic
        chosen = [rng.choice(NODES, SEEDS, replace=False) for _ in range(ROUNDS)]
        for seeds in chosen:
            store.positions(seeds)
        store.sample(chosen[0], sampling, 0)
        time.sleep(1)  # the replicas are where the masters are
        before = traffic.trips, traffic.commands, traffic.received, processor_seconds(cluster), time.process_time()
        samples = []
        for number, seeds in enumerate(chosen):
            cast(Any, store.features).cache.clear()  # nothing is remembered from the sample before
            samples.append(store.sample(seeds, sampling, number))
        after = traffic.trips, traffic.commands, traffic.received, processor_seconds(cluster), time.process_time()
        trips, commands, received, servers, client = ((b - a) / ROUNDS for a, b in zip(before, after, strict=True))
        counted = {
            "rows": float(np.mean([len(found.indptr) - 1 for found in samples])),
            "features": float(np.mean([len(found.nodes) for found in samples])),
            "trips": trips,
        }
        keys = counted["rows"] + counted["features"]
        # each value comes with '$SIZE\r\n' and '\r\n', each command with its mark
        counted["bytes"] = received - 8 * keys - 25 * commands
        predicted = Predicted(degrees, NODES).mean
        store.drop()
    return {
        "nodes": NODES, "edges": int(degrees.sum()) // 2, "largest_degree": int(degrees.max()), "counted": counted,
        "predicted": predicted, "commands": commands, "received": received,
        "server_us_per_key": 1e6 * servers / keys, "client_ms": 1e3 * client,
    }  # fmt: skip


def elsewhere(found: Json, edges: float, masters: int, latency_ms: float, bytes_per_node: float) -> Json:
    """Extrapolate: a graph of some edges on N masters, whose answers take a given time through the network."""
    rng = np.random.default_rng(0)
    nodes = int(edges / DEGREE * 2)
    sampled = np.maximum(degrees_of(200_000, DEGREE, rng).astype(np.int64), 1)
    mean = Predicted(sampled, nodes).mean
    per_key = found["server_us_per_key"] / 1e6
    keys = mean["rows"] + mean["features"]
    first = SEEDS
    parts = [first, mean["rows"] - first, mean["features"]]  # keys of each trip
    parts += [CAP] * max(0, round(mean["trips"]) - len(parts))
    took = np.full(20_000, found["client_ms"] / 1e3)
    for part in parts:
        share = rng.multinomial(int(part), np.full(masters, 1 / masters), len(took))
        work = share * per_key
        busy = rng.random(work.shape) < BUSY
        own = part * per_key / min(masters, part)  # what others wait for is of the same kind
        wait = busy * rng.exponential(own / (1 - BUSY), work.shape)
        took += latency_ms / 1e3 + ((work + wait) * (share > 0)).max(1)
    took += mean["bytes"] / (10 * GIGABIT)
    return {
        "edges": edges, "nodes": nodes, "masters": masters, "latency_ms": latency_ms, "trips": mean["trips"],
        "bytes": mean["bytes"], "memory": nodes * bytes_per_node / masters,
        "rate": BUSY * masters / (keys * per_key), "clients": BUSY * masters / (keys * per_key) * float(took.mean()),
        "p50_ms": 1e3 * float(np.percentile(took, 50)), "p99_ms": 1e3 * float(np.percentile(took, 99)),
    }  # fmt: skip


def bytes_per_node() -> tuple[float, float]:
    """Return the bytes of a node and of an edge on the masters, as seen with the large graph."""
    scale = json.loads(SCALE.read_text())["large"]
    overhead = scale["used_memory_rss"] / scale["raw_bytes"]
    per_edge = 8 * overhead
    return overhead * (4 * WIDTH + 16), per_edge


def extrapolated(found: Json) -> list[Json]:
    """Return the graphs and clusters of the page."""
    node, edge = bytes_per_node()
    each = node + edge * DEGREE / 2
    plans = []
    for edges in (1e8, 1e10):
        least = max(3, int(np.ceil(edges / DEGREE * 2 * each / MASTER_BYTES)))
        plans += [(edges, masters, latency) for masters in (least, 4 * least) for latency in (0.1, 0.5)]
    return [elsewhere(found, edges, masters, latency, each) for edges, masters, latency in plans]


def write_page(found: Json) -> None:
    """Write the tables of the page."""
    checked = markdown_table(
        ("a sample takes", "model", "counted here"),
        [
            (name, f"{found['predicted'][key]:,.2f}", f"{found['counted'][key]:,.2f}")
            for name, key in (("rows", "rows"), ("features", "features"), ("bytes", "bytes"), ("round trips", "trips"))
        ],
    )
    plans = markdown_table(
        ("edges", "nodes", "masters", "memory of each", "latency", "samples per second", "median", "99th percentile"),
        [
            (f"{one['edges']:,.0f}", f"{one['nodes']:,}", f"{one['masters']:,}", f"{one['memory'] / 1e9:.1f} GB",
             f"{one['latency_ms']:g} ms", f"{one['rate']:,.0f}", f"{one['p50_ms']:.1f} ms", f"{one['p99_ms']:.1f} ms")
            for one in found["elsewhere"]
        ],
    )  # fmt: skip
    text = (
        f"{found['nodes']:,} nodes, {found['edges']:,} edges, largest degree {found['largest_degree']:,}; "
        f"{found['server_us_per_key']:.2f} us of a master for each key and {found['client_ms']:.2f} ms of the client "
        "for each sample, as seen on this machine."
    )
    fill(PAGE_FILE, "model", f"{checked}\n\n{text}\n\n{plans}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="only write the tables")
    given = parser.parse_args()
    found: Any = json.loads(OUT.read_text()) if given.page else measure()
    found["elsewhere"] = extrapolated(found)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    write_page(found)
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
