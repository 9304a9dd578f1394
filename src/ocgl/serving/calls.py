"""What the process that speaks HTTP asks of the process that holds the graph: frames over a socket between the two."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ocgl.serving.events import Event, Id, Sparse


class NewNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node that is not there."""

    x: list[float] | Sparse | bytes
    neighbors: list[Id] = []


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a question: ids of nodes, or a node that is not there."""

    ids: list[Id] | None = None
    node: NewNode | None = None
    scores: bool = False
    min_sequence: int = 0
    candidates: list[Any] | None = None
    neighborhood: bool = False


class Ingest(msgspec.Struct, frozen=True, tag="ingest"):
    """Take events as a whole; their features are packed and checked."""

    number: int
    events: list[Event]
    key: str | None


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Answer a question."""

    number: int
    question: Question


class Tell(msgspec.Struct, frozen=True, tag="tell"):
    """Anything else, by name: see `Backend`."""

    number: int
    what: str
    arguments: list[Any]


Call = Ingest | Ask | Tell


class Problem(msgspec.Struct, frozen=True):
    """Why a call was refused, as problem+json says it (RFC 9457)."""

    status: int
    title: str
    detail: str
    headers: dict[str, str] = {}
    more: dict[str, Any] = {}


class Reply(msgspec.Struct, frozen=True):
    """The answer to the call of the same number; number 0 is the configuration, sent once the graph is there."""

    number: int
    value: Any = None
    problem: Problem | None = None


_encode = msgspec.msgpack.Encoder().encode
call_of = msgspec.msgpack.Decoder(Call).decode
reply_of = msgspec.msgpack.Decoder(Reply).decode
_SIZE = 4


def frame(message: Call | Reply) -> bytes:
    """Return a message as it is sent."""
    payload = _encode(message)
    return len(payload).to_bytes(_SIZE, "little") + payload


def sendable(event: Event) -> bool:
    """Return whether the integers of an event fit into 64 bits."""
    try:
        _encode(event)
    except OverflowError:
        return False
    return True


def frames(link: socket.socket) -> Iterator[bytes]:
    """Return the messages that come from a blocking socket, until the other side is gone."""
    with link.makefile("rb", buffering=1 << 18) as file:
        while len(head := file.read(_SIZE)) == _SIZE:
            size = int.from_bytes(head, "little")
            payload = file.read(size)
            if len(payload) < size:
                return
            yield payload


class Frames:
    """Cuts what has arrived into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def put(self, data: bytes) -> Iterator[bytes]:
        """Add what has arrived; return the messages that are whole now."""
        self._buffer += data
        begin = 0
        while len(self._buffer) - begin >= _SIZE:
            end = begin + _SIZE + int.from_bytes(self._buffer[begin : begin + _SIZE], "little")
            if end > len(self._buffer):
                break
            yield bytes(self._buffer[begin + _SIZE : end])
            begin = end
        del self._buffer[:begin]


def start_front(listening: socket.socket, folder: Path, logs: str) -> tuple["subprocess.Popen[bytes]", socket.socket]:
    """Start the process that speaks HTTP; return it and the socket that its calls come from.

    Args:
        listening: where clients connect.
        folder: folder of the service.
        logs: format of the logs.
    """
    ours, theirs = socket.socketpair()
    passed = {"listening": listening.fileno(), "link": theirs.fileno()}
    options = json.dumps({**passed, "folder": str(folder), "logs": logs})
    process = subprocess.Popen(
        [sys.executable, "-m", "ocgl.serving.front", options], pass_fds=tuple(passed.values()), stdin=subprocess.DEVNULL
    )
    theirs.close()
    return process, ours
