"""A service that follows another one: equal at every record, after kills too; what it cannot do is refused by name."""

import time
from pathlib import Path
from typing import Any

import pytest

from ocgl import errors
from ocgl.serving.client import Client, RefusedError
from ocgl.serving.following import Leader, OutOfReachError, begin_following
from ocgl.serving.keys import Keys
from ocgl.serving.log import Log, LogReader, Readers, unpacked
from ocgl.serving.replay import replayed
from tests.serving.load import RIDGE, follow_and_compare, label, node, proven
from tests.serving.running import Running, free_port

pytestmark = pytest.mark.slow


def test_a_log_is_read_from_any_record_on_while_it_grows(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", segment=100)
    payloads = [bytes([number]) * (10 * number) for number in range(1, 12)]
    for payload in payloads[:8]:
        log.append(payload)
    readers = Readers(tmp_path / "log")
    for after in (0, 3, 8, 0, 5):
        checksum, data = readers.records(after, 8)
        found = list(unpacked(data, after))
        assert [(number, payload) for number, payload, _ in found] == list(enumerate(payloads[:8], 1))[after:]
        before = [known for _, _, known in unpacked(readers.records(0, 8)[1], 0)]
        assert checksum == [0, *before][after]
    assert readers.records(8, 8)[1] == b""
    for payload in payloads[8:]:
        log.append(payload)
    last = list(unpacked(readers.records(8, 11)[1], 8))
    assert [payload for _, payload, _ in last] == payloads[8:] and log.checksum == last[-1][2]
    few = LogReader(tmp_path / "log").records(0, 11, most=1)[1]
    assert len(list(unpacked(few, 0))) == 1
    damaged = bytearray(readers.records(0, 3)[1])
    damaged[-1] ^= 1
    with pytest.raises(errors.ServiceError, match="record 3 was damaged"):
        list(unpacked(bytes(damaged), 0))
    log.close()
    next(iter(sorted((tmp_path / "log").iterdir()))).unlink()
    with pytest.raises(errors.DamagedFileError, match="is needed"):
        LogReader(tmp_path / "log").records(0, 3)


def test_a_follower_answers_as_the_other_one_under_load(tmp_path: Path) -> None:
    options = (*RIDGE, "--shadow", "linear", "--set", "batch_seconds=0.2")
    with Running(tmp_path / "a", *options) as leader:
        leader.client.send([node("x"), node("y", "x"), label("x", "a"), {"type": "learn"}])
        with Running(tmp_path / "b", "--follow", leader.url) as follower:
            assert follow_and_compare(leader, follower, 1.5)["records"] > 10
            edge = {"type": "edge", "source": "x", "target": "asked-9"}
            leader.client.send([{"type": "remove", "id": "asked-3"}, edge])
            leader.client.send([{"type": "update", "id": "x", "x": [5, 5, 5]}, label("y", "b"), {"type": "learn"}])
            leader.client.promote("linear")
            at = leader.client.state_hash()[0]
            follower.client.ask(["x"], min_sequence=at)
            assert proven(follower)["sequence"] >= at
            follows = follower.client.status()["follows"]
            assert follows["url"] == leader.url and follows["behind"] == 0 and follows["proven"]["equal"]
            for refused in (
                lambda: follower.client.send([node("z")]),
                lambda: follower.client.promote("ridge"),
            ):
                with pytest.raises(RefusedError, match="follows another one") as error:
                    refused()
                assert error.value.status == 409
            with pytest.raises(RefusedError, match="follows no other one"):
                leader.client._call("POST", "/v1/admin/prove")
            leader.kill()
            assert follower.client.ask(["x"])["sequence"] >= at  # alone it goes on answering
            with Client(follower.url, retries=0) as once, pytest.raises(errors.ServiceError, match="cannot be reached"):
                once._call("POST", "/v1/admin/prove")
            follower.kill()
        with Running(tmp_path / "a") as leader:
            again = leader.client.status()["sequence"]
            config = tmp_path / "b" / "config.toml"
            config.write_text(config.read_text().replace(follows["url"], leader.url))
            with Running(tmp_path / "b") as follower:
                assert follower.client.status()["recovered"]["records"] > 0
                follower.client.ask(["x"], min_sequence=again)
                proven(follower)
                assert follower.stop() == 0
            leader.stop()
    assert replayed(tmp_path / "b").state_hash() == replayed(tmp_path / "a").state_hash()


def test_who_may_follow_and_what(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    key = Keys(tmp_path / "a").add("replica", ["follow"])
    other = Keys(tmp_path / "a").add("asks", ["predict"])
    options = (*RIDGE, "--set", "batch_size=50", "--set", "batch_seconds=0")
    with Running(tmp_path / "a", *options, key=Keys(tmp_path / "a").add("all", ["admin"])) as leader:
        leader.client.send([node("x"), label("x", "a"), {"type": "learn"}])
        with pytest.raises(errors.ServiceError, match="no scope follow"):
            begin_following(tmp_path / "b", leader.url, other, None)
        with pytest.raises(errors.ConfigError, match="is in its folder"):
            begin_following(tmp_path / "b", leader.url, key, "redis://127.0.0.1:1/x")
        config = begin_following(tmp_path / "b", leader.url, key, None)
        assert config is not None and (config.strategy, config.follows) == ("ridge", leader.url)
        one = Leader(leader.url, key)
        assert one.facts()["sequence"] >= 2
        with pytest.raises(errors.ServiceError, match="another one"):
            one.records(1, 12345, 0.0)
        with pytest.raises(errors.ServiceError, match="it has no record 1000"):
            one.records(1000, 0, 0.0)
        begin = time.monotonic()
        last = one.facts()["sequence"]
        data, durable = one.records(0, 0)
        checksum = list(unpacked(data, 0))[-1][2]
        assert durable == last and one.records(last, checksum, 0.5)[0] == b"" and time.monotonic() - begin > 0.4
        with Running(tmp_path / "c", "--follow", leader.url, "--key", key) as follower:
            assert proven(follower)["sequence"] == last
            status: Any = follower.client.status()
            assert status["follows"]["record"] == last and status["store"] is None
            names = [f"w{i}" for i in range(30)]
            last = leader.client.send([*map(node, names), *(label(name, "ab"[len(name) % 2]) for name in names)])
            follower.client.ask(["w29"], min_sequence=last)  # labels wait for a batch of 50, and nobody for them
        leader.kill()
        with pytest.raises(OutOfReachError):
            one.facts()
        one.close()


def test_what_cannot_be_followed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.ConfigError, match="--key"):
        begin_following(tmp_path / "b", "http://user:hunter2@127.0.0.1:1", None, None)
    with pytest.raises(OutOfReachError):
        begin_following(tmp_path / "b", "http://127.0.0.1:1", None, None)
    with Running(tmp_path / "a", *RIDGE) as leader:
        with pytest.raises(errors.ServiceError, match="cannot be followed"):
            begin_following(tmp_path / "b", f"{leader.url}/v1", None, None)
        with Running(tmp_path / "b", "--follow", leader.url) as follower:
            follower.kill()
    port = free_port()
    monkeypatch.setattr("tests.serving.running.free_port", lambda: port)
    config = tmp_path / "b" / "config.toml"
    config.write_text(config.read_text().replace(leader.url, f"http://127.0.0.1:{port}"))
    with Running(tmp_path / "b", wait=False) as follower:
        assert follower.process.wait(60) == 2 and "is this service itself" in follower.said
