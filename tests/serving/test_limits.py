"""What bounds a service: a full disk, endless requests, very many classes and outcomes, large labels, drift."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from ocgl import errors
from ocgl.serving.api import make_app
from ocgl.serving.config import ServiceConfig
from ocgl.serving.events import WrongEventError, parse
from ocgl.serving.keys import Keys
from ocgl.serving.prequential import LONGEST_WATCH, Prequential
from ocgl.serving.replay import replayed
from ocgl.serving.service import Service
from ocgl.types import Json
from tests.faults.test_disk import mounted, remount, small_disk  # noqa: F401 - a fixture
from tests.serving.load import RIDGE, anonymous_bytes, label, node
from tests.serving.running import Running


@pytest.mark.slow
def test_a_full_disk_loses_nothing_and_ends_by_itself(small_disk: Path) -> None:  # noqa: F811
    remount(small_disk, "size=3m")
    folder = small_disk / "s"
    accepted: list[str] = []
    with Running(
        folder, *RIDGE, "--set", "snapshot_records=40", "--set", "batch_seconds=0.05", "--set", "least_free=0"
    ) as running:

        def send(number: int) -> int:
            names = [f"n{number}-{i}" for i in range(50)]
            body = [node(name, *names[:i][-1:]) for i, name in enumerate(names)]
            body += [label(name, "ab"[i % 2]) for i, name in enumerate(names[:20])]
            status = httpx.post(running.url + "/v1/events", json=body, timeout=30).status_code
            if status == 200:
                accepted.extend(names)
            return status

        statuses: list[int] = []
        while len(statuses) < 1000 and sum(status != 200 for status in statuses) < 5:
            statuses.append(send(len(statuses)))
        full = [status for status in statuses if status != 200]
        assert statuses[0] == 200 and full and set(full) <= {503, 507}, set(statuses)
        assert running.process.poll() is None, running.said
        assert len(running.client.predict(accepted[:20])) == 20  # it still answers
        assert httpx.get(running.url + "/readyz").status_code == 503
        said = httpx.get(running.url + "/readyz").text
        assert "free disk space" in said or "No space left on device" in said
        remount(small_disk, "size=60m")
        running.client.wait_until_ready(20)
        assert send(2000) == 200
        time.sleep(0.3)
        at, state = running.client.state_hash()
        assert running.client.status()["nodes"] == len(accepted)
        running.kill()
    assert replayed(folder, at).state_hash() == state
    with Running(folder) as running:
        for begin in range(0, len(accepted), 5000):
            running.client.ask(accepted[begin : begin + 5000])  # a node that is not there would be refused


def front_of(running: Running) -> int:
    """Return the process that speaks HTTP."""
    process = running.process.pid
    (child,) = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(child)


def test_the_two_processes_end_together(tmp_path: Path) -> None:
    with Running(tmp_path / "s", *RIDGE) as running:
        running.client.send([node("a")])
        os.kill(front_of(running), signal.SIGKILL)
        assert running.process.wait(60) == 2 and "has ended by itself" in running.said
    with Running(tmp_path / "s") as running:
        assert running.client.status()["nodes"] == 1
        front = front_of(running)
        running.kill()
        until = time.monotonic() + 5
        while Path(f"/proc/{front}/cmdline").exists() and Path(f"/proc/{front}/cmdline").read_bytes():
            assert time.monotonic() < until
            time.sleep(0.02)


def test_a_service_that_starts_says_so() -> None:
    class Starting:
        config: ServiceConfig | None = None

        async def call(self, kind: type, *parts: Any) -> Any:
            raise AssertionError("nobody is there yet")

    async def ask() -> None:
        over = httpx.ASGITransport(make_app(Starting(), Keys(Path("nowhere")), Path("nowhere")))
        async with httpx.AsyncClient(transport=over, base_url="http://localhost") as client:
            assert (await client.get("/healthz")).text == "ok"
            said = await client.get("/readyz")
            assert said.status_code == 503 and "starting" in said.text
            refused = await client.post("/v1/events", json=[node("a")])
            assert refused.status_code == 503 and refused.headers["retry-after"] == "1"

    asyncio.run(ask())


@pytest.mark.slow
def test_a_nearly_full_disk_refuses_events_and_answers(tmp_path: Path) -> None:
    options = ServiceConfig(strategy="ridge", features=3, least_free=1 << 60)
    service = Service(tmp_path / "s", options)
    service.start()
    with pytest.raises(errors.DiskFullError, match="free disk space"):
        service.ingest(of(node("a"))).result(30)  # type: ignore[arg-type]
    assert not service.ready and "are needed" in (service.trouble or "")
    service.config = options.model_copy(update={"least_free": 0})
    service.ingest(of(node("a"))).result(30)  # type: ignore[arg-type]
    assert service.ready and len(service.ask(["a"]).result(30).labels) == 1
    service.stop()


@pytest.mark.slow
def test_endless_requests_are_cut_off(tmp_path: Path) -> None:
    with Running(tmp_path / "s", *RIDGE, "--set", "most_bytes=50000") as running:
        before = anonymous_bytes(running.process.pid)

        def send(head: bytes, more: bytes, times: int) -> bool:
            """Send a head and then the same again and again; return whether the service has hung up."""
            with socket.create_connection(("127.0.0.1", running.port), timeout=20) as connection:
                try:
                    connection.sendall(head)
                    for _ in range(times):
                        connection.sendall(more)
                except OSError:
                    return True
                return False

        post = b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        chunk = b"2000\r\n" + b"x" * 0x2000 + b"\r\n"
        assert send(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ", b"y" * 60_000, 2000)
        assert send(b"GET / HTTP/1.1\r\nhost: localhost\r\n", b"x: " + b"y" * 500 + b"\r\n", 200_000)
        assert send(b"GET /", b"y" * 60_000, 2000)
        send(post + b"transfer-encoding: chunked\r\n\r\n", chunk, 20_000)
        send(post + b"content-length: 900000000\r\n\r\n", b"x" * 60_000, 3000)
        for _ in range(50):
            send(b"\x16\x03\x01" + bytes(range(256)), b"", 0)
        assert running.client.status()["ready"]
        assert anonymous_bytes(running.process.pid) - before < 30_000_000


@pytest.mark.slow
def test_an_end_under_load_finishes_what_was_taken(tmp_path: Path) -> None:
    folder, found = tmp_path / "s", dict[int, int]()
    options = ("--strategy", "er", "--features", "3", "--set", "batch_size=2", "--shadow", "ssm-er")
    with Running(folder, *options) as running:

        def send(number: int) -> None:
            ids = [1000 * number + i for i in range(200)]
            body = [*(node(id) for id in ids), *(label(id, id % 3) for id in ids)]
            with contextlib.suppress(httpx.ConnectError):  # it does not listen any more
                found[number] = httpx.post(running.url + "/v1/events", json=body, timeout=90).status_code

        def wait() -> None:
            question = {"ids": [1], "min_sequence": 10**6}
            found[-1] = httpx.post(running.url + "/v1/predict", json=question, timeout=90).status_code

        running.client.send([node(1)])
        with ThreadPoolExecutor(12) as pool:
            work = [pool.submit(send, number) for number in range(1, 9)]
            work.append(pool.submit(wait))
            time.sleep(0.6)
            assert running.stop() == 0
            for one in work:
                one.result()
    assert set(found.values()) <= {200, 503} and list(found.values()).count(200) >= 2, found
    assert found[-1] == 503
    there = set(replayed(folder).store.ids.tolist())
    for number, status in found.items():
        if number > 0:
            assert ({1000 * number, 1000 * number + 199} <= there) == (status == 200), (number, found)


@pytest.mark.slow
def test_a_port_in_use_begins_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "ocgl", "serve", str(tmp_path / "s"), *RIDGE, "--port", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2 and "cannot listen" in ended.stderr and not (tmp_path / "s").exists()


def test_a_batch_that_cannot_be_learned_is_said_and_holds_nobody_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(tmp_path / "s", ServiceConfig(strategy="slda", features=3, batch_size=2, most_classes=2))
    service.start()
    huge = [node(i, *range(i), x=(3e38, -3e38, 3e38)) for i in range(4)]
    events = of(*huge, *(label(i, i % 2) for i in range(4)))
    with caplog.at_level("WARNING", "ocgl.serving"):
        last = service.ingest(events).result(30).sequence  # type: ignore[arg-type]
        assert service.ask([0], last).result(30).sequence >= last
    assert service.engine.failed["slda"] >= 1 and "could not be learned" in caplog.text
    service.ingest(of({"type": "remove", "id": 3})).result(30)  # type: ignore[arg-type]
    service.ingest(of(node(9), label(9, 1), {"type": "remove", "id": 9})).result(30)  # type: ignore[arg-type]
    assert len(service.engine.waiting) == 0
    service.stop()
    assert replayed(tmp_path / "s").state_hash() == service.engine.state_hash()


def of(*events: Json) -> list[object]:
    return list(parse(json.dumps(events).encode(), False))


def test_labels_beyond_32_bits_are_scored_and_classes_are_bounded(tmp_path: Path) -> None:
    large = 3_000_000_000
    service = Service(tmp_path / "s", ServiceConfig(strategy="slda", features=3, batch_size=1, most_classes=2))
    service.start()
    for i in range(6):
        service.ingest(of(node(i, x=(1.0, 0.0, 0.0)), label(i, large))).result(30)  # type: ignore[arg-type]
        service.ask([i], service.engine.sequence).result(30)
    scores = service.engine.scores["slda"]
    assert (scores.right, scores.scored) == (5, 6) and service.engine.known_label(0) == large
    service.ingest(of(label(0, 1))).result(30)  # type: ignore[arg-type]
    with pytest.raises(WrongEventError, match="at most 2 classes"):
        service.ingest(of(label(1, 2))).result(30)  # type: ignore[arg-type]
    service.stop()
    again = Service(tmp_path / "s")
    assert again.engine.state_hash() == replayed(tmp_path / "s").state_hash()
    again._close()


def outcomes(scores: Prequential, right: np.ndarray, first: int = 0) -> None:
    places = np.arange(first, first + len(right))
    scores.answered(first, np.where(right, 1, 0))
    for place in places.tolist():
        scores.score(np.array([place]), np.array([1]), place + 1, place)


def test_a_drift_is_marked_where_accuracy_falls() -> None:
    rng, scores = np.random.default_rng(0), Prequential(100)
    outcomes(scores, rng.random(2000) < 0.9)
    assert scores.drift_count == 0
    outcomes(scores, rng.random(1000) < 0.3, 2000)
    assert scores.drift_count >= 1 and all(2000 <= at < 2600 for at in scores.drifts)


def test_the_watch_for_drift_is_bounded_and_goes_on_after_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ocgl.serving.prequential.LONGEST_WATCH", 1000)
    assert LONGEST_WATCH > 1000
    rng, scores = np.random.default_rng(1), Prequential(100)
    right = rng.random(3500) < 0.8
    outcomes(scores, right[:2700])
    again = Prequential(100)
    again.load_state(scores.state())
    assert len(scores.state().arrays["outcomes"]) < 1000
    for one in (scores, again):
        outcomes(one, right[2700:], 2700)
    assert scores.state().checksum() == again.state().checksum()
    assert scores._drift.estimation == again._drift.estimation


def test_a_folder_of_a_service_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("")
    with pytest.raises((errors.OcglError, OSError)):
        Service(tmp_path / "s", ServiceConfig(strategy="ridge", features=3))
