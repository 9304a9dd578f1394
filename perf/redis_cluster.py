"""Samples from a cluster of Redis servers on this machine, against the raw bytes and against redis-py's own client.

    python -m perf.redis_cluster [--page]

Three masters and three replicas are started on loopback ports. The figures go to docs/cluster/figures.json, and the
tables in docs/cluster.md are made of them; --page only writes the tables.
"""

import select
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from redis.cluster import RedisCluster
from tests.redis.servers import Cluster

from ocgl.graph import GraphStore, NeighborSampling
from ocgl.graph.redis import RedisStore
from ocgl.graph.redis._kernels import drawn, joined
from ocgl.graph.redis._resp import SHORT
from ocgl.graph.redis.changes import partition_of
from ocgl.graph.redis.servers import Servers, slot_of
from ocgl.types import Json
from perf.pages import figures, fill, markdown_table
from perf.updates import Row

OUT, PAGE_FILE = Path("docs/cluster/figures.json"), Path("docs/cluster.md")
NODES, DEGREE, WIDTH, SEEDS, SAMPLING = 20_000, 12, 128, 10, NeighborSampling(2, 10)
ROUNDS = 120


def grow(stores: list[Any], nodes: int) -> None:
    """Let the same random graph arrive in several stores, 50 nodes at a time."""
    rng = np.random.default_rng(0)
    for begin in range(0, nodes, 50):
        ids = np.arange(begin, begin + 50)
        edges = np.stack([np.repeat(ids, DEGREE // 2), rng.integers(0, begin + 50, 50 * (DEGREE // 2))])
        edges = edges[:, edges[0] != edges[1]]
        x = rng.normal(size=(50, WIDTH)).astype(np.float32)
        for store in stores:
            store.add(ids, x, edges)


class Plain:
    """The same sample through redis-py's client for clusters: one GETRANGE per row, in its pipelines."""

    def __init__(self, store: RedisStore) -> None:
        host, port = store.address.nodes[0]
        self._client: Any = RedisCluster(host=host, port=port)
        self._store = store

    def sample(self, seeds: np.ndarray, key: int) -> np.ndarray:
        nodes, done = seeds, 0
        for cap in SAMPLING.fanouts:
            around = nodes[done:]
            rows = self._ranges([("r", int(node), 0, 4 * SHORT + 3) for node in around])
            held = [np.frombuffer(row, "<i4") for row in rows]
            degrees = np.array([len(row) if len(row) <= SHORT else row[SHORT] for row in held], np.int32)
            starts, places = drawn(around, degrees, cap, np.uint64(key))
            entries = [row[places[a:b]] for row, a, b in zip(held, starts, starts[1:])]  # noqa: B905
            done = len(nodes)
            nodes, _ = joined(nodes, np.concatenate(entries))
        found = self._ranges([("x", int(node), 0, 4 * WIDTH - 1) for node in nodes])
        return np.stack([np.frombuffer(row, "<f4") for row in found])

    def _ranges(self, wanted: list[tuple[Any, ...]]) -> list[bytes]:
        pipe = self._client.pipeline(transaction=False)
        for letter, number, begin, end in wanted:
            partition = partition_of(number, self._store.partitions.count)
            pipe.getrange(self._store.partitions.key(partition, f"{letter}{number}"), begin, end)
        return list(pipe.execute())


def median_ms(act: Callable[[int], Any]) -> float:
    act(0)
    times = []
    for number in range(ROUNDS):
        begin = time.perf_counter()
        act(number)
        times.append(time.perf_counter() - begin)
    return 1000 * float(np.median(times))


def used(cluster: Cluster) -> int:
    """Return the memory that all masters use."""
    lines = [line for server in cluster.masters for line in server.ask("INFO memory").decode().split()]
    return sum(int(line.split(":")[1]) for line in lines if line.startswith("used_memory:"))


def measure() -> Json:
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        memory, store = GraphStore(), RedisStore(cluster.address("perf", "cache=0"))
        before, begin = used(cluster), time.perf_counter()
        grow([store], NODES)
        found: Json = {"load_seconds": time.perf_counter() - begin, "used_bytes": used(cluster) - before}
        grow([memory], NODES)
        found |= {"nodes": NODES, "edges": store.edges, "raw_bytes": NODES * 4 * WIDTH + 8 * store.edges}
        rng = np.random.default_rng(1)
        seeds = [rng.choice(NODES, SEEDS, replace=False) for _ in range(ROUNDS)]
        for chosen in seeds:
            store.positions(chosen)
        traffic = store.servers.traffic
        start = (traffic.trips, traffic.commands, traffic.sent, traffic.received)
        nodes = [len(store.sample(seeds[i], SAMPLING, i).nodes) for i in range(ROUNDS)]
        now = (traffic.trips, traffic.commands, traffic.sent, traffic.received)
        trips, commands, sent, received = ((b - a) / ROUNDS for a, b in zip(start, now, strict=True))
        found |= {"trips": trips, "commands": commands, "sent": sent, "received": received, "sampled": np.mean(nodes)}
        found["sample_ms"] = median_ms(lambda i: store.sample(seeds[i], SAMPLING, i))
        found["bare_ms"] = bare(store, seeds)
        found["memory_ms"] = median_ms(lambda i: memory.sample(seeds[i], SAMPLING, i).rows())
        found["raw_ms"] = raw(store, int(received))
        plain = Plain(store)
        positions = [store.positions(chosen) for chosen in seeds]
        for i in range(3):
            assert np.array_equal(plain.sample(positions[i], i), store.sample(seeds[i], SAMPLING, i).dense_rows)
        found["redis_py_ms"] = median_ms(lambda i: plain.sample(positions[i], i))
        cached = RedisStore.attach(cluster.address("perf"))
        for i in range(ROUNDS):
            cached.sample(seeds[i], SAMPLING, i)
        begin_bytes = cached.servers.traffic.received
        found["cached_ms"] = median_ms(lambda i: cached.sample(seeds[i], SAMPLING, i))
        found["cached_received"] = (cached.servers.traffic.received - begin_bytes) / (ROUNDS + 1)
        store.drop()
    return found


def raw(store: RedisStore, size: int) -> float:
    """Return the milliseconds to fetch so many bytes by one command per master."""
    masters = len(store.servers.masters)
    calls = []
    for number in range(masters):
        tag = next(t for t in (f"raw{i}" for i in range(10_000))
                   if store.servers._owner(slot_of(t)) == store.servers.masters[number])  # fmt: skip
        store.servers.call([(slot_of(tag), ("SET", f"{{{tag}}}", bytes(size // masters)))])
        calls.append((slot_of(tag), ("GET", f"{{{tag}}}")))
    taken = median_ms(lambda _: store.servers.call(calls))
    store.servers.call([(slot, ("DEL", command[1])) for slot, command in calls])
    return taken


def bare(store: RedisStore, seeds: list[np.ndarray]) -> float:
    """Return the milliseconds of the same commands, packed before and sent by trips, with the answers dropped.

    What the servers and the sockets cost by themselves: the keys of a trip depend on the answers of the one before.
    """
    trips: list[list[tuple[Any, bytes, int]]] = []
    room = memoryview(bytearray(1 << 22))

    def fetch(slots: Any, requests: Any, firsts: Any) -> Any:
        trip = []
        before = store.servers.traffic.received
        for node, runs, _ in store.servers._owned(slots, len(requests)):
            data = b"".join(bytes(text[bounds[a] : bounds[b]]) for text, bounds in requests for a, b in runs)
            if data:
                wire = store.servers._connected(node)
                wire.send_bytes(data)
                size = 0
                while not wire_is_quiet(wire):
                    size += wire.receive(room)
                trip.append((wire, data, size))
        trips.append(trip)
        assert store.servers.traffic.received == before
        return Servers.fetch(store.servers, slots, requests, firsts)

    store.servers.fetch = fetch  # type: ignore[method-assign]
    ends = []
    for number, chosen in enumerate(seeds):
        store.sample(chosen, SAMPLING, number)
        ends.append(len(trips))
    del store.servers.fetch

    def again(number: int) -> None:
        for trip in trips[ends[number - 1] if number else 0 : ends[number]]:
            for wire, data, _ in trip:
                wire.send_bytes(data)
            for wire, _, size in trip:
                while size:
                    size -= wire.receive(room[:size])

    return median_ms(again)


def wire_is_quiet(wire: Any) -> bool:
    """Return whether nothing comes for a while."""
    return not select.select([wire._socket], [], [], 0.01)[0]


def rows_of(found: Json) -> list[Row]:
    what = f"a sample of {SAMPLING.hops} hops, {SEEDS} seeds, 10 neighbours, {WIDTH} features"
    ours, used_size, raw_size = found["sample_ms"], found["used_bytes"] / 1e6, found["raw_bytes"] / 1e6
    return [
        Row(what, ours, "its bytes by one command per master", found["raw_ms"], 8, at_most=True),
        Row(what, ours, "the same through redis-py's cluster client", found["redis_py_ms"], 0.333, at_most=True),
        Row(what, ours, "the same commands, prepared; answers dropped", found["bare_ms"], at_most=True),
        Row(what, ours, "in memory", found["memory_ms"], at_most=True),
        Row("the same, features remembered", found["cached_ms"], "not remembered", ours, at_most=True),
        Row("round trips of a sample", found["trips"], "hops + 1", SAMPLING.hops + 1, 1, "", True),
        Row("memory of the masters", used_size, "raw arrays", raw_size, None, "MB", True),
    ]


def write_page(found: Json) -> None:
    head = ("measured", "ours", "reference", "theirs", "ratio", "wanted")
    table = markdown_table(head, [row.cells for row in rows_of(found)])
    more = markdown_table(
        ("a sample", ""),
        [
            ("nodes", f"{found['sampled']:.0f}"),
            ("commands", f"{found['commands']:.0f}"),
            ("bytes sent", f"{found['sent']:,.0f}"),
            ("bytes received", f"{found['received']:,.0f}"),
            ("bytes received with features remembered", f"{found['cached_received']:,.0f}"),
        ],
    )
    fill(PAGE_FILE, "figures", f"{table}\n\n{more}")


def main() -> int:
    found = figures(__doc__, OUT, measure)
    write_page(found)
    for row in rows_of(found):
        print(*row.cells, sep=" | ")
    return 0 if all(row.met is not False for row in rows_of(found)) else 1


if __name__ == "__main__":
    sys.exit(main())
