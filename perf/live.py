"""The live service under load: rates, latencies and memory as ratios against the same work in process.

    python -m perf.live [--nodes N] [--long N]

Everything is measured in one run on this machine. Questions are asked by `hey`, a load generator (Debian's package of
that name); events are sent by clients of our own, since every request has other nodes. The figures go to
docs/live/figures.json, and docs/live.md shows them.
"""

import argparse
import base64
import csv
import io
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from tests.serving.running import Running

from ocgl.graph import GraphStore, Labels
from ocgl.strategies import Learner, make_strategy
from ocgl.types import Json

OUT = Path("docs/live/figures.json")
WIDTH, CLASSES, NEIGHBORS, LABELLED, PER_REQUEST, BATCH = 128, 10, 4, 0.6, 100, 10
AHEAD = 8
"""A request has edges to nodes of requests at least this far back, which clients in parallel have delivered."""
CLIENTS = 4


@dataclass(frozen=True)
class Part:
    """What arrives in one request: nodes with edges, then labels of six in ten of the nodes of an earlier request."""

    ids: np.ndarray
    x: np.ndarray
    edges: np.ndarray
    labelled: np.ndarray
    labels: np.ndarray

    def body(self, packed: bool = False) -> bytes:
        """Return the request as JSON; features as numbers, or packed as base64."""
        near: dict[int, list[int]] = {}
        for node, other in self.edges.T.tolist():
            near.setdefault(node, []).append(other)
        rows = (
            [base64.b64encode(row.tobytes()).decode() for row in self.x]
            if packed
            else [[float(str(v)) for v in row] for row in self.x]
        )
        events: list[Json] = [
            {"type": "node", "id": node, "x": row, "neighbors": near.get(node, [])}
            for node, row in zip(self.ids.tolist(), rows, strict=True)
        ]
        pairs = zip(self.labelled.tolist(), self.labels.tolist(), strict=True)
        events += [{"type": "label", "id": node, "label": label} for node, label in pairs]
        return json.dumps(events).encode()


def parts(count: int, seed: int = 0) -> Iterator[Part]:
    """Return the requests of a stream: classes with means of their own, four edges per node to earlier nodes."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(CLASSES, WIDTH))
    none = np.empty(0, np.int64)
    late: deque[tuple[np.ndarray, np.ndarray]] = deque([(none, none)] * AHEAD)
    for number in range(count):
        ids = np.arange(number * PER_REQUEST, (number + 1) * PER_REQUEST)
        classes = rng.integers(0, CLASSES, PER_REQUEST)
        x = (means[classes] + 3 * rng.normal(size=(PER_REQUEST, WIDTH))).round(3).astype(np.float32)
        known = (number - AHEAD) * PER_REQUEST
        edges = np.empty((2, 0), np.int64)
        if known > 0:
            others = rng.integers(0, known, (PER_REQUEST, NEIGHBORS))
            edges = np.unique(np.stack([np.repeat(ids, NEIGHBORS), others.ravel()]), axis=1)
        yield Part(ids, x, edges, *late.popleft())
        chosen = rng.random(PER_REQUEST) < LABELLED
        late.append((ids[chosen], classes[chosen]))


def in_process(strategy: str, count: int) -> tuple[float, Learner]:
    """Return the nodes per second of the same arrivals and updates without log and HTTP."""
    learner = Learner(make_strategy(strategy), store=GraphStore())
    waiting: list[tuple[int, int]] = []
    spent = 0.0
    for number, part in enumerate(parts(count)):
        begin = time.perf_counter()
        learner.add(part.ids, part.x, part.edges)
        waiting += zip(part.labelled.tolist(), part.labels.tolist(), strict=True)
        while len(waiting) >= BATCH:
            batch, waiting = waiting[:BATCH], waiting[BATCH:]
            learner.learn(Labels(*np.array(batch).T))
        if number >= count // 10:  # compiled and warm
            spent += time.perf_counter() - begin
    return PER_REQUEST * (count - count // 10) / spent, learner


class Sender:
    """Sends requests on several connections, each as soon as those it needs are delivered.

    Args:
        url: address of the service.
        bodies: the requests, in order.
        rate: requests per second; as fast as it goes if None.
        clients: connections.
    """

    def __init__(self, url: str, bodies: list[bytes], rate: float | None = None, clients: int = CLIENTS) -> None:
        self._url, self._bodies, self._rate = url, bodies, rate
        self._done = np.zeros(len(bodies), bool)
        self._next = self._low = 0
        self._turn = threading.Condition()
        self.seconds: list[float] = []
        self.ends: list[float] = []
        self.statuses: dict[int, int] = {}
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(clients)]

    def run(self) -> float:
        """Send everything; return the seconds it took."""
        self.start()
        self.join()
        return self.ends[-1] - self.begin

    def start(self) -> None:
        self.begin = time.perf_counter()
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """Send nothing more."""
        with self._turn:
            self._next = len(self._bodies)

    def _send(self) -> None:
        headers = {"content-type": "application/json"}
        with httpx.Client(base_url=self._url, headers=headers, timeout=120, trust_env=False) as client:
            while True:
                with self._turn:
                    number = self._next
                    if number >= len(self._bodies):
                        return
                    self._next += 1
                    while self._low <= number - AHEAD:
                        self._turn.wait(1)
                if self._rate is not None:
                    time.sleep(max(0.0, self.begin + number / self._rate - time.perf_counter()))
                while True:
                    begin = time.perf_counter()
                    answer = client.post("/v1/events", content=self._bodies[number])
                    end = time.perf_counter()
                    with self._turn:
                        self.statuses[answer.status_code] = self.statuses.get(answer.status_code, 0) + 1
                    if answer.status_code != 429:
                        break
                    time.sleep(0.05)
                if answer.status_code != 200:
                    raise RuntimeError(answer.text)
                with self._turn:
                    self._done[number] = True
                    while self._low < len(self._done) and self._done[self._low]:
                        self._low += 1
                    self.seconds.append(end - begin)
                    self.ends.append(end)
                    self._turn.notify_all()


def asked(url: str, folder: Path, seconds: float, rate: int = 50) -> dict[str, float]:
    """Ask about one node again and again with `hey`; return percentiles of the latency in milliseconds."""
    body = folder / "question.json"
    body.write_text(json.dumps({"ids": [17]}))
    options = ["-z", f"{seconds:g}s", "-c", "2", "-q", str(rate // 2), "-m", "POST", "-T", "application/json"]
    out = subprocess.run(
        ["hey", *options, "-D", str(body), "-o", "csv", f"{url}/v1/predict"], capture_output=True, text=True, check=True
    ).stdout
    rows = list(csv.DictReader(io.StringIO(out)))
    if any(row["status-code"] != "200" for row in rows):
        raise RuntimeError(f"a question was not answered: {rows[:3]}")
    times = [1000 * float(row["response-time"]) for row in rows]
    return {"count": len(times), **{f"p{p}": float(np.percentile(times, p)) for p in (50, 99)}, "max": max(times)}


def anonymous(process: int) -> float:
    """Return the anonymous memory of a process in MB."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Anonymous:")) / 1000


def options(strategy: str) -> tuple[str, ...]:
    return ("--strategy", strategy, "--features", str(WIDTH), "--set", f"batch_size={BATCH}")


def measure(strategy: str, count: int, folder: Path, packed: bool = True) -> Json:
    """Measure one strategy: saturated ingestion, and questions to an idle and to a busy service."""
    offline, _ = in_process(strategy, count)
    bodies = [part.body(packed) for part in parts(2 * count)]
    found: Json = {"strategy": strategy, "requests": count, "in_process": offline}
    with Running(folder / strategy, *options(strategy)) as running:
        warm = count // 10
        Sender(running.url, bodies[:warm]).run()
        # ids go on where the warm-up ended
        sender = Sender(running.url, bodies[warm:count])
        found["live"] = PER_REQUEST * (count - warm) / sender.run()
        found["statuses"] = sender.statuses
        time.sleep(2)
        found["idle"] = asked(running.url, folder, 10)
        rate = found["live"] / PER_REQUEST / 2
        half = Sender(running.url, bodies[count:], rate)
        half.start()
        time.sleep(1)
        found["busy"] = asked(running.url, folder, min(15.0, 0.8 * count / rate))
        half.stop()
        half.join()
        found["busy_ingest_ms"] = {f"p{p}": 1000 * float(np.percentile(half.seconds, p)) for p in (50, 99)}
        found["status"] = {
            k: v for k, v in running.client.status().items() if k in ("milliseconds", "nodes", "batches")
        }
        assert running.stop() == 0
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=500)
    given = parser.parse_args()
    if shutil.which("hey") is None:
        raise SystemExit("the load generator `hey` is missing: apt-get install hey")
    with tempfile.TemporaryDirectory() as name:
        for strategy in ("ridge", "linear"):
            print(json.dumps(measure(strategy, given.requests, Path(name)), indent=1), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
