"""Kills a process that writes a durable store, or saves a learner, at random moments, and looks at what is there.

    python -m tests.graph.durable_kills store|learner FOLDER TIMES SEED

A warm process forks the writers. A writer repeats a fixed history; it tells each flush (or save) that has returned
over a pipe. After the kill, everything up to the last one that was told must be there, and nothing half.
"""

import os
import random
import select
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from ocgl import GraphStore, Learner, NeighborSampling
from ocgl.graph.durable import DurableStore
from ocgl.strategies import make_strategy

WIDTH, FLUSH_EVERY, LONGEST = 16, 5, 1000


def act(store: GraphStore | Learner, number: int) -> None:
    """Make change `number` of the history."""
    rng = np.random.default_rng(number)
    held = store.store if isinstance(store, Learner) else store
    new = [f"n{number}-{i}" for i in range(4)]
    there = held.ids.tolist()
    store.add(new, rng.normal(size=(4, WIDTH)), [new[:1], [there[number % len(there)]]] if there else ((), ()))
    if number % 3 == 0 and there:
        store.add_edges([[new[1]], [there[0]]])
        store.update(new[2:], rng.normal(size=(2, WIDTH)))
    if number % 7 == 6:
        store.remove([there[number % len(there)]])
    if isinstance(store, Learner):
        store.learn(new[:3], [f"class {number % 3}"] * 3)


def fingerprint(store: GraphStore) -> tuple[object, ...]:
    """Return what the graph is, to the bit."""
    if not len(store):
        return ()
    found = store.sample(store.ids[:50], NeighborSampling(2, 3), 7)
    edges = [store.neighbors(id).tolist() for id in store.ids.tolist()[-40:]]
    return store.ids.tolist(), store.edges, edges, found.nodes.tolist(), found.aggregated.tobytes()


def write_store(folder: Path, told: int) -> None:
    """Write and flush until killed."""
    with GraphStore.open(folder) as store:
        for number in range(LONGEST):
            act(store, number)
            if number % FLUSH_EVERY == FLUSH_EVERY - 1:
                store.flush()
                os.write(told, b"f")
            if number % 37 == 36:
                store.compact()


def read_store(folder: Path) -> tuple[int, tuple[object, ...]]:
    """Return how many changes are there, and what the graph is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with GraphStore.open(folder) as store:
            latest = store.ids.tolist()[-1] if len(store) else "n-1-0"
            return int(latest.split("-")[0][1:] or -1) + 1 if len(store) else 0, fingerprint(store)


def write_learner(folder: Path, told: int) -> None:
    """Learn and save until killed; the graph lies in the folder, or is only saved there, by the folder's name."""
    store = GraphStore.open(folder / "graph") if folder.name.endswith("own") else None
    learner = Learner(make_strategy("ridge", revisit=2, buffer_size=20), store=store, batch_size=5)
    for number in range(LONGEST):
        act(learner, number)
        if number % FLUSH_EVERY == FLUSH_EVERY - 1:
            learner.save(folder)
            os.write(told, b"f")


def read_learner(folder: Path) -> tuple[int, tuple[object, ...]]:
    """Return how many changes the saved learner has seen, and what it is."""
    if not (folder / "learner.json").exists():
        return 0, ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = Learner.load(folder)
    latest = learner.store.ids.tolist()[-1]
    found = (
        int(latest.split("-")[0][1:]) + 1,
        (*fingerprint(learner.store), learner.state().checksum(), learner.waiting),
    )
    if isinstance(learner.store, DurableStore):
        learner.store.close()
    return found


def expected(kind: str, count: int) -> tuple[object, ...]:
    """Return what is there after some changes without any kill."""
    if kind == "store":
        store = GraphStore()
        for number in range(count):
            act(store, number)
        return fingerprint(store)
    if not count:
        return ()
    learner = Learner(make_strategy("ridge", revisit=2, buffer_size=20), batch_size=5)
    for number in range(count):
        act(learner, number)
    return (*fingerprint(learner.store), learner.state().checksum(), learner.waiting)


def kill_at(moment: float, write: Callable[[Path, int], None], folder: Path) -> int:
    """Fork a writer, kill it some seconds after its first flush, and return how many flushes it has told."""
    read, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            write(folder, told)
        finally:
            os._exit(1)
    os.close(told)
    select.select([read], [], [], 60)
    time.sleep(moment)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    flushes = 0
    while data := os.read(read, 1 << 16):
        flushes += len(data)
    os.close(read)
    return flushes


def main(kind: str, base: Path, times: int, seed: int) -> None:
    threadpool_limits(1)
    write, read = (write_store, read_store) if kind == "store" else (write_learner, read_learner)
    expected(kind, 12)  # compiles the kernels before the first fork
    source = random.Random(seed)
    for number in range(times):
        folder = base / f"{number}{'-own' if number % 2 else ''}"
        folder.mkdir()
        flushes = kill_at(source.random() ** 2 * 0.4, write, folder)
        count, found = read(folder)
        assert count % FLUSH_EVERY == 0 or kind == "store", f"half a save: {count} changes"
        assert flushes * FLUSH_EVERY <= count <= (flushes + 1) * FLUSH_EVERY + 1, f"{count} changes, {flushes} flushes"
        assert found == expected(kind, count), f"after {count} changes another {kind} is there"
        again, same = read(folder)
        assert (again, same) == (count, found), "a second look finds something else"
        shutil.rmtree(folder)
        print(flushes, count)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
