"""The live service under load: rates, latencies and memory as ratios against the same work in process.

    python -m perf.live [--requests N] [--million N] [--page]

Everything is measured in one run on this machine. Questions are asked by `hey`, a load generator (Debian's package of
that name); events are sent by clients of our own, since every request has other nodes. The figures go to
docs/live/figures.json, and the table in docs/live.md is made of them; --page only writes the table.
"""

import argparse
import asyncio
import base64
import csv
import http.client
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from tests.serving.load import anonymous_bytes
from tests.serving.running import Running

from ocgl.graph import GraphStore, Labels
from ocgl.serving.replay import replayed
from ocgl.strategies import Learner, make_strategy
from ocgl.types import Json
from perf.pages import markdown_table
from perf.updates import Row

OUT, SOAK, PAGE = Path("docs/live/figures.json"), Path("docs/live/soak.json"), Path("docs/live.md")
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
    """Return the anonymous memory in MB of a process and of those that it has started."""
    return anonymous_bytes(process) / 1e6


def options(strategy: str, *more: str) -> list[str]:
    given = (f"batch_size={BATCH}", *more)
    return ["--strategy", strategy, "--features", str(WIDTH), *(part for one in given for part in ("--set", one))]


def percentiles(seconds: list[float]) -> Json:
    return {f"p{p}": 1000 * float(np.percentile(seconds, p)) for p in (50, 99)}


def measure(strategy: str, count: int, folder: Path) -> Json:
    """Measure one strategy: saturated ingestion, and questions to an idle and to a busy service."""
    offline, _ = in_process(strategy, count)
    found: Json = {"in_process": offline}
    for form in ("packed", "numbers"):
        bodies = [part.body(form == "packed") for part in parts(count + 1600 if form == "packed" else count)]
        with Running(folder / f"{strategy} {form}", *options(strategy)) as running:
            warm = count // 10
            Sender(running.url, bodies[:warm]).run()
            time.sleep(7)  # until the service has rehearsed
            found[form] = PER_REQUEST * (count - warm) / Sender(running.url, bodies[warm:count]).run()
            if form == "packed":
                found |= questions(running, bodies[count:], found[form] / PER_REQUEST / 2, folder)
            if running.stop() != 0:
                raise RuntimeError(running.said)
    return found


def questions(running: Running, bodies: list[bytes], rate: float, folder: Path) -> Json:
    """Ask an idle service, and one that takes requests at half of the saturated rate."""
    time.sleep(2)
    idle = asked(running.url, folder, 10)
    half = Sender(running.url, bodies, rate)
    half.start()
    time.sleep(1)
    busy = asked(running.url, folder, min(15.0, 0.8 * len(bodies) / rate))
    age = running.client.ask([17])["weights_seconds"]
    half.stop()
    half.join()
    return {"idle": idle, "busy": busy, "busy_requests": percentiles(half.seconds), "weights_seconds": age}


def overload(folder: Path) -> Json:
    """Offer three times the saturated rate for a while; learning is made slow, so that one process can offer that."""
    rng = np.random.default_rng(0)

    def body(number: int) -> bytes:
        ids = np.arange(number * PER_REQUEST, (number + 1) * PER_REQUEST)
        x = rng.normal(size=(PER_REQUEST, WIDTH)).astype(np.float32)
        return Part(ids, x, np.empty((2, 0), np.int64), ids[:60], rng.integers(0, CLASSES, 60)).body(True)

    bodies = [body(number) for number in range(2000)]
    with Running(folder / "overload", *options("linear", "passes=30", "queue=32")) as running:
        Sender(running.url, bodies[:20]).run()
        sender = Sender(running.url, bodies[20:120])
        saturated = 100 / sender.run()
        outcomes = asyncio.run(_offer(running.url, bodies[120:], 3 * saturated, 20.0))
        accepted = [seconds for status, seconds in outcomes if status == 200]
        refused = [seconds for status, seconds in outcomes if status == 429]
        time.sleep(3)
        begin = time.perf_counter()
        Sender(running.url, [body(5000)], clients=1).run()
        after = time.perf_counter() - begin
        nodes = running.client.status()["nodes"]
        at, state = running.client.state_hash()
        if running.stop() != 0:
            raise RuntimeError(running.said)
    return {
        "saturated": saturated,
        "offered": 3 * saturated,
        "sent": len(outcomes),
        "accepted": len(accepted),
        "refused": len(refused),
        "other": len(outcomes) - len(accepted) - len(refused),
        "accepted_ms": percentiles(accepted),
        "refused_ms": percentiles(refused),
        "after_ms": 1000 * after,
        "lost": PER_REQUEST * (len(accepted) + 121) - nodes,
        "equal_to_replay": replayed(folder / "overload", at).state_hash() == state,
    }


async def _offer(url: str, bodies: list[bytes], rate: float, seconds: float) -> list[tuple[int, float]]:
    """Send requests at a rate, whatever becomes of them; return status and seconds of each."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    headers = {"content-type": "application/json"}
    begin = time.perf_counter()
    async with httpx.AsyncClient(base_url=url, limits=limits, headers=headers, timeout=120, trust_env=False) as client:

        async def one(number: int) -> tuple[int, float]:
            await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
            start = time.perf_counter()
            answer = await client.post("/v1/events", content=bodies[number])
            return answer.status_code, time.perf_counter() - start

        return await asyncio.gather(*(one(number) for number in range(min(len(bodies), int(rate * seconds)))))


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


def million(count: int, folder: Path) -> Json:
    """Send very many nodes: the rate of each tenth, and the memory at the end against a learner with the same graph."""
    bodies = Stored(folder / "requests", (part.body(True) for part in parts(count)))
    found: Json = {}
    with Running(folder / "million", *options("ridge")) as running:
        sender = Sender(running.url, bodies)
        sender.run()
        tenths = np.array_split(np.array(sorted(sender.ends)), 10)
        begins = [sender.begin, *(float(tenth[-1]) for tenth in tenths)]
        found["rates"] = [
            PER_REQUEST * len(tenth) / (end - begin)
            for tenth, begin, end in zip(tenths, begins, begins[1:], strict=False)
        ]
        status = running.client.status()
        found |= {"nodes": status["nodes"], "events": status["events"], "records": status["sequence"]}
        found["MB"] = anonymous(running.process.pid)
        found["log_MB"] = status["log_bytes"] / 1e6
        if running.stop() != 0:
            raise RuntimeError(running.said)
        with Running(folder / "million") as again:
            found["recovered"] = again.client.status()["recovered"]
            found["MB_after_start"] = anonymous(again.process.pid)
    for name, where in (("offline_MB", "memory"), ("offline_on_disk_MB", str(folder))):
        command = [sys.executable, "-m", "perf.live", "--offline", str(count), where]
        found[name] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def offline_memory(count: int, where: str) -> float:
    """Return the anonymous memory in MB of a learner in process, with its graph in memory or on disk."""
    learner = Learner(make_strategy("ridge"), store=GraphStore(None if where == "memory" else Path(where)))
    for part in parts(count):
        learner.add(part.ids, part.x, part.edges)
        if len(part.labelled) >= BATCH:
            learner.learn(Labels(part.labelled[:BATCH], part.labels[:BATCH]))
    learner.predict([17])
    return anonymous(os.getpid())


def rows_of(figures: Json) -> list[Row]:
    """Return the table: what is wanted is that of the service's promises."""
    rows = []
    for name in ("ridge", "linear"):
        one = figures[name]
        for form, wanted, text in (
            ("packed", 3.33, "packed features"),
            ("numbers", None, "features as JSON numbers"),
        ):
            what = f"{name}: a node over HTTP, durable, learning included, {text}"
            theirs = 1e6 / one["in_process"]
            rows.append(Row(what, 1e6 / one[form], "the same in process", theirs, wanted, "us", True))
        what = f"{name}: p99 of a question while ingesting and learning at half of that rate"
        rows.append(Row(what, one["busy"]["p99"], "median, idle", one["idle"]["p50"], 10, at_most=True))
    large = figures["million"]
    what = f"anonymous memory at {large['nodes']:,} nodes"
    rows.append(Row(what, large["MB"], "a learner in process", large["offline_MB"], 1.5, "MB", True))
    what = "the same, both graphs on disk"
    rows.append(Row(what, large["MB"], "a learner in process", large["offline_on_disk_MB"], None, "MB", True))
    rates = large["rates"]
    what = f"a node among the last tenth of {large['events']:,} events"
    rows.append(Row(what, 1e6 / rates[-1], "in the second tenth", 1e6 / rates[1], 1.2, "us", True))
    return rows


def write_page(figures: Json) -> None:
    """Write the tables into docs/live.md."""
    table = markdown_table(
        ("measured", "ours", "reference", "theirs", "ratio", "wanted"), [row.cells for row in rows_of(figures)]
    )
    over = figures["overload"]
    more = [
        ("saturated rate, requests per second", f"{over['saturated']:.1f}"),
        ("offered, requests per second", f"{over['offered']:.1f}"),
        ("requests: sent, accepted, answered with 429, other",
         f"{over['sent']}, {over['accepted']}, {over['refused']}, {over['other']}"),
        ("p99 of an accepted request", f"{over['accepted_ms']['p99']:.0f} ms"),
        ("p99 of a refusal", f"{over['refused_ms']['p99']:.0f} ms"),
        ("a request three seconds later", f"{over['after_ms']:.0f} ms"),
        ("acknowledged nodes that are missing", str(over["lost"])),
    ]  # fmt: skip
    text = f"{table}\n\nOverload:\n\n{markdown_table(('three times the saturated rate', ''), more)}\n"
    page = PAGE.read_text()
    page = _marked(page, "figures", text)
    if SOAK.exists():
        page = _marked(page, "soak", _soak_table(json.loads(SOAK.read_text())))
    PAGE.write_text(page)


def _marked(page: str, name: str, text: str) -> str:
    """Replace what stands between two marks."""
    pattern = re.compile(rf"(?<=<!-- {name} -->\n).*(?=<!-- end of {name} -->)", re.DOTALL)
    return pattern.sub(lambda _: f"\n{text}\n", page)


def _soak_table(soak: Json) -> str:
    kills, kafka, fuzz, grown = soak["kills"], soak["kafka"], soak["fuzz"], soak["growth"]["rows"]
    equal = ", ".join(f"{name} {one['AP']:.2f}" for name, one in soak["equal"].items() if isinstance(one, dict))
    first, last = grown[0], grown[-1]
    failed = sum(count for status, count in fuzz["statuses"].items() if int(status) >= 500)
    sizes = f"{first['records']:,} and {last['records']:,} records"
    lines = [
        ("Amazon Computer over HTTP equals `ocgl run` in AP, AAP, matrix and weights, to the bit", equal),
        ("kill -9 under load; acknowledged events lost or doubled, states other than the replayed one",
         f"{kills['kills']} kills, {kills['lost_or_different']}"),
        ("longest recovery among them", f"{kills['most_seconds_to_recover']:.1f} s"),
        ("kills of a Kafka consumer; messages, each taken once", f"{kafka['kills']}, {kafka['messages']:,}"),
        ("strange requests by schemathesis and of our own; answers of 500 or more",
         f"{fuzz['by_schemathesis']:,} + {fuzz['own']:,}, {failed}"),
        ("memory after the second and the last fifth of these",
         f"{fuzz['memory'][1]['MB']:.0f} and {fuzz['memory'][-1]['MB']:.0f} MB"),
        (f"recovery from the log alone, {sizes}",
         f"{first['from_the_log_alone']:.1f} and {last['from_the_log_alone']:.1f} s"),
        (f"recovery from a snapshot, {sizes}", f"{first['from_a_snapshot']:.1f} and {last['from_a_snapshot']:.1f} s"),
    ]  # fmt: skip
    return markdown_table(("what", "seen"), lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--million", type=int, default=10_000, help="requests of the long part")
    parser.add_argument("--only", nargs="*", choices=("ridge", "linear", "overload", "million"))
    parser.add_argument("--offline", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--page", action="store_true", help="only write the table")
    given = parser.parse_args()
    if given.offline:
        print(offline_memory(int(given.offline[0]), given.offline[1]))
        return 0
    if shutil.which("hey") is None:
        raise SystemExit("the load generator `hey` is missing: apt-get install hey")
    found: Json = json.loads(OUT.read_text()) if OUT.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in [] if given.page else given.only or ("ridge", "linear", "overload", "million"):
            if part == "overload":
                found[part] = overload(folder)
            elif part == "million":
                found[part] = million(given.million, folder)
            else:
                found[part] = measure(part, given.requests, folder)
            print(part, json.dumps(found[part], indent=1), flush=True)
            OUT.parent.mkdir(parents=True, exist_ok=True)
            OUT.write_text(json.dumps(found, indent=1) + "\n")
    write_page(found)
    over = found["overload"]
    held = over["lost"] == over["other"] == 0 and over["refused"] > 0 and over["equal_to_replay"]
    return 0 if held and all(row.met is not False for row in rows_of(found)) else 1


if __name__ == "__main__":
    sys.exit(main())
