"""A stream on a cluster that fails: what comes out must equal an undisturbed run, and no answer may be wrong.

    python -m tests.redis.failures [--kills N] [--seed N]

Every sample taken during a run is compared with that of a store in memory which got the same nodes.
"""

import argparse
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ocgl.experiments.config import configure
from ocgl.experiments.experiment import Experiment
from ocgl.experiments.runner import stream_of
from ocgl.graph import GraphStore
from ocgl.graph.redis import RedisStore
from ocgl.graph.redis.servers import slot_of, tags_of
from tests.redis.servers import Cluster, Server

DATA = "sbm:nodes=12000,edges=60000,classes=4,width=16"
EVERY = 100


class Checked(RedisStore):
    """A store on Redis beside one in memory; every sample is compared."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.twin, self.compared = GraphStore(), 0
        self.name = self.address.name

    def add(self, *arguments: Any) -> None:
        super().add(*arguments)
        self.twin.add(*arguments)

    def sample(self, ids: Any, sampling: Any, key: int, as_of: int | None = None) -> Any:
        found, wanted = super().sample(ids, sampling, key), self.twin.sample(ids, sampling, key)
        for name in ("nodes", "indptr", "indices"):
            assert np.array_equal(getattr(found, name), getattr(wanted, name)), f"a sample has other {name}"
        assert np.array_equal(found.dense_rows, wanted.dense_rows), "a sample has other features"
        self.compared += 1
        return found


@dataclass
class Outcome:
    """What was seen.

    Attributes:
        matrix: performance matrix of the run.
        state: hash of the strategy's state.
        compared: samples that were compared with those of the store in memory.
        retries: round trips that were repeated.
        redone: changes that were sent again.
        seconds: time of the run.
    """

    matrix: Any
    state: str
    compared: int
    retries: int
    redone: int
    seconds: float


def streamed(store: GraphStore | None, strategy: str = "linear") -> Outcome:
    """Run a stream to its end on a store."""
    config = configure(DATA, strategy, overrides={"batch_size": 10}, eval_every=EVERY)
    begin = time.monotonic()
    experiment = Experiment(config, stream_of(config), store=store)
    result = experiment.finish()
    checked = store if isinstance(store, Checked) else None
    return Outcome(
        result.matrix,
        experiment.strategy.state().checksum(),
        0 if checked is None else checked.compared,
        0 if checked is None else checked.servers.traffic.retries,
        0 if checked is None else checked.servers.traffic.redone,
        time.monotonic() - begin,
    )


def disturbed(cluster: Cluster, strategy: str, disturb: Callable[[Cluster], None], after: float) -> Outcome:
    """Run a stream while something happens to the cluster."""
    failed: list[BaseException] = []

    def later() -> None:
        time.sleep(after)
        try:
            disturb(cluster)
        except BaseException as error:
            failed.append(error)

    store = Checked(cluster.address("disturbed", "timeout=1&patience=60"))
    thread = threading.Thread(target=later)
    thread.start()
    found = streamed(store, strategy)
    if thread.is_alive() and not found.retries:
        raise RuntimeError("the run was over before anything happened")
    thread.join()
    if failed:
        raise failed[0]
    store.drop()
    return found


def kill_one(rng: random.Random) -> Callable[[Cluster], None]:
    """Kill a master; its replica takes over."""
    return lambda cluster: rng.choice(cluster.masters).kill()


def stop_one(rng: random.Random, seconds: float = 3.0) -> Callable[[Cluster], None]:
    """Stop the process of a master for longer than the time-out, then let it go on: it has been replaced."""

    def act(cluster: Cluster) -> None:
        chosen = rng.choice(cluster.masters)
        chosen.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        chosen.process.send_signal(signal.SIGCONT)

    return act


def move_slots(count: int = 4, pause: float = 0.002) -> Callable[[Cluster], None]:
    """Move slots of partitions to another master, key by key, as a resharding tool does."""

    def act(cluster: Cluster) -> None:
        for tag in tags_of("disturbed", 16)[:count]:
            slot = slot_of(tag)
            source, target = cluster.masters[0], cluster.masters[1]
            move(source, target, slot, cluster.masters, pause)

    return act


def move(source: Server, target: Server, slot: int, masters: list[Server], pause: float) -> None:
    """Move one slot."""
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.ask("CLUSTER", "MYID"))
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ask("CLUSTER", "MYID"))
    while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10):
        source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        time.sleep(pause)
    for master in [target, source, *masters]:
        master.ask("CLUSTER", "SETSLOT", slot, "NODE", target.ask("CLUSTER", "MYID"))


def restart_all(cluster: Cluster) -> None:
    """Let all servers write to disk, kill them a moment later and start them again: that moment is lost."""
    for server in cluster.servers:
        server.ask("SAVE")
    time.sleep(0.5)
    for server in cluster.servers:
        server.process.send_signal(signal.SIGKILL)
    for server in cluster.servers:
        server.process.wait()
    for server in cluster.servers:
        server.start()
    for server in cluster.servers:
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    cases: list[tuple[str, Callable[[Cluster], None]]] = [
        *((f"a master killed ({number + 1})", kill_one(rng)) for number in range(given.kills)),
        ("slots moved", move_slots()),
        ("a master stopped for 3 seconds", stop_one(rng)),
        ("all servers started again without their last half second", restart_all),
    ]
    for name, disturb in cases:
        strategy = rng.choice(("linear", "ridge", "er"))
        wanted = streamed(GraphStore(), strategy)
        with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
            found = disturbed(cluster, strategy, disturb, 0.3 + 1.5 * rng.random())
        equal = found.matrix == wanted.matrix and found.state == wanted.state
        print(
            f"{name}: {strategy}, {found.seconds:.1f} s, {found.retries} trips repeated, {found.redone} changes redone"
            f", {found.compared} samples equal, run {'equal to the bit' if equal else 'DIFFERENT'}",
            flush=True,
        )
        if not equal:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
