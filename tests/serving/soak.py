"""The long tests of the service: `make soak`.

    python -m tests.serving.soak [--kills 30] [--requests 100000] [--only PART ...] [--data FOLDER]

The parts: `equal` (Amazon Computer over HTTP against `ocgl run`), `kills`, `kafka`, `growth` (time of recovery against
the length of the log), `fuzz`. What was seen goes to docs/live/soak.json; a part that fails ends the program.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ocgl.serving.config import ServiceConfig
from ocgl.serving.events import parse
from ocgl.serving.replay import replayed
from ocgl.serving.service import Service
from ocgl.types import Json
from tests.serving.fuzzing import fuzz, schemathesis
from tests.serving.kafka_kills import take_every_message_once
from tests.serving.load import (
    RIDGE,
    anonymous_bytes,
    kill_and_compare,
    label,
    live_equals_offline,
    node,
)
from tests.serving.running import Running

OUT = Path("docs/live/soak.json")


def equal(folder: Path, given: argparse.Namespace) -> Json:
    """Amazon Computer over HTTP gives scores, matrix and weights of `ocgl run`, to the bit."""
    return {
        name: live_equals_offline("amazon-computer", name, folder / name, 20, given.data)
        for name in ("ridge", "linear", "er")
    }


def kills(folder: Path, given: argparse.Namespace) -> Json:
    """Kill -9 at random moments under load."""
    found = kill_and_compare(folder / "s", given.kills, given.seed)
    return {
        "kills": given.kills,
        "records": found[-1]["sequence"],
        "most_seconds_to_recover": max(one["seconds"] for one in found),
        "torn_tails": sum(one["torn"] is not None for one in found),
        "from_snapshots": sum(one["snapshot"] > 0 for one in found),
        "lost_or_different": 0,
    }


def kafka(folder: Path, given: argparse.Namespace) -> Json:
    """A Kafka consumer that is killed at random takes every message once."""
    return {"kills": 10, "messages": take_every_message_once(folder / "s", 2000, 10, given.seed)}


def growth(folder: Path, given: argparse.Namespace) -> Json:
    """Seconds to recover a service, with and without a snapshot at its end, against the length of its log."""
    rng = random.Random(given.seed)
    home, rows, number = folder / "s", [], 0
    config = ServiceConfig(strategy="ridge", features=16, snapshot_records=10**9)
    for _ in range(4):
        service = Service(home, config)
        service.start()
        for _ in range(2500):
            names = [f"n{number + i}" for i in range(10)]
            events = [node(one, *([f"n{rng.randrange(number)}"] if number else []), x=_row(rng)) for one in names]
            number += 10
            events += [label(one, rng.choice("abcdef")) for one in names[:6]]
            service.ingest(parse(json.dumps(events).encode(), False)).result(60)
        service.failure = "killed"  # no snapshot at the end
        service.stop()
        row: Json = {"nodes": number, "log_bytes": service.log.nbytes, "records": service.engine.sequence}
        for what in ("from_the_log_alone", "from_a_snapshot"):
            service = Service(home)
            row[what] = service.recovered["seconds"]
            service.start()
            service.stop()  # takes a snapshot
        rows.append(row)
        for path in (home / "snapshots").iterdir():
            shutil.rmtree(path)
    return {"rows": rows}


def _row(rng: random.Random) -> tuple[float, ...]:
    return tuple(rng.random() for _ in range(16))


def fuzzing(folder: Path, given: argparse.Namespace) -> Json:
    """Strange requests, by schemathesis and of our own: no 500, no hang, no leak, and a state that the log gives."""
    options = ("--set", "batch_seconds=0.2", "--set", "most_bytes=2000000", "--set", "answer_seconds=0.5")
    with Running(folder / "s", *RIDGE, *options) as running:
        running.client.send([node("a"), node("b", "a"), label("a", "x"), label("b", "y"), {"type": "learn"}])
        by_schema = schemathesis(running.url, max(10, given.requests // 120), folder)
        statuses: dict[int, int] = {}
        memory = []
        rest, parts = max(given.requests - by_schema, 0), 5
        for part in range(parts):
            for status, count in fuzz(running.url, rest // parts + parts, given.seed + part).items():
                statuses[status] = statuses.get(status, 0) + count
            arrived = running.client.status()["arrived"]
            memory.append({"MB": anonymous_bytes(running.process.pid) / 1e6, "arrived": arrived})
        assert running.client.status()["ready"]
        at, state = running.client.state_hash()
        assert running.stop() == 0
    assert replayed(folder / "s", at).state_hash() == state
    grown = memory[-1]["MB"] - memory[1]["MB"]
    assert grown < 60, memory
    return {
        "by_schemathesis": by_schema,
        "own": sum(statuses.values()),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "memory": memory,
    }


PARTS: dict[str, Callable[[Path, argparse.Namespace], Json]] = {
    "equal": equal,
    "kills": kills,
    "kafka": kafka,
    "growth": growth,
    "fuzz": fuzzing,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    given = parser.parse_args()
    found: Json = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name in given.only:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found[name] = PARTS[name](Path(folder), given)
        found[name]["seconds"] = round(time.monotonic() - begin, 1)
        print(name, json.dumps(found[name]), flush=True)
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
