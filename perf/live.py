"""The live service under load: rates, latencies and memory as ratios against the same work in process.

    python -m perf.live [--requests N] [--million N] [--page]

Everything is measured in one run on this machine. Questions are asked by `hey`, a load generator (Debian's package of
that name); events are sent by clients of our own, since every request has other nodes. The figures go to
docs/live/figures.json, and the table in docs/live.md is made of them; --page only writes the table.
"""

import argparse
import asyncio
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
from tests.serving.load import anonymous_bytes
from tests.serving.running import Running

from ocgl.graph import GraphStore, Labels
from ocgl.serving.replay import replayed
from ocgl.strategies import Learner, make_strategy
from ocgl.types import Json
from perf.live_load import BATCH, CLASSES, PER_REQUEST, WIDTH, Part, Sender, Stored, parts
from perf.live_page import rows_of, write_page

OUT = Path("docs/live/figures.json")


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
