"""A store on Redis passes the contract and equals the store in memory, single and as a cluster."""

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ocgl.errors import (
    ConfigError,
    GraphError,
    StoreBehindError,
    StoreRefusedError,
    StoreUnreachableError,
    UnknownNodeError,
)
from ocgl.experiments import configure, evaluate, make_experiment, stream_of
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.sharding import train_sharded
from ocgl.graph import GraphStore, NeighborSampling
from ocgl.graph.redis import RedisStore
from ocgl.graph.redis.address import address_of
from ocgl.graph.redis.cache import RowCache
from ocgl.graph.redis.servers import slot_of, tags_of
from ocgl.state import State
from ocgl.strategies import ClosedForm
from ocgl.testing import STORE_CHECKS, follows_the_reference
from ocgl.testing.stores import KINDS, MakeStore
from tests.redis.servers import Cluster, Server, free_ports

SMALL = st.integers(0, 60)
EVENTS = st.tuples(st.sampled_from([*KINDS, "reopen"]), SMALL, SMALL, SMALL, SMALL)
NUMBERS = count()
PLAIN = NeighborSampling(2, 10)
SAMPLINGS = (PLAIN, NeighborSampling(2, 10, "sym", "store"), NeighborSampling(1, None, "mean"), NeighborSampling(3, 2))


@pytest.fixture(params=["single", "cluster"])
def address(request: pytest.FixtureRequest) -> Callable[[], str]:
    if request.param == "single":
        server: Server = request.getfixturevalue("single")
        return lambda: f"redis://127.0.0.1:{server.port}/g{next(NUMBERS)}"
    made: Cluster = request.getfixturevalue("cluster")
    return lambda: made.address(f"g{next(NUMBERS)}")


def grown(stores: list[Any], steps: int = 40, width: int = 8, sparse: bool = False, hub: bool = True) -> None:
    """Let the same graph arrive in several stores: 50 nodes a step, with a hub."""
    rng = np.random.default_rng(0)
    for step in range(steps):
        ids = np.arange(50 * step, 50 * step + 50)
        x: Any = rng.normal(size=(50, width)).astype(np.float32)
        if sparse:
            x = csr_array(np.where(rng.random(x.shape) < 0.5, x, 0).astype(np.float32))
        edges = np.stack([rng.choice(ids, 200), rng.integers(0, 50 * step + 50, 200)])
        if hub:
            edges[1, ::7] = 0
        edges = edges[:, edges[0] != edges[1]]
        for store in stores:
            store.add(ids, x, edges)


def same(a: Any, b: Any) -> None:
    """Require that two samples are equal to the bit."""
    assert a.sizes == b.sizes and a.cost == b.cost and a.norm == b.norm
    for name in ("nodes", "indptr", "indices", "edge_weight", "self_weight"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert np.array_equal(a.dense_rows, b.dense_rows) and np.array_equal(a.aggregated, b.aggregated)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(history=st.lists(EVENTS, max_size=14), text=st.booleans())
def test_it_follows_the_reference(address: Callable[[], str], history: list[Any], text: bool) -> None:
    where, made = address(), []

    def reopen(store: Any) -> GraphStore:
        store.close()
        made.append(RedisStore.attach(where))
        return made[-1]

    def make() -> GraphStore:
        made.append(RedisStore(where))
        return made[-1]

    follows_the_reference(make, history, text, reopen)
    made[-1].drop()


@pytest.mark.slow
@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
def test_contract(address: Callable[[], str], check: Callable[[MakeStore], None]) -> None:
    check(lambda: RedisStore(address()))


@pytest.mark.parametrize("sparse", [False, True])
def test_samples_equal_those_in_memory_and_take_few_round_trips(cluster: Cluster, sparse: bool) -> None:
    memory, remote = GraphStore(), RedisStore(cluster.address(f"g{next(NUMBERS)}", "cache=0"))
    grown([memory, remote], sparse=sparse)
    rng = np.random.default_rng(1)
    traffic = remote.servers.traffic
    for key in range(12):
        seeds = rng.choice(np.arange(1, 2000), 10, replace=False)
        for sampling in SAMPLINGS:
            remote.positions(seeds)
            begin = traffic.trips
            found = remote.sample(seeds, sampling, key)
            assert traffic.trips - begin <= 2 * sampling.hops + 1
            same(memory.sample(seeds, sampling, key), found)
        subgraphs = [store.subgraph(int(seeds[0]), (5, 7), key) for store in (memory, remote)]
        assert all(np.array_equal(*(getattr(s, n) for s in subgraphs)) for n in ("nodes", "joined", "ring"))
        assert subgraphs[0].reads == subgraphs[1].reads and subgraphs[0].rows == subgraphs[1].rows
    without = RedisStore(cluster.address(f"g{next(NUMBERS)}"))
    grown([without], hub=False)
    without.positions(seeds)
    for sampling in SAMPLINGS[:2]:
        begin = without.servers.traffic.trips
        without.sample(seeds, sampling, 0)
        assert without.servers.traffic.trips - begin == PLAIN.hops + 1
        cast(Any, without.features).cache.clear()
    assert np.array_equal(memory.times, remote.times) and np.array_equal(memory.ids, remote.ids)


def test_a_sample_reads_a_bounded_number_of_bytes(cluster: Cluster) -> None:
    store = RedisStore(cluster.address(f"g{next(NUMBERS)}", "cache=0"))
    grown([store], steps=60, width=16)
    store.positions(np.arange(10))
    for key in range(20):
        before = store.servers.traffic.received
        found = store.sample(np.arange(10), PLAIN, key)
        marks = 5 * 16 * 40
        rows = len(found.indptr) - 1
        bound = rows * (4 + 4 * 128) + 4 * len(found.indices) + 4 * 16 * len(found.nodes) + marks
        assert store.servers.traffic.received - before <= bound


def test_nothing_is_left_after_drop(single: Server) -> None:
    before = single.ask("DBSIZE")
    store = RedisStore(f"redis://127.0.0.1:{single.port}/dropped")
    grown([store], steps=5)
    store.remove([7])
    store.add_edges([[1], [2]])
    assert single.ask("DBSIZE") > before
    store.drop()
    assert single.ask("DBSIZE") == before
    with pytest.raises(StoreUnreachableError, match="closed"):
        store.sample([1], PLAIN, 0)


def test_samples_as_of_a_moment(cluster: Cluster) -> None:
    where = cluster.address(f"g{next(NUMBERS)}")
    writer, then = RedisStore(where), GraphStore()
    reader = None
    old = {}
    rng = np.random.default_rng(0)
    for step in range(30):
        ids = np.arange(50 * step, 50 * step + 50)
        edges = np.stack([ids, np.minimum(rng.integers(0, 5, 50), ids)])
        edges = edges[:, edges[0] != edges[1]]
        for store in (writer, then):
            store.add(ids, np.eye(50, dtype=np.float32), edges)
        old[step + 1] = [then.sample(ids[:5], sampling, step).detached() for sampling in SAMPLINGS]
        if reader is None:
            reader = RedisStore.attach(where)
    assert reader is not None
    assert writer.publish() == 30
    for store in (writer, reader):
        for sequence, samples in old.items():
            ids = np.arange(50 * sequence - 50, 50 * sequence - 45)
            for sampling, was in zip(SAMPLINGS, samples, strict=True):
                found = store.sample(ids, sampling, sequence - 1, as_of=sequence)
                assert found.sizes == was.sizes and np.array_equal(found.indices, was.indices)
                assert np.array_equal(found.aggregated, was.aggregated)
                assert np.array_equal(found.edge_weight, was.edge_weight)
    with pytest.raises(UnknownNodeError, match="had not arrived at change 3"):
        writer.sample([200], PLAIN, 0, as_of=3)
    writer.add_edges([[700], [701]])
    for store in (writer, reader):
        with pytest.raises(GraphError, match="later edges"):
            store.sample([700], PLAIN, 0, as_of=20)
    with pytest.raises(StoreUnreachableError, match="only be read"):
        reader.add([10**6], np.zeros((1, 50)))


def test_a_reader_is_refused_what_may_lack(cluster: Cluster) -> None:
    where = cluster.address(f"g{next(NUMBERS)}")
    writer = RedisStore(where)
    grown([writer], steps=3)
    writer.publish()
    reader = RedisStore.attach(where)
    assert reader.sample([3], PLAIN, 0, as_of=3).seeds == 1
    writer.add([1000], np.zeros((1, 8)))  # touches few partitions: the others keep their marks
    with pytest.raises(StoreBehindError, match="not published"):
        reader.sample(np.arange(100), PLAIN, 0, as_of=4)
    assert writer.publish() == 4 and reader.sample(np.arange(100), PLAIN, 0, as_of=4).seeds == 100
    with pytest.raises(StoreBehindError):
        reader.sample([3], PLAIN, 0, as_of=5)


def test_lost_changes_are_sent_again_unless_they_were_forgotten(tmp_path: Any) -> None:
    with Server(tmp_path, free_ports(1)[0]) as server:
        server.wait()
        memory, store = GraphStore(), RedisStore(f"redis://127.0.0.1:{server.port}/lost")
        grown([memory, store], steps=10)
        before, mark = store.partitions._spool.nbytes if store.partitions._spool else 0, store.mark
        store.add([10_000], np.ones((1, 8)), [[10_000], [3]])
        memory.add([10_000], np.ones((1, 8)), [[10_000], [3]])
        meta = f"{{{store.address.name}}}meta"
        for key in server.ask("KEYS", "*"):
            if key != meta.encode():
                server.ask("DEL", key)
        store.heal()
        assert store.servers.traffic.redone > 10
        same(memory.sample([3, 10_000], PLAIN, 1), store.sample([3, 10_000], PLAIN, 1))
        store.forget(mark)
        assert store.partitions._spool is not None and store.partitions._spool.nbytes < before / 5
        store.add([10_001], np.ones((1, 8)))
        server.ask("FLUSHALL")
        with pytest.raises(StoreBehindError, match="not remembered"):
            store.heal()


@pytest.mark.parametrize("sparse", [False, True])
def test_a_reader_forgets_what_another_process_has_changed(cluster: Cluster, sparse: bool) -> None:
    where = cluster.address(f"g{next(NUMBERS)}")
    memory, writer = GraphStore(sparse=sparse), RedisStore(where, sparse)
    grown([memory, writer], steps=4, sparse=sparse)
    reader = RedisStore.attach(where)
    same(memory.sample([3, 9], PLAIN, 1), reader.sample([3, 9], PLAIN, 1))
    before = reader.servers.traffic.received
    same(memory.sample([3, 9], PLAIN, 1), reader.sample([3, 9], PLAIN, 1))
    again = reader.servers.traffic.received - before
    assert again < before / 2
    for store in (memory, writer):
        store.update([3], np.full((1, 8), 5.0))
    for store in (writer, reader):
        same(memory.sample([3, 9], PLAIN, 1), store.sample([3, 9], PLAIN, 1))
    for store in (memory, writer):
        store.remove([3])
        store.add([3], np.full((1, 8), 7.0), [[3], [9]])  # another node of this name
    for store in (writer, reader):
        same(memory.sample([3, 9], PLAIN, 1), store.sample([3, 9], PLAIN, 1))


@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=8), max_size=20), st.integers(1, 12))
def test_the_cache_returns_what_was_fetched(asked: list[list[int]], room: int) -> None:
    cache, fetched = RowCache(2, room), 0

    def fetch(nodes: Any) -> Any:
        nonlocal fetched
        fetched += len(nodes)
        return np.stack([nodes, -nodes], 1).astype(np.float32)

    for number, nodes in enumerate(asked):
        wanted = np.array(nodes, np.int32)
        slots = cache.slots(wanted, fetch)
        found = cache.rows[slots]
        assert np.array_equal(found, np.stack([wanted, -wanted], 1))
        if number % 3 == 2:
            cache.forget(np.unique(wanted[:2]))
    assert cache.misses == fetched and cache.hits + cache.misses == sum(map(len, asked))


def test_partitions_are_spread_over_all_slots() -> None:
    for partitions in (1, 7, 16, 100):
        slots = [slot_of(tag) for tag in tags_of("x", partitions)]
        assert [slot * partitions // 16384 for slot in slots] == list(range(partitions))
    assert slot_of("123456789") == 12739  # the example of Redis' specification


@pytest.mark.parametrize(
    "text",
    ["redis://", "redis://h:1", "redis://h:1/", "http://h:1/x", "redis://h:0/x", "redis://h:99999/x", "redis://h:1/a b",
     "redis://h:1/x?y=1", "redis://:a@b@h:1/x", "redis://h:1/x?partitions=0", "redis://h:1/x?timeout=no", "redis://h:1/x?timeout=0"],
)  # fmt: skip
def test_wrong_addresses_are_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError):
        address_of(text)


def test_addresses() -> None:
    found = address_of("rediss://me:p%40ss@[::1]:7000,other/papers?partitions=64&ca=/x.pem&check_hostname=false")
    assert found.nodes == (("::1", 7000), ("other", 6379)) and found.tls and found.partitions == 64
    assert (found.username, found.password, found.ca, found.check_hostname) == ("me", "p@ss", "/x.pem", False)
    assert "p%40ss" not in found.shown and "p@ss" not in found.shown
    assert address_of(found.text) == found


def test_one_graph_per_name_and_no_server_is_said(single: Server) -> None:
    where = f"redis://127.0.0.1:{single.port}/twice"
    first = RedisStore(where)
    with pytest.raises(ConfigError, match="there is a graph"):
        RedisStore(where)
    first.drop()
    with pytest.raises(ConfigError, match="no graph"):
        RedisStore.attach(where)
    with pytest.raises(StoreUnreachableError, match="no server"):
        RedisStore(f"redis://127.0.0.1:{free_ports(1)[0]}/x?patience=0.2")


def test_passwords(tmp_path: Any) -> None:
    with Server(tmp_path, free_ports(1)[0], "--requirepass", "secret") as server:
        address = f"redis://:secret@127.0.0.1:{server.port}/x"
        store = RedisStore(address)
        store.add([1], [[1.0]])
        assert len(store) == 1
        for wrong in ("redis://:other@", "redis://"):
            with pytest.raises(StoreRefusedError, match="refuses"):
                RedisStore(f"{wrong}127.0.0.1:{server.port}/y?patience=1")


def test_tls(tmp_path: Any) -> None:
    for name in ("ca", "other"):
        issue = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        files = ["-keyout", f"{tmp_path}/{name}.key", "-out", f"{tmp_path}/{name}.pem"]
        names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
        subprocess.run([*issue, *files, *names], check=True, capture_output=True)
    plain, port = free_ports(2)
    tls = ["--tls-port", str(port), "--tls-cert-file", f"{tmp_path}/ca.pem", "--tls-key-file", f"{tmp_path}/ca.key"]
    tls += ["--tls-ca-cert-file", f"{tmp_path}/ca.pem", "--tls-auth-clients", "yes"]
    with Server(tmp_path, plain, *tls) as server:
        server.wait()
        client = f"cert={tmp_path}/ca.pem&key={tmp_path}/ca.key"
        memory, store = GraphStore(), RedisStore(f"rediss://127.0.0.1:{port}/x?ca={tmp_path}/ca.pem&{client}&cache=0")
        grown([memory, store], width=200)
        many = np.random.default_rng(0).choice(2000, 200, replace=False)
        samples = [store.sample(many, sampling, 1) for sampling in SAMPLINGS]
        for sampling, found in zip(SAMPLINGS, samples, strict=True):
            same(memory.sample(many, sampling, 1), found)
        assert samples[0].dense_rows.nbytes > 1 << 20 and store.servers.traffic.retries <= 1  # bytes as they come
        assert store.address.shown.startswith("rediss://")
        with pytest.raises(ConfigError, match="certificate"):
            RedisStore(f"rediss://127.0.0.1:{port}/y?ca={tmp_path}/other.pem&{client}&patience=1")
        with pytest.raises((ConfigError, StoreUnreachableError)):  # the server wants a certificate of the client
            RedisStore(f"rediss://127.0.0.1:{port}/y?ca={tmp_path}/ca.pem&patience=0.5")


@pytest.mark.slow
@pytest.mark.parametrize("learners", [2, pytest.param(4, marks=pytest.mark.long)])
def test_learners_on_one_graph_equal_one_pass(cluster: Cluster, learners: int) -> None:
    config = configure("digits", "ridge", overrides={"fanout": 3, "batch_size": 20})
    run = make_experiment(config, stream_of(config))
    run.finish()
    with LocalExecutor(2) as pool:
        learner = train_sharded(config, pool, learners, store=cluster.address("shared"))
    ours, theirs = (cast(ClosedForm, one.strategy) for one in (learner, run.learner))
    order, there = np.argsort(ours.labels), np.argsort(theirs.labels)
    for a, b in zip(ours.classifier(), theirs.classifier(), strict=True):
        np.testing.assert_allclose(a[..., order], b[..., there], rtol=1e-8, atol=1e-10)
    ids = run.learner.store.ids
    assert np.array_equal(learner.predict(ids), run.learner.predict(ids)) and ours.updates == theirs.updates
    cast(RedisStore, learner.store).drop()
    changing = configure("sbm:nodes=200,edges=700,classes=4,width=3,churn=0.3", "ridge")
    with LocalExecutor(1) as pool, pytest.raises(ConfigError, match="only grows"):
        train_sharded(changing, pool, 2, store=cluster.address("shared"))


RUNS: dict[str, dict[str, Any]] = {"er": {}, "linear": {}, "ridge": {}, "ssm-er": {"source": "graph"}}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_on_a_cluster_equals_one_in_memory(cluster: Cluster, name: str) -> None:
    data = "sbm:nodes=300,edges=1500,classes=4,width=16"
    found = [
        evaluate(name, data, every=5, store=store, batch_size=10, **RUNS[name])
        for store in ("memory", cluster.address("run"))
    ]
    assert found[1].store == "redis" and found[0].matrix == found[1].matrix and found[0].AAP == found[1].AAP
    assert found[0].cost_per_update == found[1].cost_per_update and found[0].AP is not None
    assert all(server.ask("DBSIZE") == 0 or not server.ask("KEYS", "{run*") for server in cluster.masters)


@pytest.mark.long
@pytest.mark.parametrize("name", ["er", "linear", "ridge"])
def test_real_data_on_a_cluster_from_the_command_line(
    cluster: Cluster, name: str, tmp_path: Any, data_root: Any
) -> None:
    command = [sys.executable, "-m", "ocgl", "run", "--dataset", "amazon-computer", "--strategy", name]
    command += ["--eval-every", "100", "--data-root", str(data_root)]
    for where, store in (("memory", "memory"), ("redis", cluster.address("run"))):
        subprocess.run([*command, "--store", store, "--out", str(tmp_path / where)], check=True, capture_output=True)
    states = [State.load(tmp_path / where / "model.safetensors") for where in ("memory", "redis")]
    assert states[0].checksum() == states[1].checksum()
    results = [json.loads((tmp_path / where / "result.json").read_text()) for where in ("memory", "redis")]
    for what in ("matrix", "AP", "AAP", "cost_per_update"):
        assert results[0][what] == results[1][what] is not None
