"""A real service over HTTP: it equals a run, loses nothing, takes nothing twice, forgets, and lets nobody in."""

import json
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from ocgl import class_stream, errors, load_dataset
from ocgl.experiments.config import configure
from ocgl.experiments.experiment import Experiment
from ocgl.serving.backup import backup
from ocgl.serving.client import Client, RefusedError
from ocgl.serving.config import ServiceConfig
from ocgl.serving.engine import Accepted
from ocgl.serving.events import WrongEventError, parse
from ocgl.serving.keys import Keys
from ocgl.serving.log import Log, read_log, segments
from ocgl.serving.play import events_of, play
from ocgl.serving.rehearsal import rehearse
from ocgl.serving.replay import replayed, write_without
from ocgl.serving.service import Service
from ocgl.strategies import find, make_strategy, names
from ocgl.types import Json
from tests.serving.fuzzing import fuzz, schemathesis
from tests.serving.load import (
    RIDGE,
    kill_and_compare,
    label,
    live_equals_offline,
    node,
    send_until,
)
from tests.serving.running import Running

pytestmark = pytest.mark.slow
JSON = {"content-type": "application/json"}


def wait_for(check: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "this takes too long"
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["ridge", "linear", "er"])
def test_live_equals_offline(name: str, tmp_path: Path) -> None:
    live_equals_offline("digits", name, tmp_path / "s", 10, batch_size=20)


def test_live_equals_offline_on_real_data(data_root: Path, tmp_path: Path) -> None:
    live_equals_offline("amazon-computer", "er", tmp_path / "s", 500, data_root)


def test_kills_under_load_lose_nothing(tmp_path: Path) -> None:
    assert len(kill_and_compare(tmp_path / "s", 1, 1)) == 1


def test_strange_requests_are_refused_without_a_500(tmp_path: Path) -> None:
    with Running(tmp_path / "s", *RIDGE, "--set", "most_bytes=100000", "--set", "answer_seconds=0.5") as running:
        running.client.send([node("a"), node("b", "a"), label("a", "x"), label("b", "y"), {"type": "learn"}])
        statuses = fuzz(running.url, 1600, 5)
        assert statuses[200] > 100 and statuses[422] > 300 and statuses[404] > 10
        assert schemathesis(running.url, 4, tmp_path) > 50
        at, state = running.client.state_hash()
        assert running.stop() == 0
    assert replayed(tmp_path / "s", at).state_hash() == state


def fed(folder: Path, strategy: str = "ridge", count: int = 40) -> None:
    """Make a service that has seen some nodes and labels, has two snapshots, and ends without a last one."""
    config = ServiceConfig(strategy=strategy, features=3, batch_size=4, batch_seconds=0.0)
    service = Service(folder, config)
    service.start()
    for i in range(count):
        events = [node(f"n{i}", *([f"n{i - 1}"] if i else []), x=(i % 2, 1 - i % 2, 0.5))]
        body = json.dumps([*events, label(f"n{i}", "odd" if i % 2 else "even")]).encode()
        service.ingest(parse(body, False)).result(30)
        if i in (15, 30):
            service.snapshot().result(30)
    service.failure = "killed"  # no snapshot at the end
    service.stop()


def test_a_damaged_snapshot_falls_back_and_a_damaged_record_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    fed(folder)
    state = replayed(folder).state_hash()

    def recovered() -> Service:
        service = Service(folder)
        service._close()
        return service

    first, second = sorted((folder / "snapshots").iterdir())
    whole = recovered()
    assert whole.engine.state_hash() == state and whole.recovered["snapshot"] == int(second.name)
    for damaged, left in ((second, int(first.name)), (first, 0)):
        path = damaged / "state.safetensors"
        path.write_bytes(path.read_bytes()[:-9])
        service = recovered()
        assert service.recovered["snapshot"] == left and service.engine.state_hash() == state
        assert any("state.safetensors" in text for text in service.recovered["unusable_snapshots"])
    (log,) = segments(folder / "log")
    content = log.read_bytes()
    log.write_bytes(content + b"torn")
    assert str(log) in recovered().recovered["torn"]
    log.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(errors.DamagedFileError, match=rf"{log.name}.*byte"):
        recovered()
    log.write_bytes(content[: len(content) // 4])
    with pytest.raises(errors.DamagedFileError, match="acknowledged records are missing"):
        recovered()


def records_in(folder: Path) -> list[Json]:
    """Return the requests and batches of a log as plain values; when weights were solved for is left out."""
    found = [msgspec.msgpack.decode(payload) for _, payload in read_log(folder / "log")]
    return [record for record in found if record["kind"] in ("events", "batch")]


def naively_stripped(records: list[Json], ids: set[str]) -> list[Json]:
    """Strip ids from records, written without the code under test."""
    found = []
    for record in records:
        if record["kind"] == "batch":
            record = record | {"ids": [id for id in record["ids"] if id not in ids]}
            found += [record] if record["ids"] else []
            continue
        events = []
        for event in record["events"]:
            if ids & {event.get("id"), event.get("source"), event.get("target")}:
                continue
            if "neighbors" in event:
                event = event | {"neighbors": [other for other in event["neighbors"] if other not in ids]}
            events.append(event)
        found += [record | {"events": events}] if events else []
    return found


def test_forgetting_equals_never_having_seen(tmp_path: Path) -> None:
    for name in ("ridge", "linear", "er"):
        folder, without = (tmp_path / f"{name}-{what}" for what in ("s", "without"))
        fed(folder, name)
        write_without(folder, {"n7", "n8"}, without)
        assert records_in(without) == naively_stripped(records_in(folder), {"n7", "n8"})
        stripped = replayed(without)
        assert "n7" not in stripped.store.ids.tolist() and len(stripped.store) == 38
        assert b"n7" not in b"".join(path.read_bytes() for path in segments(without / "log"))
        service = Service(without)
        assert service.engine.state_hash() == stripped.state_hash()
        service._close()


def test_a_backup_under_load_is_the_service_of_a_moment(tmp_path: Path) -> None:
    folder, copy = tmp_path / "s", tmp_path / "copy"
    with Running(folder, *RIDGE, "--set", "batch_seconds=0.1") as running:
        stop, acknowledged = threading.Event(), dict[str, int]()
        thread = threading.Thread(target=send_until, args=(Client(running.url, retries=0), 1, stop, acknowledged))
        thread.start()
        wait_for(lambda: len(acknowledged) > 20)
        before = dict(acknowledged)
        last = backup(folder, copy)
        stop.set()
        thread.join()
        running.kill()
    assert before and last >= max(before.values())
    service = Service(copy)
    assert service.engine.sequence == last and service.engine.state_hash() == replayed(folder, last).state_hash()
    assert set(before) <= set(service.engine.store.ids.tolist())
    service._close()
    with pytest.raises(errors.ConfigError, match="is not empty"):
        backup(folder, copy)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Running(folder, *RIDGE) as running:
        sequence = running.client.send([node("a"), node("b", "a")])
        with pytest.raises(errors.ServiceError), Running(folder, wait=False) as second:
            second.process.wait(60)
            assert "is running already" in second.said
            raise errors.ServiceError
        with pytest.raises(errors.ServiceError, match="is running already"):
            Service(folder)
        assert running.client.send([node("c")]) > sequence and running.client.status()["nodes"] == 3
        running.kill()
    assert len(replayed(folder).store) == 3


HARD: list[list[Json]] = [
    [{"type": "remove", "id": "c"}, node("c"), {"type": "remove_edge", "source": "a", "target": "c"}],
    [node("d", "a"), {"type": "remove", "id": "d"}, node("d"), {"type": "remove_edge", "source": "a", "target": "d"}],
    [{"type": "remove", "id": "c"}, {"type": "edge", "source": "a", "target": "c"}],
    [{"type": "remove", "id": "c"}, {"type": "update", "id": "c", "x": [1, 2, 3]}],
    [{"type": "remove", "id": "c"}, label("c", "x")],
    [{"type": "remove_edge", "source": "a", "target": "c"}, {"type": "remove_edge", "source": "c", "target": "a"}],
]


def test_combinations_in_one_request_are_refused_as_a_whole(tmp_path: Path) -> None:
    service = Service(tmp_path / "s", ServiceConfig(strategy="ridge", features=3, batch_size=2))
    service.start()

    def send(events: list[Json]) -> Any:
        return service.ingest(parse(json.dumps(events).encode(), False)).result(30)

    send([node("a"), node("c", "a"), label("a", "x")])
    before = service.inspect(lambda engine: engine.state_hash()).result(30)
    for events in HARD:
        with pytest.raises(WrongEventError):
            send(events)
        assert service.inspect(lambda engine: engine.state_hash()).result(30) == before
    again = [{"type": "remove", "id": "c"}, node("c", "a"), {"type": "remove_edge", "source": "a", "target": "c"}]
    send(again)
    huge = [node(f"h{i}", *(f"h{j}" for j in range(i)), x=(3.4e38,) * 3) for i in range(6)]
    send([*huge, *(label(f"h{i}", "y" if i % 2 else "x") for i in range(6)), {"type": "learn"}])
    send([node("i", "h5", "h4", x=(3.4e38,) * 3)])  # what overflows is answered with no class
    for ids in ([10**20], ["zz"], [-1]):
        with pytest.raises(errors.UnknownNodeError):
            service.ask(ids).result(30)  # type: ignore[arg-type]
    assert service.ready
    service.stop()
    state = service.engine.state_hash()
    assert replayed(tmp_path / "s").state_hash() == state


def test_a_record_that_fails_is_not_met_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "s"
    service = Service(folder, ServiceConfig(strategy="ridge", features=3))
    service.start()
    service.ingest(parse(json.dumps([node("a")]).encode(), False)).result(30)

    def fail(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(service.engine, "_take", fail)
    with pytest.raises(errors.ServiceError, match="could not be applied"):
        service.ingest(parse(json.dumps([node("b")]).encode(), False)).result(30)
    wait_for(lambda: not service.ready)
    service.stop()
    again = Service(folder)
    assert again.engine.store.ids.tolist() == ["a"] and replayed(folder).state_hash() == again.engine.state_hash()
    again._close()


def test_a_full_disk_after_a_request_is_said_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "s"
    service = Service(folder, ServiceConfig(strategy="ridge", features=3, batch_size=1))
    service.start()
    append, full = service.log.append, [True]

    def some(payload: bytes) -> int:
        if full[0] and b"batch" in payload:
            raise errors.DiskFullError("no room; free disk space")
        return append(payload)

    monkeypatch.setattr(service.log, "append", some)
    events = [node("a"), label("a", "x")]
    assert service.ingest(parse(json.dumps(events).encode(), False)).result(30).accepted == 2
    wait_for(lambda: not service.ready)
    assert "free disk space" in (service.trouble or "") and service.engine.batches == 0
    full[0] = False
    wait_for(lambda: service.ready and service.engine.batches == 1)
    service.stop()
    assert replayed(folder).state_hash() == service.engine.state_hash()


def test_a_batch_that_was_closed_is_learned_after_a_crash(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    service = Service(folder, ServiceConfig(strategy="linear", features=3, batch_seconds=0.0))
    service.start()
    events = [node("a"), node("b"), label("a", "x"), label("b", "y"), {"type": "learn"}]
    service.ingest(parse(json.dumps(events).encode(), False), "k1").result(30)
    service.inspect(lambda engine: None).result(30)
    service.failure = "killed"
    service.stop()
    log = Log(folder / "log")
    assert log.sequence == 3  # begin, the request, the batch
    log.undo()
    log.close()
    again = Service(folder)
    again.start()
    assert again.ingest(parse(json.dumps(events).encode(), False), "k1").result(30).sequence == 2
    assert again.ask(["a"], 2).result(30).labels in (["x"], ["y"]) and again.engine.batches == 1
    again.stop()


def test_what_the_state_depends_on_cannot_be_edited(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    fed(folder)
    config = (folder / "config.toml").read_text()
    for line, other in (("features = 3", "features = 4"), ("seed = 0", "seed = 1"), ("window = 1000", "window = 9"),
                        ('strategy = "ridge"', 'strategy = "slda"'), ("shadows = []", 'shadows = ["er"]')):  # fmt: skip
        assert line in config
        (folder / "config.toml").write_text(config.replace(line, other))
        with pytest.raises(errors.ConfigError, match=f"begun with other values of {line.split()[0]}"):
            Service(folder)
        assert len(list((folder / "snapshots").iterdir())) == 2
    (folder / "config.toml").write_text(config.replace("batch_size = 4", "batch_size = 7"))
    Service(folder)._close()


def test_a_service_that_cannot_be_begins_nothing(tmp_path: Path) -> None:
    for wrong in ({"strategy": "rigde"}, {"strategy": "joint"}, {"strategy": "er", "hyperparameters": {"lr": -1.0}}):
        with pytest.raises(errors.ConfigError):
            Service(tmp_path / "s", ServiceConfig(features=3, **wrong))
        assert not (tmp_path / "s").exists()


def test_forgetting_keeps_what_was_taken(tmp_path: Path) -> None:
    folder, without = tmp_path / "s", tmp_path / "w"
    service = Service(folder, ServiceConfig(strategy="ridge", features=3))
    service.start()
    service.ingest(parse(json.dumps([node("a")]).encode(), False), "k1", ("t", 0, 6)).result(30)
    service.ingest(parse(json.dumps([node("b")]).encode(), False)).result(30)
    service.stop()
    Keys(folder).add("mine", ["admin"])
    write_without(folder, {"a"}, without)
    engine = replayed(without)
    assert engine.offsets == {"t/0": 6} and "k1" in engine.accepted and engine.store.ids.tolist() == ["b"]
    assert len(Keys(without)) == 1
    with pytest.raises(errors.ConfigError, match="does not know 'zz'"):
        write_without(folder, {"zz"}, tmp_path / "x")


@pytest.mark.parametrize("name", [name for name in names() if not find(name).offline])
def test_a_service_is_rehearsed_with_every_strategy(name: str) -> None:
    rehearse(ServiceConfig(strategy=name, features=3, most_classes=1, most_events=1))
    rehearse(ServiceConfig(strategy=name, features=3, sparse=True), saved=True)


def test_a_question_does_not_wait_for_a_solve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(tmp_path / "s", ServiceConfig(strategy="ridge", features=3, batch_size=2))
    service.start()

    def send(events: list[Json]) -> Accepted:
        return service.ingest(parse(json.dumps(events).encode(), False)).result(30)

    first = send([node("a"), node("b"), label("a", "x"), label("b", "y")]).sequence
    service.ask(["a"], first).result(30)
    strategy, go = service.engine.learners["ridge"].strategy, threading.Event()
    solve = strategy.solve  # type: ignore[attr-defined]
    monkeypatch.setattr(strategy, "solve", lambda moments: go.wait(60) and solve(moments))
    last = send([node("c"), node("d"), label("c", "x"), label("d", "y")]).sequence
    waiting = service.ask(["a"], last)
    for _ in range(20):  # the solver stands still; whoever waits for it, nobody else does
        answer = service.ask(["a"]).result(30)
        assert answer.weights_sequence < last and answer.weights_seconds > 0 and answer.sequence >= last
    assert not waiting.done()
    go.set()
    assert waiting.result(30).weights_sequence >= last
    service.stop()


def test_exactly_once(tmp_path: Path) -> None:
    with Running(tmp_path / "s", *RIDGE) as running:
        client = running.client
        requests = [([node(f"n{i}"), label(f"n{i}", i % 2)], f"key {i}") for i in range(30)]
        repeated = requests * 4
        random.Random(0).shuffle(repeated)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda one: (one[1], Client(running.url).send(*one)), repeated))
        assert len({tuple(pair) for pair in found}) == 30
        assert client.status()["nodes"] == 30
        with pytest.raises(RefusedError, match="was used for another request"):
            client.send([node("other")], "key 3")
        running.kill()
    with Running(tmp_path / "s") as running:
        assert running.client.send(*requests[3]) == dict(found)["key 3"]
        assert running.client.status()["nodes"] == 30


WRONG: dict[str, tuple[Any, str]] = {
    "unknown neighbour": ([node("b", "zz")], "'zz' is not there"),
    "there already": ([node("a")], "is there already"),
    "twice in one request": ([node("b"), node("b")], "is there already"),
    "self loop": ([node("b", "b")], "edge to itself"),
    "another kind of id": ([node(3)], "ids of this service are text"),
    "too few features": ([node("b", x=(1.0,))], "x must have 3 features"),
    "label of nobody": ([label("zz", "x")], "'zz' is not there"),
    "numbers beside names": ([label("a", 3)], "labels of this service are text"),
    "no such edge": ([{"type": "remove_edge", "source": "a", "target": "c"}], "there is no edge"),
    "learn in the middle": ([{"type": "learn"}, node("b")], "must be the last"),
    "unknown type": ([{"type": "explode"}], "explode"),
    "unknown field": ([node("b") | {"y": 1}], "y"),
    "no events": ([], "at least one event"),
    "candidates": ([label("a", "x") | {"candidates": ["x"]}], "candidates are not supported"),
    "too large for 32 bits": ([node("b", x=(1e39, 0.0, 0.0))], "too large"),
}


def test_wrong_requests_change_nothing(tmp_path: Path) -> None:
    with Running(tmp_path / "s", *RIDGE) as running:
        client = running.client
        client.send([node("a"), node("c"), label("a", "x")])
        before = client.state_hash()
        for case, (events, text) in WRONG.items():
            good = [node("fresh")] if events else []
            with pytest.raises(RefusedError) as refused:
                client.send([*good, *events] if case != "learn in the middle" else events)
            assert refused.value.status == 422 and text in str(refused.value), case
        lines = b'{"type":"node","id":"d","x":[1,2,3]}\n{"type":"node","id":"e","x":[1,2]}\n'
        answer = httpx.post(running.url + "/v1/events", content=lines, headers={"content-type": "application/x-ndjson"})
        assert answer.status_code == 422 and answer.json()["line"] == 2
        answer = httpx.post(running.url + "/v1/events", json=[node("d"), {"type": "nod"}])
        assert answer.status_code == 422 and answer.json()["line"] == 2
        assert answer.headers["content-type"] == "application/problem+json"
        for what in ({"id": 2**64}, {"neighbors": [2**64]}, {"x": {"index": [2**64], "value": [1.0]}}):
            answer = httpx.post(running.url + "/v1/events", json=[node("d") | what], headers={"idempotency-key": "k"})
            assert answer.status_code == 422, what
        for body in (b"", b"[", b"[" * 100_000, b"null", b"\xff", b'[{"type":"node","id":"q","x":[NaN,1,1]}]'):
            answer = httpx.post(running.url + "/v1/events", content=body, headers={"content-type": "application/json"})
            assert answer.status_code == 422, body[:20]
        assert client.state_hash() == before
        with pytest.raises(RefusedError, match="zz"):
            client.predict(["zz"])
        with pytest.raises(RefusedError, match="give either ids or node"):
            client._call("POST", "/v1/predict", json={})


def test_all_kinds_of_events(tmp_path: Path) -> None:
    with Running(tmp_path / "s", *RIDGE, "--set", "batch_size=2") as running:
        client = running.client
        client.send([node("a"), node("b", "a", x=(0, 1, 0)), node("c")])
        client.send([{"type": "edge", "source": "c", "target": "a"}, {"type": "update", "id": "c", "x": [0, 0, 1]}])
        client.send([{"type": "remove_edge", "source": "b", "target": "a"}])
        sparse = {"type": "node", "id": "d", "x": {"index": [1], "value": [2.0]}, "neighbors": ["c"]}
        sequence = client.send([sparse, label("a", "x"), label("b", "y"), {"type": "learn"}])
        answer = client.ask(["a", "b", "a"], sequence, scores=True)
        assert [one["label"] for one in answer["predictions"]] == ["x", "y", "x"]
        assert answer["weights_sequence"] >= sequence and answer["cost"]["nodes"] <= answer["bound"]["nodes"]
        assert set(answer["predictions"][0]["scores"]) == {"x", "y"}
        assert client.ask_new([1.0, 0.0, 0.0], ["a"])["predictions"] == [{"label": "x"}]
        assert client.node("c")["degree"] == 2 and client.node("a")["label"] == "x"
        client.send([{"type": "remove", "id": "c"}])
        with pytest.raises(RefusedError) as gone:
            client.node("c")
        assert gone.value.status == 404
        metrics = httpx.get(running.url + "/metrics").text
        assert "ocgl_nodes 3.0" in metrics and 'ocgl_scored_answers_total{strategy="ridge"} 2.0' in metrics
        assert 'ocgl_request_seconds_count{route="/v1/predict",status="200"} 2.0' in metrics
        value = {
            line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in metrics.splitlines() if line[0] != "#"
        }
        for what in ("update", "answer"):
            for of in ("nodes", "edges", "bytes"):
                labels = f'{{of="{of}",what="{what}"}}'
                assert 0 <= value[f"ocgl_cost{labels}"] <= value[f"ocgl_cost_bound{labels}"]
        schema = httpx.get(running.url + "/openapi.json").json()
        assert {"/v1/events", "/v1/predict", "/v1/status"} <= set(schema["paths"])
        assert running.stop() == 0


def test_shadows_are_scored_and_promoted(tmp_path: Path) -> None:
    stream = class_stream(load_dataset("digits"), batch_size=50)
    with Running(tmp_path / "s", "--strategy", "linear", "--features", "64", "--shadow", "slda") as running:
        play(stream, running.client, score=False)
        status = running.client.status()
        assert status["accuracy"]["slda"]["scored"] == status["accuracy"]["linear"]["scored"] > 900
        assert status["accuracy"]["slda"]["accuracy"] > 0.3 and status["strategy"] == "linear"
        running.client.promote("slda")
        assert running.client.status()["strategy"] == "slda"
        with pytest.raises(RefusedError, match="no strategy of this service"):
            running.client.promote("er")
        running.kill()
    with Running(tmp_path / "s") as running:
        assert running.client.status()["strategy"] == "slda"
        with httpx.stream("GET", running.url + "/v1/stream") as stream_of_status:
            next(stream_of_status.iter_lines())
            assert running.stop() == 0  # an open dashboard does not hold it up


def test_nobody_gets_in(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    keys = Keys(folder)
    made = {scope: keys.add(scope, [scope]) for scope in ("ingest", "predict", "admin")}
    assert not any(key in (folder / "keys.json").read_text() for key in made.values())
    with Running(folder, *RIDGE, key=made["admin"]) as running:
        events, question = [node("a")], {"ids": ["a"]}
        wanted = {
            ("ingest", "/v1/events"): 200, ("predict", "/v1/events"): 403, ("ingest", "/v1/predict"): 403,
            ("predict", "/v1/predict"): 200, ("predict", "/v1/admin/snapshot"): 403,
            ("admin", "/v1/admin/snapshot"): 200,
        }  # fmt: skip
        for (scope, path), status in wanted.items():
            body: Any = events if path == "/v1/events" else question
            answer = httpx.post(running.url + path, json=body, headers={"x-api-key": made[scope]})
            assert answer.status_code == status, (scope, path, answer.text)
        for headers in ({}, {"x-api-key": "wrong"}, {"authorization": "Basic abc"}, {"authorization": "Bearer x"}):
            for path in ("/v1/status", "/v1/stream", "/metrics", "/docs", "/openapi.json"):
                assert httpx.get(running.url + path, headers=headers).status_code == 401, path
        assert httpx.get(running.url + "/healthz").text == "ok"
        keys.remove("predict")
        assert httpx.get(running.url + "/v1/status", headers={"x-api-key": made["predict"]}).status_code == 401
        (folder / "keys.json").unlink()
        assert httpx.get(running.url + "/v1/status", headers={"x-api-key": made["admin"]}).status_code == 401
        (folder / "keys.json").write_text("{}")
        assert httpx.get(running.url + "/v1/status", headers={"x-api-key": made["admin"]}).status_code == 503
    bare = tmp_path / "bare"
    with pytest.raises(errors.ServiceError), Running(bare, *RIDGE, "--host", "0.0.0.0", wait=False) as running:
        running.process.wait(60)
        assert "loopback address only" in running.said
        raise errors.ServiceError


def test_requests_are_bounded(tmp_path: Path) -> None:
    with Running(tmp_path / "s", *RIDGE, "--set", "most_bytes=20000", "--set", "most_events=50") as running:

        def post(**options: Any) -> int:
            return httpx.post(running.url + "/v1/events", **options).status_code

        assert post(json=[node(f"n{i}") for i in range(51)]) == 422
        assert post(content=b"x" * 30_000, headers={"content-type": "application/json"}) == 413
        assert post(content=(b"x" * 1000 for _ in range(50)), headers={"content-type": "application/json"}) == 413
        assert post(content=b"[]", headers={"content-type": "text/plain"}) == 415
        for host in ("evil.example", "evil]", "[::1]evil", "localhost.evil", ""):
            assert httpx.get(running.url + "/v1/status", headers={"host": host}).status_code in (400, 421), host
        assert post(content=b'[{"type":"node","id":"\xff","x":[1,2,3]}]', headers=JSON) == 422
        huge = httpx.post(running.url + "/v1/events", json=[node("a"), node(10**20)])
        assert huge.status_code == 422 and huge.json()["line"] == 2
        with pytest.raises(errors.ConfigError, match="cannot be sent"):
            running.client.send([{"type": "node", "id": "a", "x": object()}])
        big = httpx.post(running.url + "/v1/predict", json={"ids": [10**20]})
        assert big.status_code == 404 and running.client.status()["ready"]
        for path in ("/v1/nodes/", "/v1/nodes/" + "x" * 2000, "/v1/nodes/%2e%2e%2fx", "/nothing"):
            answer = httpx.get(running.url + path)
            assert answer.status_code == 404 and answer.headers["content-type"] == "application/problem+json", path
        assert post(json=[node("a")], headers={"idempotency-key": "x" * 300}) == 400
        assert running.client.status()["nodes"] == 0


def test_a_burst_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    with Running(tmp_path / "s", *RIDGE, "--set", "queue=2") as running:

        def send(i: int) -> int:
            body = json.dumps([node(f"{i}-{j}") for j in range(200)])
            headers = {"content-type": "application/json"}
            return httpx.post(running.url + "/v1/events", content=body, headers=headers, timeout=30).status_code

        with ThreadPoolExecutor(24) as pool:
            codes = list(pool.map(send, range(96)))
        assert set(codes) <= {200, 429} and codes.count(200) > 0
        assert running.client.status()["nodes"] == 200 * codes.count(200)


def test_play_sends_changes_too(tmp_path: Path) -> None:
    stream = class_stream(load_dataset("sbm:nodes=200,edges=700,classes=4,width=3,churn=0.3"))
    offline = Experiment(configure("x.npz", "slda", eval_every=5), stream, make_strategy("slda"))
    result = offline.finish()
    with Running(tmp_path / "s", "--strategy", "slda", "--features", "3") as running:
        evaluator = play(stream, running.client, every=5)
        assert evaluator.result()["AP"] == result.AP and running.client.status()["edges"] == offline.learner.store.edges
    kinds = {event["type"] for step in stream for event in events_of(step)}
    assert kinds == {"node", "edge", "update", "remove_edge", "remove", "label", "learn"}
