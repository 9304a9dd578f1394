"""Events that clients send, and records that the log holds."""

import re
from typing import Any

import msgspec

Id = int | str


class Sparse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Features of which most are zero.

    Args:
        index: the features that are not.
        value: their values.
    """

    index: list[int]
    value: list[float]


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="node"):
    """A node arrives, with edges to nodes that are there.

    Features as bytes are float32, little-endian, in base64 where they come as JSON.
    """

    id: Id
    x: list[float] | Sparse | bytes
    neighbors: list[Id] = []
    time: float | None = None


class Edge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="edge"):
    """An edge between two nodes that are there."""

    source: Id
    target: Id


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="label"):
    """The label of a node becomes known."""

    id: Id
    label: Id
    candidates: list[Id] | None = None


class Update(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="update"):
    """A node gets new features."""

    id: Id
    x: list[float] | Sparse | bytes


class Remove(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="remove"):
    """A node is removed, with its edges."""

    id: Id


class RemoveEdge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="remove_edge"):
    """An edge is removed."""

    source: Id
    target: Id


class Learn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="learn"):
    """The waiting labels are learned now."""


Event = Node | Edge | Label | Update | Remove | RemoveEdge | Learn


class Request(msgspec.Struct, frozen=True, tag_field="kind", tag="events", omit_defaults=True):
    """A record: the events of one accepted request.

    Args:
        events: the events.
        key: the idempotency key of the request.
        source: where it came from, if not over HTTP: topic, partition and the offset after it.
    """

    events: list[Event]
    key: str | None = None
    source: tuple[str, int, int] | None = None


class Begin(msgspec.Struct, frozen=True, tag_field="kind", tag="begin"):
    """The first record: what the state depends on, of the configuration."""

    config: dict[str, Any]


class Batch(msgspec.Struct, frozen=True, tag_field="kind", tag="batch"):
    """A record: the labels that are learned together, now."""

    ids: list[Id]


class Solve(msgspec.Struct, frozen=True, tag_field="kind", tag="solve"):
    """A record: weights are solved for, from what is known now."""

    strategy: str


class Publish(msgspec.Struct, frozen=True, tag_field="kind", tag="publish"):
    """A record: the weights of the last `Solve` answer from now on."""

    strategy: str


class Abandon(msgspec.Struct, frozen=True, tag_field="kind", tag="abandon"):
    """A record: the last `Solve` has failed; the weights before it go on answering."""

    strategy: str


class Promote(msgspec.Struct, frozen=True, tag_field="kind", tag="promote"):
    """A record: a shadow strategy becomes the main one."""

    strategy: str


Record = Begin | Request | Batch | Solve | Publish | Abandon | Promote

_PLACE = re.compile(r"`\$\[(\d+)\]")
"""Where msgspec says that an event of an array is wrong."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode
_array = msgspec.json.Decoder(list[Event])
_line = msgspec.json.Decoder(Event)


def encode(record: Record) -> bytes:
    """Return a record as the log holds it."""
    return _encode(record)


def decode(payload: bytes) -> Record:
    """Return the record of a payload."""
    found: Any = _decode(payload)
    return found  # type: ignore[no-any-return]


class WrongEventError(ValueError):
    """An event of a request is wrong.

    Attributes:
        line: number of the event in its request, from 1; 0 for the request as a whole.
        why: what is wrong.
    """

    def __init__(self, line: int, why: str) -> None:
        self.line, self.why = line, why
        super().__init__(f"event {line}: {why}" if line else why)


def parse(body: bytes, lines: bool) -> list[Event]:
    """Return the events of a request body: JSON lines, or a JSON array."""
    if not lines:
        try:
            return _array.decode(body)
        except (ValueError, RecursionError) as error:  # of msgspec, or text that is no UTF-8
            place = _PLACE.search(str(error))
            raise WrongEventError(0 if place is None else int(place[1]) + 1, str(error)) from error
    found: list[Event] = []
    for number, line in enumerate(body.split(b"\n"), start=1):
        if line.strip():
            try:
                found.append(_line.decode(line))
            except (ValueError, RecursionError) as error:
                raise WrongEventError(number, str(error)) from error
    return found
