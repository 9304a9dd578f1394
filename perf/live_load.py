"""Load for the live service: requests of a stream, and clients that send them."""

import base64
import http.client
import json
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ocgl.types import Json

WIDTH, CLASSES, NEIGHBORS, LABELLED, PER_REQUEST, BATCH = 128, 10, 4, 0.6, 100, 10
AHEAD = 8
"""A request has edges to nodes of requests at least this far back, which clients in parallel have delivered."""
CLIENTS = 6


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
        if packed:
            rows: list[Any] = [base64.b64encode(row.tobytes()).decode() for row in self.x]
        else:
            rows = [[float(str(value)) for value in row] for row in self.x]  # the shortest that is the same in 32 bits
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


class Sender:
    """Sends requests on several connections, each as soon as those it needs are delivered.

    Args:
        url: address of the service.
        bodies: the requests, in order.
        rate: requests per second; as fast as it goes if None.
        clients: connections.
    """

    def __init__(self, url: str, bodies: Sequence[bytes], rate: float | None = None, clients: int = CLIENTS) -> None:
        self._url, self._bodies, self._rate = url, bodies, rate
        self._done = np.zeros(len(bodies), bool)
        self._next = self._low = 0
        self._turn = threading.Condition()
        self.seconds: list[float] = []
        self.ends: list[float] = []
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
        host = self._url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=120)  # it takes little of the processor that is measured
        while True:
            with self._turn:
                number = self._next
                if number >= len(self._bodies):
                    break
                self._next += 1
                while self._low <= number - AHEAD:
                    self._turn.wait(1)
            if self._rate is not None:
                time.sleep(max(0.0, self.begin + number / self._rate - time.perf_counter()))
            begin = time.perf_counter()
            connection.request("POST", "/v1/events", self._bodies[number], {"content-type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            end = time.perf_counter()
            if answer.status != 200:
                raise RuntimeError(text.decode())
            with self._turn:
                self._done[number] = True
                while self._low < len(self._done) and self._done[self._low]:
                    self._low += 1
                self.seconds.append(end - begin)
                self.ends.append(end)
                self._turn.notify_all()
        connection.close()


class Stored(Sequence[bytes]):
    """Requests in a file, read when they are sent."""

    def __init__(self, path: Path, requests: Iterator[bytes]) -> None:
        self._path, self._places = path, [0]
        with path.open("wb") as file:
            for content in requests:
                file.write(content)
                self._places.append(self._places[-1] + len(content))
        self._file = os.open(path, os.O_RDONLY)

    def __len__(self) -> int:
        return len(self._places) - 1

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            raise TypeError("one at a time")
        begin, end = self._places[number : number + 2]
        return os.pread(self._file, end - begin, begin)
