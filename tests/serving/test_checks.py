"""Requests are checked with arrays as they are one by one; the contract of running services finds what is broken."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st

from ocgl.errors import ConfigError, ServiceError
from ocgl.graph import GraphStore
from ocgl.serving.api import make_app
from ocgl.serving.backend import Backend, problem_of
from ocgl.serving.checks import RequestCheck, packed
from ocgl.serving.config import ServiceConfig
from ocgl.serving.engine import Accepted
from ocgl.serving.events import Label, Learn, Node, WrongEventError
from ocgl.serving.keys import Keys
from ocgl.serving.requests import ProblemError
from ocgl.serving.service import Prediction, Service
from ocgl.strategies._core.class_names import ClassNames
from ocgl.testing.services import SERVICE_CHECKS, SkippedCheck, Visit
from ocgl.testing.strategies import ContractError
from tests.serving.running import Running, free_port

CONFIG = ServiceConfig(strategy="ridge", features=1, most_classes=3)
X = b"\x00" * 4
ids = st.one_of(st.integers(-1, 8), st.sampled_from(["a", "b", "", 1 << 63]))
nodes = st.builds(
    Node, ids, st.just(X), st.lists(ids, max_size=3), st.one_of(st.none(), st.floats(allow_nan=True, width=16))
)
labels = st.builds(
    Label,
    ids,
    st.one_of(st.integers(-1, 3), st.sampled_from(["x", "y", ""])),
    st.one_of(st.none(), st.none(), st.just([1])),
)


@given(
    st.lists(nodes, max_size=5), st.lists(labels, max_size=4), st.booleans(), st.booleans(), st.sampled_from([0, 3, 6])
)
@settings(max_examples=600, deadline=None)
def test_what_is_plainly_right_is_right(new: list[Any], named: list[Any], learn: bool, mixed: bool, there: int) -> None:
    store, classes = GraphStore(), ClassNames()
    if there:
        store.add(list(range(there)), [[0.0]] * there)
    events = [*named, *new] if mixed else [*new, *named]
    events += [Learn()] if learn or not events else []

    def check() -> RequestCheck:
        return RequestCheck(CONFIG, store, classes, dict.fromkeys([0, 1]))

    try:
        check().closely(events)
        right = True
    except WrongEventError:
        right = False
    assert check().plainly_right(events) <= right
    if right and not mixed:
        assert check().plainly_right(events)


@given(st.lists(st.one_of(nodes, labels), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_packed_features_are_those_that_were_sent(events: list[Any]) -> None:
    sent = [
        Node(e.id, [1.5], e.neighbors, e.time) if isinstance(e, Node) and i % 2 else e for i, e in enumerate(events)
    ]
    found = packed(sent, CONFIG)
    assert [type(event) for event in found] == [type(event) for event in sent]
    for before, after in zip(sent, found, strict=True):
        if isinstance(before, Node):
            assert isinstance(after, Node) and isinstance(after.x, bytes)
            assert (after.id, after.neighbors, repr(after.time)) == (before.id, before.neighbors, repr(before.time))
            assert after.x == (X if before.x == X else b"\x00\x00\xc0\x3f")


class InProcess:
    """Calls of a service in this process."""

    def __init__(self, service: Service) -> None:
        self._backend = Backend(service)
        self.config: ServiceConfig | None = service.config

    async def call(self, kind: type, *parts: Any) -> Any:
        try:
            return await asyncio.wrap_future(self._backend.begin(kind(0, *parts)))
        except Exception as error:
            raise ProblemError.of(problem_of(error)) from error


@contextmanager
def serving(service: Service) -> Iterator[str]:
    """Serve a service of this process over HTTP."""
    port = free_port()
    app = make_app(InProcess(service), Keys(service.folder), service.folder)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", log_config=None))
    service.start()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)
        service.stop()


def failed(url: str, **options: Any) -> set[str]:
    """Return the names of the checks that a service fails."""
    found, visit = set(), Visit(url, **options)
    for check in SERVICE_CHECKS:
        try:
            check(visit)
        except (ContractError, ServiceError):
            found.add(check.__name__)
        except SkippedCheck:
            assert check.__name__ in ("needs_a_key_where_it_has_keys", "learns_from_labels")
    visit.leave()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "integer"])
def test_a_service_passes_its_contract_and_is_left_as_it_was(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    key = Keys(folder).add("mine", ["admin"])
    options = ("--strategy", "ridge" if kind == "text" else "er", "--features", "3", "--set", "most_bytes=200000")
    with Running(folder, *options, key=key) as running:
        if kind == "integer":
            running.client.send([{"type": "node", "id": 7, "x": [1, 2, 3]}, {"type": "label", "id": 7, "label": 0}])
        before = running.client.status()
        assert failed(running.url, key=key, teach=True) == set()
        after = running.client.status()
        assert (after["nodes"], after["edges"]) == (before["nodes"], before["edges"])
        assert running.stop() == 0


class TakesTwice(Service):
    def take(self, events: Any, key: str | None = None, source: Any = None) -> Any:
        return super().take(events, None, source)


class TakesAnything(Service):
    def _ingest(self, events: Any, key: Any, digest: str, source: Any, outcome: Any) -> object:
        try:
            return super()._ingest(events, key, digest, source, outcome)
        except WrongEventError:
            return Accepted(len(events), self.engine.sequence, "")


class AboveItsBound(Service):
    def _prediction(self, found: Any) -> Prediction:
        answer = super()._prediction(found)
        return replace(answer, bound=replace(answer.cost, nodes=answer.cost.nodes - 1))


class LearnsFromQuestions(Service):
    def _prediction(self, found: Any) -> Prediction:
        self.engine.events += 1
        return super()._prediction(found)


BROKEN = {
    TakesTwice: {"takes_a_repeated_request_once"},
    TakesAnything: {"refuses_wrong_requests_as_a_whole", "takes_a_repeated_request_once", "follows_a_changing_graph"},
    AboveItsBound: {"answers_at_any_time_within_its_bound"},
    LearnsFromQuestions: {"questions_change_nothing"},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_the_contract_finds_broken_services(kind: type[Service], tmp_path: Path) -> None:
    service = kind(tmp_path / "s", ServiceConfig(strategy="slda", features=2, most_bytes=100_000))
    with serving(service) as url:
        with pytest.raises(ConfigError, match="the service is new"):
            Visit(url)
        found = failed(url, teach=True)
    assert found == BROKEN[kind]
