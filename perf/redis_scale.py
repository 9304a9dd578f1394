"""A graph of 2.4 million nodes on a cluster of Redis servers, streamed to its end, against one of 20,000.

    python -m perf.redis_scale [--nodes N] [--replicas N] [--page]

Both graphs have the same degree. Three masters and their replicas are started on loopback ports. The figures go to
docs/cluster/scale.json, and a table in docs/cluster.md is made of them; --page only writes the table. --nodes streams a
smaller graph as the large one, to try it out, and writes nothing.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from tests.redis.servers import Cluster

from ocgl.experiments import configure, stream_of
from ocgl.graph.redis import RedisStore
from ocgl.graph.redis.address import Address
from ocgl.graph.redis.remote_ids import RemoteIds
from ocgl.strategies import Learner, make_strategy
from ocgl.streams import TEST, Stream
from ocgl.types import Json
from perf.pages import fill, markdown_table
from perf.scale import LARGE, LIMITS, SIZES, SMALL, Updates
from perf.timing import Call, samples
from perf.updates import Row

OUT, PAGE_FILE = Path("docs/cluster/scale.json"), Path("docs/cluster.md")
STRATEGY = "linear"
ASKED = 200
"""Test nodes of each task that are predicted at the end."""
EDGES_PER_NODE = 25.2585
COUNTED = ("trips", "commands", "sent", "received", "retries", "redone")


class Run:
    """A graph that is streamed into a store on Redis, and what each update costs.

    Args:
        name: what it is called when progress is printed.
        dataset: the graph.
        address: where it goes.
    """

    def __init__(self, name: str, dataset: str, address: str) -> None:
        self.name, config = name, configure(dataset, STRATEGY)
        self.stream: Stream = stream_of(config)
        self.store = RedisStore(address)
        self.learner = Learner(make_strategy(STRATEGY, **config.resolved(self.stream.base)), store=self.store)

    def to_the_end(self) -> Json:
        """Let the whole stream arrive and learn it; return the figures."""
        arrive, learn, bytes_in, trips_in = [], [], [], []
        traffic = self.store.servers.traffic
        begin = said = time.perf_counter()
        for number, step in enumerate(self.stream):
            start = time.perf_counter()
            step.apply(self.learner)
            arrived = time.perf_counter()
            arrive.append(arrived - start)
            if step.labels is not None:
                before = traffic.trips, traffic.sent + traffic.received
                self.learner.learn(self.learner.batch(step.labels))
                learn.append(time.perf_counter() - arrived)
                trips_in.append(traffic.trips - before[0])
                bytes_in.append(traffic.sent + traffic.received - before[1])
            if time.perf_counter() - said > 20:
                said = time.perf_counter()
                recent = [1000 * float(np.median(part[-200:])) for part in (arrive, learn)]
                print(
                    f"{self.name}: step {number + 1:,} of {len(self.stream):,}, {self.store.arrived:,} nodes, "
                    f"{self.store.edges:,} edges, {said - begin:.0f} s, arrive {recent[0]:.1f} ms, "
                    f"learn {recent[1]:.1f} ms",
                    flush=True,
                )
        seconds = time.perf_counter() - begin
        spool = cast(Any, self.store.partitions)._spool
        both = np.array(arrive[: len(learn)]) + np.array(learn)
        return {
            "dataset": self.stream.graph.name, "nodes": self.store.arrived, "edges": self.store.edges,
            "width": self.stream.graph.width, "updates": len(learn), "stream_seconds": seconds,
            "arrive_seconds": float(sum(arrive)), "learn_seconds": float(sum(learn)),
            **spread("arrive", arrive), **spread("learn", learn), **spread("both", both),
            "learn_trips": float(np.mean(trips_in)), "learn_bytes": float(np.mean(bytes_in)),
            "spool_bytes": spool.nbytes, **{what: getattr(traffic, what) for what in COUNTED},
        }  # fmt: skip

    def score(self) -> float:
        """Return AP at the end of the stream: the mean accuracy of the tasks, from some test nodes of each."""
        stream, rng = self.stream, np.random.default_rng(0)
        held = stream.held_out(TEST)
        scores = []
        for task in range(stream.tasks):
            nodes = held[stream.scored[held] == task]
            chosen = rng.choice(nodes, min(ASKED, len(nodes)), replace=False)
            found = np.concatenate(
                [self.learner.predict(part) for part in np.array_split(chosen, 1 + len(chosen) // 250)]
            )
            scores.append(float((found == stream.graph.y[chosen]).mean()))
        return 100 * float(np.mean(scores))

    def remember(self) -> None:
        """Let the client remember features from now on, as many as by default."""
        usual = Address(self.store.address.nodes, self.store.address.name)
        self.store.address = replace(self.store.address, cache=usual.cache)
        self.store._table = self.store._new_table(self.store.features.width, False)


def spread(name: str, seconds: Any) -> Json:
    """Return percentiles in milliseconds."""
    return {f"{name}_p{p}": 1000 * float(np.percentile(seconds, p)) for p in (50, 99)}


def memory_of(cluster: Cluster) -> dict[str, int]:
    """Return what the masters use together, and what the system gives them."""
    found = {"used_memory": 0, "used_memory_rss": 0}
    for server in cluster.masters:
        for line in server.ask("INFO memory").decode().split():
            name, _, value = line.partition(":")
            if name in found:
                found[name] += int(value)
    return found


def raw_bytes(run: Json) -> int:
    """Return the bytes of features, edges, ids and times."""
    return int(run["nodes"] * (4 * run["width"] + 8 + 8) + 8 * run["edges"])


def measure(large: str, replicas: int) -> Json:
    """Stream both graphs and return all figures."""
    torch.set_num_threads(1)
    options = ("--cluster-node-timeout", "15000")
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder), 3, replicas, *options) as cluster:
        warm = Run("warm", "sbm:nodes=2000,edges=20000,classes=4,width=100", cluster.address("warm", "cache=0"))
        warm.to_the_end()
        warm.store.drop()
        found: Json = {"masters": len(cluster.masters), "replicas": len(cluster.replicas)}
        runs = {}
        before = memory_of(cluster)
        for name, dataset in (("small", SMALL), ("large", large)):
            run = runs[name] = Run(name, dataset, cluster.address(name, "cache=0"))
            found[name] = run.to_the_end()
            after = memory_of(cluster)
            found[name] |= {what: after[what] - before[what] for what in after} | {"raw_bytes": raw_bytes(found[name])}
            before = after
            print(json.dumps(found[name], indent=1), flush=True)
        found["all_rss"] = memory_of(cluster)["used_memory_rss"]
        for name, run in runs.items():
            found[name]["AP"] = run.score()
        found["updates"] = probed(runs)
        found["forgotten"] = probed(runs, forget=True)
        for run in runs.values():
            run.remember()
        found["remembered"] = probed(runs)
        begin = time.perf_counter()
        runs["large"].store.close()
        again = RedisStore.attach(cluster.address("large"))
        found["reopened_nodes"], found["reopen_seconds"] = again.arrived, time.perf_counter() - begin
    return found


def probed(runs: dict[str, Run], forget: bool = False) -> Json:
    """Return the percentiles of updates on batches of some sizes, the two graphs taking turns.

    Args:
        runs: the graphs.
        forget: let the client forget all ids before each update. It remembers those of the small graph otherwise, and
            saves a round trip there.
    """
    found: Json = {}
    for size in SIZES:
        calls = {name: Updates(run.learner, run.stream, size) for name, run in runs.items()}
        times = samples(
            {name: forgetting(runs[name], call) if forget else call for name, call in calls.items()}, 20, 30
        )
        for name, call in calls.items():
            found[f"{name}_{size}"] = spread("update", times[name]) | call.medians()
    print(json.dumps(found), flush=True)
    return found


def forgetting(run: Run, call: Call) -> Call:
    """Return a call before which the client forgets all ids."""

    def act(number: int) -> object:
        cast(RemoteIds, run.store._ids).forget()
        return call(number)

    return act


def rows_of(found: Json) -> list[Row]:
    """Return what was measured, against what was wanted."""
    large, small = found["large"], found["small"]
    what, reference = f"{STRATEGY}, {large['nodes']:,} nodes", f"{small['nodes']:,} nodes"
    rows = []
    for size in SIZES:  # like for like: the client remembers the ids of the small graph otherwise, and saves a trip
        ours, theirs = (found["forgotten"][f"{name}_{size}"] for name in ("large", "small"))
        text = f"{what}: update at the end, batch of {size}"
        rows.append(Row(text, ours["update_p50"], reference, theirs["update_p50"], LIMITS.get(size), at_most=True))
        per_node = [1000 * one["update_p50"] / one["nodes"] for one in (ours, theirs)]
        rows.append(Row(f"{text}, per sampled node", per_node[0], reference, per_node[1], 1.3, "us", True))
    kinds = (("updates", "ids of the small graph remembered"), ("remembered", "features remembered as well"))
    for kind, text in kinds:
        for size in SIZES:
            ours, theirs = (found[kind][f"{name}_{size}"]["update_p50"] for name in ("large", "small"))
            rows.append(Row(f"the same, batch of {size}, {text}", ours, reference, theirs, at_most=True))
    shown = (("update", "learn"), ("arrival", "arrive"), ("arrival and update", "both"))
    for text, key in shown:
        rows.append(
            Row(f"{what}: {text} in the stream", large[f"{key}_p50"], reference, small[f"{key}_p50"], at_most=True)
        )
    raw = large["raw_bytes"] / 1e6
    for name, limit in (("used_memory", None), ("used_memory_rss", 2.0)):
        rows.append(Row(f"{name} of the masters", large[name] / 1e6, "raw arrays", raw, limit, "MB", True))
    return rows


def write_page(found: Json) -> None:
    """Write the tables of the page."""
    head = ("measured", "ours", "reference", "theirs", "ratio", "wanted")
    large, small = (
        one | {"more_bytes": (one["used_memory"] - one["raw_bytes"]) / one["nodes"]}
        for one in (found["large"], found["small"])
    )
    plain: list[tuple[str, str, str]] = [
        (text, form.format(large[key]), form.format(small[key]))
        for text, key, form in (
            ("nodes", "nodes", "{:,}"), ("edges", "edges", "{:,}"), ("updates", "updates", "{:,}"),
            ("seconds of the stream", "stream_seconds", "{:,.0f}"),
            ("seconds of arrivals among them", "arrive_seconds", "{:,.0f}"),
            ("AP of the tasks at the end", "AP", "{:.1f}"),
            ("round trips of an update", "learn_trips", "{:.2f}"), ("bytes of an update", "learn_bytes", "{:,.0f}"),
            ("bytes sent", "sent", "{:,}"), ("bytes received", "received", "{:,}"),
            ("raw arrays, bytes", "raw_bytes", "{:,}"), ("used_memory of the masters", "used_memory", "{:,}"),
            ("used_memory_rss of the masters", "used_memory_rss", "{:,}"),
            ("used_memory beside the raw arrays, bytes a node", "more_bytes", "{:,.0f}"),
            ("temporary file of the writer, bytes", "spool_bytes", "{:,}"),
        )
    ]  # fmt: skip
    table = markdown_table(head, [row.cells for row in rows_of(found)])
    more = markdown_table(("a stream", "large", "small"), plain)
    servers = f"{found['masters']} masters and {found['replicas']} replicas."
    fill(PAGE_FILE, "scale", f"{servers}\n\n{table}\n\n{more}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="only write the tables")
    parser.add_argument("--nodes", type=int, help="try it out with fewer nodes")
    parser.add_argument("--replicas", type=int, default=1, help="replicas of each master")
    given = parser.parse_args()
    if given.nodes:
        found = measure(f"{LARGE},nodes={given.nodes},edges={int(EDGES_PER_NODE * given.nodes)}", given.replicas)
    elif given.page:
        found = json.loads(OUT.read_text())
    else:
        found = measure(LARGE, given.replicas)
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(json.dumps(found, indent=1) + "\n")
    if not given.nodes:
        write_page(found)
    for row in rows_of(found):
        print(*row.cells, sep=" | ")
    return 0 if all(row.met is not False for row in rows_of(found)) else 1


if __name__ == "__main__":
    sys.exit(main())
