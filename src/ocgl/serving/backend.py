"""The side of a service that holds the graph: takes calls, and answers them or says why not."""

import contextlib
import math
import socket
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

from ocgl.errors import (
    ConfigError,
    EmptyBatchError,
    IdKindError,
    OcglError,
    OverloadedError,
    ServiceError,
    UnknownNodeError,
)
from ocgl.serving.calls import Ask, Call, Ingest, Problem, Question, Reply, call_of, frame, frames
from ocgl.serving.engine import OUT_OF_REACH
from ocgl.serving.events import WrongEventError
from ocgl.serving.following import Follower, FollowsError
from ocgl.serving.service import NotReachedError, Prediction, Service
from ocgl.serving.status import bound_of, cost_of, figures_of, node_of, state_of
from ocgl.types import Json


class Backend:
    """Answers calls about a service.

    Args:
        service: the service.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sending = threading.Lock()
        self._told: dict[str, Callable[..., Future[Any]]] = {
            "status": self._status,
            "ready": self._ready,
            "node": lambda id: service.inspect(lambda engine: node_of(engine, id)),
            "neighborhood": lambda id: service.inspect(lambda engine: engine.neighborhood(id)),
            "promote": service.promote,
            "snapshot": service.snapshot,
            "hash": lambda graph: service.inspect(lambda engine: (engine.sequence, engine.state_hash(graph))),
            "durable": self._durable,
            "prove": self._prove,
        }

    def begin(self, call: Call) -> "Future[Any]":
        """Begin to answer a call; what is wrong is raised, or in the future."""
        service = self._service
        if isinstance(call, Ingest):
            return _then(service.take(call.events, call.key), lambda found: [found.accepted, found.sequence])
        if isinstance(call, Ask):
            question = call.question
            if question.node is not None:
                node = question.node
                found = service.ask_new(node.x, list(node.neighbors), question.min_sequence)
            else:
                found = service.ask(question.ids or [], question.min_sequence)
            return _then(found, partial(_answer, question))
        return self._told[call.what](*call.arguments)

    def run(self, link: socket.socket) -> None:
        """Answer the calls that come over a socket, until the other side is gone."""
        self._send(link, Reply(0, self._service.config.model_dump(mode="json")))
        for payload in frames(link):
            call = call_of(payload)
            try:
                found = self.begin(call)
            except Exception as error:
                self._send(link, Reply(call.number, None, problem_of(error)))
            else:
                found.add_done_callback(partial(self._reply, link, call.number))

    def _reply(self, link: socket.socket, number: int, found: "Future[Any]") -> None:
        try:
            reply = Reply(number, found.result())
        except BaseException as error:
            reply = Reply(number, None, problem_of(error))
        self._send(link, reply)

    def _send(self, link: socket.socket, reply: Reply) -> None:
        with contextlib.suppress(OSError), self._sending:  # nobody is there any more
            link.sendall(frame(reply))

    def _status(self, history: bool = False) -> "Future[Any]":
        service = self._service
        past: Json = {"history": list(service.history)} if history else {}
        return service.inspect(lambda engine: state_of(engine) | figures_of(service) | past)

    def _durable(self) -> "Future[Any]":
        """Return the last durable record, and where the graph is."""
        service = self._service
        return _done([service.durable, service.graphs.shown, service.graphs.owner, service.identity])

    def _prove(self, graph: bool) -> "Future[Any]":
        service = self._service
        if not isinstance(service, Follower):
            raise ConfigError("this service follows no other one; there is nothing to compare it with")
        return service.prove(graph)

    def _ready(self) -> "Future[Any]":
        service = self._service
        return _done([service.ready, service.why_not_ready])


def problem_of(error: BaseException) -> Problem:
    """Name what went wrong."""
    if isinstance(error, OverloadedError):
        return Problem(429, "Too many requests", str(error), {"retry-after": "1"})
    if isinstance(error, NotReachedError):
        return Problem(409, "Not reached in time", str(error))
    if isinstance(error, FollowsError):
        return Problem(409, "This service follows another one", str(error))
    if isinstance(error, (ServiceError, CancelledError, *OUT_OF_REACH)):
        return Problem(503, "Not ready", str(error), {"retry-after": "5"})
    if isinstance(error, WrongEventError):
        return Problem(422, "Wrong event", error.why, more={"line": error.line})
    if isinstance(error, UnknownNodeError):
        return Problem(404, "Unknown node", str(error))
    if isinstance(error, IdKindError | EmptyBatchError):
        return Problem(422, "Wrong question", str(error))
    if isinstance(error, OcglError):
        return Problem(507 if isinstance(error, OSError) else 422, type(error).__name__, str(error))
    return Problem(500, "Internal error", type(error).__name__)


def _done(value: Any) -> "Future[Any]":
    """Return a future with a result."""
    found: Future[Any] = Future()
    found.set_result(value)
    return found


def _then(found: "Future[Any]", change: Callable[[Any], Any]) -> "Future[Any]":
    """Return a future with the changed result of another one."""
    changed: Future[Any] = Future()

    def done(found: "Future[Any]") -> None:
        try:
            changed.set_result(change(found.result()))
        except BaseException as error:
            changed.set_exception(error)

    found.add_done_callback(done)
    return changed


def _answer(question: Question, found: Prediction) -> Json:
    ids: list[Any] = list(question.ids) if question.ids is not None else [None]
    predictions: list[Json] = [{"id": id, "label": _plain(label)} for id, label in zip(ids, found.labels, strict=True)]
    if question.scores:
        names = [str(name) for name in found.classes]
        for one, row in zip(predictions, found.scores.tolist(), strict=True):
            one["scores"] = {
                name: value if math.isfinite(value) else None for name, value in zip(names, row, strict=True)
            }
    if question.node is not None:
        predictions[0].pop("id")
    return {
        "predictions": predictions,
        "sequence": found.sequence,
        "weights_sequence": found.weights_sequence,
        "weights_seconds": round(found.weights_seconds, 4),
        "cost": cost_of(found.cost),
        "bound": bound_of(found.bound),
    }


def _plain(label: Any) -> Any:
    return None if label == -1 else label
