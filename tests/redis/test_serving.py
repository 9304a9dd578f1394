"""A service whose graph lies on Redis: it loses nothing, builds its graph anew where it must, and can be followed."""

import json
import random
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ocgl import errors
from ocgl.graph import NeighborSampling
from ocgl.graph.redis import RedisStore
from ocgl.graph.redis._resp import PAGE
from ocgl.graph.redis.changes import place_of
from ocgl.serving.backend import problem_of
from ocgl.serving.backup import backup
from ocgl.serving.config import ServiceConfig
from ocgl.serving.events import parse
from ocgl.serving.replay import replayed
from ocgl.serving.service import Service
from ocgl.serving.status import node_of
from tests.redis.failures import kill_one
from tests.redis.servers import Cluster, Server, free_ports, need_redis
from tests.serving.load import (
    RIDGE,
    follow_and_compare,
    kill_and_compare,
    label,
    live_equals_offline,
    node,
    proven,
)
from tests.serving.running import Running

pytestmark = pytest.mark.slow
NUMBERS = count()


def fresh(cluster: Cluster) -> str:
    return cluster.address(f"serve{next(NUMBERS)}", "timeout=1&patience=20")


@pytest.mark.parametrize("name", ["ridge", pytest.param("er", marks=pytest.mark.long)])
def test_live_equals_offline(cluster: Cluster, name: str, tmp_path: Path) -> None:
    live_equals_offline("digits", name, tmp_path / "s", 20, store=fresh(cluster), batch_size=40)


def test_kills_under_load_lose_nothing(cluster: Cluster, tmp_path: Path) -> None:
    found = kill_and_compare(tmp_path / "s", 1, 3, fresh(cluster))
    assert not any(one["unusable_snapshots"] for one in found)  # the graph was there, as of the snapshot


def fed(folder: Path, store: str, first: int, last: int, *more: Any) -> Service:
    """Start a service, send nodes with labels and other events, and take no snapshot at the end."""
    there = (folder / "config.toml").exists()
    config = ServiceConfig(strategy="ridge", features=3, batch_size=4, batch_seconds=0.0, store=store)
    service = Service(folder, None if there else config)
    service.start()
    for i in range(first, last):
        events = [node(f"n{i}", *([f"n{i - 1}"] if i else []), x=(i % 2, 1 - i % 2, 0.5)), label(f"n{i}", "ab"[i % 2])]
        service.ingest(parsed(events)).result(30)
        if i == first + 5:
            service.snapshot().result(30)
    for one in more:
        service.ingest(parsed([one])).result(30)
    service.failure = "killed"
    service.stop()
    return service


def parsed(events: list[Any]) -> Any:
    return parse(json.dumps(events).encode(), False)


def opened(folder: Path) -> Service:
    """Return a service after its start; it must be what the log alone gives."""
    service = Service(folder)
    service.failure = "killed"
    assert service.engine.state_hash() == replayed(folder, service.engine.sequence).state_hash()
    return service


def test_what_the_servers_have_lost_or_have_too_much_of_is_built_anew(tmp_path: Path) -> None:
    need_redis()
    folder = tmp_path / "s"
    with Server(tmp_path / "redis", free_ports(1)[0]) as server:
        server.wait()
        address = f"redis://127.0.0.1:{server.port}/built?patience=2"
        fed(folder, address, 0, 20)
        service = opened(folder)
        assert service.recovered["snapshot"] > 0 and not service.recovered["unusable_snapshots"]
        service._close()
        # later changes than growth, after the snapshot
        fed(folder, address, 20, 30, {"type": "remove", "id": "n3"}, {"type": "edge", "source": "n1", "target": "n9"})
        service = opened(folder)
        assert any("later edges" in why for why in service.recovered["unusable_snapshots"])
        service._close()
        # a record that was applied, but is not in the log any more
        fed(folder, address, 30, 40)
        log = sorted((folder / "log").iterdir())[-1]
        log.write_bytes(log.read_bytes()[:-400])
        service = opened(folder)
        assert any("does not know" in why for why in service.recovered["unusable_snapshots"])
        there = service.engine.store.arrived
        assert service.recovered["snapshot"] == 0 and 30 < there < 40
        service._close()
        # everything
        fed(folder, address, there, there + 10)
        server.ask("FLUSHALL")
        service = opened(folder)
        assert any("there is no graph" in why for why in service.recovered["unusable_snapshots"])
        # everything, while the service runs
        server.ask("FLUSHALL")
        assert service.graphs.heal(service.engine.store) is None
        assert service.engine.state_hash() == replayed(folder).state_hash()
        service._close()
        service = opened(folder)
        assert service.recovered["records"] > 0 and not service.recovered["unusable_snapshots"]
        server.ask("CONFIG", "SET", "maxmemory", 1 << 20)
        assert "nearly full" in str(service.graphs.heal(service.engine.store))
        full = service.graphs.heal(service.engine.store)
        assert full is not None and problem_of(full).status == 507
        server.ask("CONFIG", "SET", "maxmemory", 0)
        backup(folder, tmp_path / "copy")
        assert (tmp_path / "copy" / "config.toml").stat().st_mode & 0o077 == 0
        with pytest.raises(errors.ConfigError, match=r"store\.json"):
            Service(tmp_path / "copy")
        service._close()
        with pytest.raises(errors.ConfigError, match="belongs to somebody else"):
            fed(tmp_path / "other", address, 0, 1)
        reader = RedisStore.attach(address)
        with pytest.raises(errors.StoreUnreachableError, match="only be read"):
            reader.add(["x"], [[1.0, 2.0, 3.0]])
        reader.close()
        service = opened(folder)
        server.kill()
        assert service.graphs.heal(service.engine.store) is not None
        away = service.graphs.heal(service.engine.store)
        assert away is not None and problem_of(away).status == 503
        with pytest.raises(errors.StoreUnreachableError):
            node_of(service.engine, "n37")
        service._close()
    with pytest.raises(errors.StoreUnreachableError):
        Service(folder)


@pytest.mark.parametrize("strategy", ["linear", "ridge"])
def test_new_features_after_a_snapshot_are_not_seen_too_early(single: Server, strategy: str, tmp_path: Path) -> None:
    """A replay reads neighbours whose features have changed since; what it learns must not be dropped, or be wrong."""
    folder, address = tmp_path / "s", f"redis://127.0.0.1:{single.port}/early{next(NUMBERS)}"
    config = ServiceConfig(strategy=strategy, features=3, batch_size=4, batch_seconds=0.0, store=address)
    service = Service(folder, config)
    service.start()
    names = [f"{letter}{i}" for letter in "nm" for i in range(PAGE)]  # a page of each: two partitions
    events = [node(name, *([name.replace("m", "n")] if name[0] == "m" else []), x=(1, 0, 2)) for name in names]
    service.ingest(parsed(events)).result(30)
    service.snapshot().result(30)
    asked = [f"n{i}" for i in range(PAGE) if place_of(f"n{i}".encode(), 16)[0] > 1][:16]  # found without these two
    service.ingest(parsed([label(name, "ab"[i % 2]) for i, name in enumerate(asked)])).result(30)
    service.ingest(parsed([{"type": "learn"}])).result(30)
    service.ask(["n0"], min_sequence=service.engine.sequence).result(30)
    follower = RedisStore.at(address, None, service.graphs.owner or "", sends=False)
    follower.add(names, np.tile(np.array([[1, 0, 2]], np.float32), (2 * PAGE, 1)), _edges(names))
    service.ingest(parsed([{"type": "update", "id": "m7", "x": [9, 9, 9]}])).result(30)
    service.failure = "killed"
    service.stop()
    with pytest.raises(errors.StoreChangedError):
        follower.sample(["n7", "n9"], NeighborSampling(1, 10), 0)
    follower.close()
    service = opened(folder)
    assert service.recovered["unusable_snapshots"] and not any(service.engine.failed.values())
    service._close()


def _edges(names: list[str]) -> list[list[str]]:
    later = names[PAGE:]
    return [later, [name.replace("m", "n") for name in later]]


def test_one_that_follows_on_the_same_graph_answers_alike(cluster: Cluster, tmp_path: Path) -> None:
    options = (*RIDGE, "--shadow", "linear", "--set", "batch_seconds=0.2", "--store", fresh(cluster))
    with Running(tmp_path / "a", *options) as leader:
        leader.client.send([node("x"), node("y", "x"), label("x", "a"), {"type": "learn"}])
        with Running(tmp_path / "b", "--follow", leader.url) as follower:
            assert follow_and_compare(leader, follower, 2.0)["records"] > 10
            assert follower.client.status()["store"] == leader.client.status()["store"]
            assert not (tmp_path / "b" / "graph").exists()
            proven(follower)
            follower.kill()
            leader.client.send([node("z", "x", "y"), label("z", "b")])
            with Running(tmp_path / "b") as follower:
                at = leader.client.status()["sequence"]
                follower.client.ask(["z"], min_sequence=at)
                assert follower.client.node("z")["degree"] == 2 == leader.client.node("z")["degree"]
                proven(follower)
                leader.client.send([{"type": "edge", "source": "z", "target": "asked-0"}, node("w", "z")])
                leader.client.send([label("w", "a"), {"type": "learn"}])
                until = time.monotonic() + 20
                while follower.process.poll() is None and time.monotonic() < until:
                    time.sleep(0.1)
                assert follower.process.returncode == 2 and "later edges" in follower.said
        with Running(tmp_path / "c", "--follow", leader.url, "--store", "folder") as follower:
            assert follower.client.status()["store"] is None
            proven(follower)


def test_a_master_that_is_killed_is_nobodys_wrong_answer(tmp_path: Path) -> None:
    need_redis()
    rng = random.Random(1)
    with Cluster(tmp_path / "redis") as cluster:
        options = (*RIDGE, "--set", "batch_seconds=0.2", "--store", fresh(cluster))
        with Running(tmp_path / "a", *options) as leader:
            leader.client.send([node("x"), node("y", "x"), label("x", "a"), {"type": "learn"}])
            with Running(tmp_path / "b", "--follow", leader.url) as follower:
                killer = threading.Timer(1.0, kill_one(rng), (cluster,))
                killer.start()
                assert follow_and_compare(leader, follower, 5.0)["records"] > 10
                killer.join()
                proven(follower)
                at, state = leader.client.state_hash()
                leader.stop()
        assert replayed(tmp_path / "a", at).state_hash() == state
