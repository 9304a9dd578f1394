"""Strange requests: by schemathesis from the description of the API, and of our own."""

import json
import random
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from ocgl.types import Json

WEIRD: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 1e308, -1e308, 1e39, 1e-320, -0.0,
    "", " ", "\x00", "a", "é" * 600, "x" * 1025, "x" * 5000, "\u202e", "../../etc/passwd", "<script>", "%s%n",
    [], {}, [[]], [None], [1, 2], {"index": [0], "value": [1.0]}, {"index": [-1], "value": [1.0]},
    {"index": [0, 0], "value": [1, 2]}, {"index": [2**40], "value": [1]}, "AAAAAAAAAAAAAAAA", "AAAA", "!!!",
]  # fmt: skip
RAW = [
    b"", b"[", b"]", b"{", b"null", b"0", b'""', b"\xff\xfe", b"[" * 3000, b'{"a":' * 3000, b"[1e999]", b"[NaN]",
    b'[{"type":"node","type":"edge"}]', b'[{"type":"node","id":"\\ud800","x":[1,2,3]}]', b"[{}]", b"\x00" * 100,
    b'[{"type":"node","id":1e2,"x":[1,2,3]}]', b'[{"type":"learn"},{"type":"learn"}]', b"[] []", b" " * 5000,
]  # fmt: skip
TYPES = ("application/json",) * 8 + ("application/x-ndjson", "text/plain", "", "a/b;c")
KEYS = ("k", "k2", "x" * 300, "\x7f", "")
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
PATHS = (
    "/v1/events", "/v1/predict", "/v1/status", "/v1/nodes/a", "/v1/nodes/", "/v1/admin/promote", "/v1/admin/hash",
    "/metrics", "/healthz", "/readyz", "/openapi.json", "/docs", "/", "/static/uplot.css", "/static/../api.py", "/v2",
)  # fmt: skip


def _event(rng: random.Random, ids: list[str]) -> Json:
    known, other = rng.choice(ids), rng.choice(ids)
    kind = rng.choice(("node", "node", "node", "edge", "label", "label", "update", "remove", "remove_edge", "learn"))
    if kind == "node":
        return {
            "type": kind,
            "id": f"f{rng.randrange(1 << 40)}",
            "x": [rng.random() for _ in range(3)],
            "neighbors": [known],
        }
    if kind in ("edge", "remove_edge"):
        return {"type": kind, "source": known, "target": other}
    if kind == "label":
        return {"type": kind, "id": known, "label": rng.choice("abc")}
    return {"type": kind} | ({} if kind == "learn" else {"id": known}) | ({"x": [1, 2, 3]} if kind == "update" else {})


def _bent(rng: random.Random, value: Any) -> Any:
    """Return a value with one of its parts replaced by something strange."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        if rng.random() < 0.2:
            return value | {str(rng.choice(WEIRD)): rng.choice(WEIRD)}
        return (
            {k: v for k, v in value.items() if k != key}
            if rng.random() < 0.2
            else value | {key: _bent(rng, value[key])}
        )
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        return [*value[:place], _bent(rng, value[place]), *value[place + 1 :]]
    return rng.choice(WEIRD)


def _request(rng: random.Random, ids: list[str]) -> tuple[str, str, bytes, dict[str, str]]:
    path = rng.choice(PATHS) if rng.random() < 0.2 else rng.choice(("/v1/events", "/v1/events", "/v1/predict"))
    if path == "/v1/nodes/":
        path += str(rng.choice(WEIRD)).replace("\x00", "%00").replace("<", "%3C").replace(" ", "%20")[:3000]
    method = "POST" if path in ("/v1/events", "/v1/predict", "/v1/admin/promote") else "GET"
    method = rng.choice(METHODS) if rng.random() < 0.05 else method
    body: Any = [_event(rng, ids) for _ in range(rng.randrange(1, 5))]
    if path == "/v1/predict":
        body = {"ids": rng.choices(ids, k=2), "scores": rng.random() < 0.5, "min_sequence": 0}
        if rng.random() < 0.3:
            body = {"node": {"x": [1, 2, 3], "neighbors": rng.choices(ids, k=2)}, "neighborhood": True}
    for _ in range(rng.choice((0, 1, 1, 2))):
        body = _bent(rng, body)
    content = json.dumps(body).encode()
    if rng.random() < 0.1:
        content = rng.choice(RAW)
    elif rng.random() < 0.1:
        content = content[: rng.randrange(len(content))]
    elif rng.random() < 0.1:
        place = rng.randrange(len(content))
        content = content[:place] + rng.randbytes(3) + content[place + 3 :]
    headers = {
        "content-type": rng.choice(("application/json",) * 8 + ("application/x-ndjson", "text/plain", "", "a/b;c"))
    }
    if rng.random() < 0.2:
        headers["idempotency-key"] = rng.choice(("k", "k2", "x" * 300, "\x7f", "", str(rng.random())))
    if rng.random() < 0.05:
        headers[rng.choice(("authorization", "x-api-key", "accept", "range", "content-encoding"))] = "strange"
    return method, path, content, headers


def _named(content: bytes) -> list[str]:
    """Return the ids of the nodes of a request that was taken."""
    try:
        return [event["id"] for event in json.loads(content) if event["type"] == "node"]
    except ValueError:  # one event per line
        return []


def fuzz(url: str, count: int, seed: int, threads: int = 2) -> Counter[int]:
    """Send strange requests; return how often each status was answered. A 500 or a hang raises an error."""

    def run(part: int) -> Counter[int]:
        rng, ids, found = random.Random(f"{seed} {part}"), ["a"], Counter[int]()
        with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
            for _ in range(count // threads):
                ids[:] = [*ids[:1], *ids[1:][-200:]]
                method, path, content, headers = _request(rng, ids)
                answer = client.request(method, path, content=content, headers=headers)
                found[answer.status_code] += 1
                if answer.status_code == 200 and path == "/v1/events":
                    ids += _named(content)
                if answer.status_code >= 500:
                    raise AssertionError(
                        f"{answer.status_code} for {method} {path} {headers} {content[:2000]!r}: {answer.text}"
                    )
        return found

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(run, range(threads)), Counter[int]())


def schemathesis(url: str, examples: int, folder: Path, seconds: float | None = None) -> int:
    """Let schemathesis test the API by its description; return the number of requests."""
    report = folder / "schemathesis.txt"
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--max-examples", str(examples),
        "--phases", "examples,coverage,fuzzing", "--exclude-path", "/v1/stream", "--workers", "2", "--seed", "1",
        "--checks", "not_a_server_error", "--request-timeout", "20", "--no-color", "--suppress-health-check", "all",
        "--continue-on-failure",
    ]  # fmt: skip
    command += [] if seconds is None else ["--max-time", str(int(seconds))]
    with report.open("w") as out:
        ended = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, cwd=folder)
    text = report.read_text()
    assert ended.returncode == 0, text[-4000:]
    numbers = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) generated", text)]
    assert numbers, text[-2000:]
    return max(numbers)
