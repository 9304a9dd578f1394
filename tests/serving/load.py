"""Load on a real service, and what must hold after it: used short by the tests, and long by `make soak`."""

import random
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from ocgl import class_stream, errors, load_dataset
from ocgl.experiments.config import configure
from ocgl.experiments.runner import make_experiment
from ocgl.serving.client import Client
from ocgl.serving.play import play
from ocgl.serving.replay import replayed
from ocgl.testing import same
from ocgl.types import Json
from tests.serving.running import Running

RIDGE = ("--strategy", "ridge", "--features", "3")


def node(id: Any, *neighbors: Any, x: tuple[float, ...] = (1.0, 0.0, 0.0)) -> Json:
    return {"type": "node", "id": id, "x": list(x), "neighbors": list(neighbors)}


def label(id: Any, what: Any) -> Json:
    return {"type": "label", "id": id, "label": what}


def anonymous_bytes(process: int) -> int:
    """Return the anonymous memory of a process and of those that it has started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    own = 1024 * sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Anonymous:"))
    return own + sum(anonymous_bytes(int(child)) for child in children)


def live_equals_offline(
    dataset: str, name: str, folder: Path, every: int, root: Path | None = None, store: str = "", **overrides: Any
) -> Json:
    """Play a stream into a service and run it offline: scores, matrix and weights must be equal, to the bit."""
    config = configure(dataset, name, eval_every=every, overrides=overrides)
    stream = class_stream(load_dataset(dataset, root), batch_size=config.stream.batch_size)
    offline = make_experiment(config, stream)
    result = offline.finish()
    chosen = {key: value for key, value in result.hyperparameters.items() if key == "buffer_size"}
    options = [f"--set={key}={value}" for key, value in chosen.items()] + ([f"--store={store}"] if store else [])
    assert stream.graph.x is not None
    width = stream.graph.x.shape[1]
    size = f"batch_size={config.stream.batch_size}"
    with Running(folder, "--strategy", name, "--features", str(width), "--set", size, *options) as running:
        evaluator = play(stream, running.client, every=every)
        assert np.array_equal(100 * evaluator.matrix, np.array(result.matrix, float), equal_nan=True)
        found = evaluator.result()
        assert (found["AP"], found["AAP"]) == (result.AP, result.AAP)
        assert running.stop() == 0
    engine = replayed(folder)
    assert same(engine.learners[name].state(), offline.learner.state())
    assert engine.store.edges == offline.learner.store.edges and engine.batches == result.updates
    return {"dataset": dataset, "strategy": name, "AP": result.AP, "AAP": result.AAP, "batches": engine.batches}


def send_until(client: Client, seed: int, stop: threading.Event, acknowledged: dict[str, int]) -> None:
    """Send nodes and labels until told to stop; remember what was acknowledged."""
    rng, number = random.Random(seed), 0
    while not stop.is_set():
        names = [f"{seed}-{number + i}" for i in range(rng.randrange(1, 12))]
        number += len(names)
        events = [node(name, *names[:i][-2:], x=(rng.random(), 1.0, rng.random())) for i, name in enumerate(names)]
        events += [label(name, rng.choice("abc")) for name in names if rng.random() < 0.6]
        try:
            sequence = client.send(events, idempotency_key=f"key {seed} {number}")
        except errors.ServiceError:
            return
        acknowledged |= dict.fromkeys(names, sequence)


def kill_and_compare(folder: Path, times: int, seed: int, store: str = "") -> list[Json]:
    """Kill a service under load at random moments, sometimes while it starts; return what each recovery found."""
    rng, found = random.Random(seed), []
    acknowledged: dict[str, int] = {}
    options = [*RIDGE, "--shadow", "linear", "--set", "snapshot_records=60", "--set", "batch_seconds=0.2"]
    options += [f"--store={store}"] if store else []
    for turn in range(times):
        with Running(folder, *(options if turn == 0 else [])) as running:
            stop = threading.Event()
            clients = [Client(running.url, retries=0) for _ in range(2)]
            threads = [
                threading.Thread(target=send_until, args=(client, 10 * turn + i, stop, acknowledged))
                for i, client in enumerate(clients)
            ]
            for thread in threads:
                thread.start()
            time.sleep(0.1 + rng.random() * 0.8)
            running.kill()
            stop.set()
            for thread in threads:
                thread.join()
        if turn % 5 == 4:  # and again while it starts
            with Running(folder, wait=False) as running:
                time.sleep(1 + rng.random())
                running.kill()
        with Running(folder) as running:
            status = running.client.status()
            found.append(status["recovered"] | {"log_bytes": status["log_bytes"], "sequence": status["sequence"]})
            assert status["sequence"] >= max(acknowledged.values(), default=0)
            time.sleep(0.3)  # late batches are learned
            at, state = running.client.state_hash()
            there = set(acknowledged)
            for begin in range(0, len(there), 500):
                running.client.ask(sorted(there)[begin : begin + 500])  # an unknown node would be refused
            running.kill()
        engine = replayed(folder, at)
        assert engine.state_hash() == state
        assert engine.store.arrived == len(engine.store) >= len(acknowledged)
    return found


def follow_and_compare(leader: Running, follower: Running, seconds: float) -> Json:
    """Load a service and ask it and one that follows it the same; at the same records the answers must be equal.

    Returns how many answers were compared, of how many records.
    """
    stop = threading.Event()
    ids = [f"asked-{i}" for i in range(20)]
    leader.client.send([node(id, *ids[:i][-3:], x=(i / 20, 1.0, 0.0)) for i, id in enumerate(ids)])
    answers_of: list[dict[tuple[int, int], Any]] = [{}, {}]
    failed: list[BaseException] = []

    def ask(running: Running, answers: dict[tuple[int, int], Any]) -> None:
        client = Client(running.url)
        try:
            while not stop.is_set():
                found = client.ask(ids, scores=True)
                at = found["sequence"], found["weights_sequence"]
                assert answers.setdefault(at, found["predictions"]) == found["predictions"]
        except BaseException as error:
            failed.append(error)

    follower.client.ask(ids, min_sequence=leader.client.status()["sequence"])
    threads = [threading.Thread(target=ask, args=pair) for pair in zip((leader, follower), answers_of, strict=True)]
    threads.append(threading.Thread(target=send_until, args=(leader.client, 7, stop, {})))
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed, failed
    both = answers_of[0].keys() & answers_of[1].keys()
    for at in both:
        assert answers_of[0][at] == answers_of[1][at], f"the answers at record {at} differ"
    return {"records": len(both), "answers": [len(one) for one in answers_of], "last": max(answers_of[0])[0]}


def proven(follower: Running, graph: bool = True) -> Json:
    """Let a service that follows another one compare the states of both."""
    found: Json = follower.client._call("POST", f"/v1/admin/prove?graph={str(graph).lower()}")
    assert found["equal"] and found["graph"] is graph
    return found
