"""Whether the events of a request can be applied as a whole."""

from typing import Any

import numpy as np

from ocgl.graph import GraphStore
from ocgl.graph.ids import LONGEST, as_objects
from ocgl.serving.config import ServiceConfig
from ocgl.serving.events import (
    Edge,
    Event,
    Id,
    Label,
    Learn,
    Node,
    Remove,
    RemoveEdge,
    Sparse,
    Update,
    WrongEventError,
)
from ocgl.strategies._core.class_names import ClassNames
from ocgl.types import AnyArray, FloatArray


def is_id(id: Id) -> bool:
    """Return whether a node could have this id."""
    if isinstance(id, int):
        return 0 <= id < 1 << 63
    try:
        return 0 < len(id.encode()) <= LONGEST
    except UnicodeEncodeError:
        return False


def ids_array(ids: list[Any]) -> AnyArray:
    """Return ids as a store takes them."""
    return as_objects(ids) if ids and isinstance(ids[0], str) else np.array(ids, np.int64)


def pairs_array(first: list[Any], second: list[Any]) -> Any:
    """Return the ends of edges as a store takes them."""
    return [ids_array(first), ids_array(second)]


def rows_of(events: list[Any], width: int) -> FloatArray:
    """Return the features of events as rows."""
    given = [event.x for event in events]
    if all(type(x) is list for x in given):
        return np.array(given, np.float32)
    rows = np.zeros((len(given), width), np.float32)
    for row, x in zip(rows, given, strict=True):
        if isinstance(x, Sparse):
            row[x.index] = x.value
        else:
            row[:] = np.frombuffer(x, "<f4") if isinstance(x, bytes) else x
    return rows


class RequestCheck:
    """Checks the events of a request against the graph, and against each other.

    Args:
        config: what the service is.
        store: its graph.
        classes: its classes.
    """

    def __init__(self, config: ServiceConfig, store: GraphStore, classes: ClassNames) -> None:
        self._config, self._store, self._classes = config, store, classes
        self._there: dict[Id, bool] = {}
        self._edges: dict[tuple[Id, Id], bool] = {}
        self._of_node: dict[Id, set[tuple[Id, Id]]] = {}
        self._anew: set[Id] = set()  # nodes that the request adds or removes: the graph's edges are not theirs
        self._kind: type | None = None
        if self._store.arrived:
            self._kind = str if self._store.id_kind == "text" else int
        self._labels: type | None = None

    def all(self, events: list[Event]) -> None:
        """Raise `WrongEventError` for the first wrong event."""
        if not events:
            raise WrongEventError(0, "a request needs at least one event")
        if len(events) > self._config.most_events:
            raise WrongEventError(0, f"{len(events):,} events; a request has at most {self._config.most_events:,}")
        self._look_up(events)
        self._check_features(events)
        for line, event in enumerate(events, start=1):
            why = self._wrong(event, line == len(events))
            if why is not None:
                raise WrongEventError(line, why)

    def _look_up(self, events: list[Event]) -> None:
        """Find out which of all named nodes are there, at once."""
        named: dict[Id, None] = {}
        for line, event in enumerate(events, start=1):
            if isinstance(event, Node):
                mentioned: tuple[Id, ...] = (event.id, *event.neighbors)
            elif isinstance(event, Edge | RemoveEdge):
                mentioned = (event.source, event.target)
            elif isinstance(event, Label | Update | Remove):
                mentioned = (event.id,)
            else:
                continue
            for id in mentioned:
                if id not in named:
                    self._check_kind(id, line)
                    named[id] = None
        if named and self._store.arrived:
            found = self._store.find(ids_array(list(named)))
            self._there = dict(zip(named, (found >= 0).tolist(), strict=True))

    def _check_kind(self, id: Id, line: int) -> None:
        if self._kind is None:
            self._kind = type(id)
        if type(id) is not self._kind:
            kinds = {int: "integers", str: "text"}
            raise WrongEventError(line, f"ids of this service are {kinds[self._kind]}; {id!r} is not")
        if not is_id(id):
            raise WrongEventError(line, f"an id is an integer from 0 to 2^63 - 1, or text of 1 to {LONGEST:,} bytes")

    def _check_features(self, events: list[Event]) -> None:
        width = self._config.features
        for line, event in enumerate(events, start=1):
            if not isinstance(event, Node | Update):
                continue
            x = event.x
            if isinstance(x, Sparse):
                wrong = len(x.index) != len(x.value) or any(not 0 <= i < width for i in x.index)
                if wrong or len(set(x.index)) != len(x.index):
                    raise WrongEventError(
                        line, f"index and value must be of one length, with distinct indices below {width}"
                    )
            elif (len(x) // 4 if isinstance(x, bytes) else len(x)) != width or (isinstance(x, bytes) and len(x) % 4):
                raise WrongEventError(line, f"x must have {width} features")
        rows = [event for event in events if isinstance(event, Node | Update)]
        if rows:
            with np.errstate(over="ignore"):
                finite = np.isfinite(rows_of(rows, width)).all(1)
            if not finite.all():
                line = events.index(rows[int(np.nonzero(~finite)[0][0])]) + 1
                raise WrongEventError(line, "x has a number that is NaN, infinite or too large for 32 bits")

    def _wrong(self, event: Event, last: bool) -> str | None:
        if isinstance(event, Node):
            return self._wrong_node(event)
        if isinstance(event, Edge | RemoveEdge):
            return self._wrong_edge(event)
        if isinstance(event, Learn):
            return None if last else "learn must be the last event of a request"
        if not self._there.get(event.id):
            return f"node {event.id!r} is not there"
        if isinstance(event, Remove):
            self._there[event.id] = False
            self._anew.add(event.id)
            for pair in self._of_node.pop(event.id, ()):
                self._edges[pair] = False
        if isinstance(event, Label):
            return self._wrong_label(event)
        return None

    def _wrong_node(self, event: Node) -> str | None:
        if self._there.get(event.id):
            return f"node {event.id!r} is there already"
        if event.time is not None and not np.isfinite(event.time):
            return "time is NaN or infinite"
        for neighbor in event.neighbors:
            if neighbor == event.id:
                return f"node {event.id!r} has an edge to itself"
            if not self._there.get(neighbor):
                return f"neighbor {neighbor!r} is not there"
        self._there[event.id] = True
        self._anew.add(event.id)
        for neighbor in event.neighbors:
            self._put(_edge(event.id, neighbor))
        return None

    def _put(self, pair: tuple[Id, Id]) -> None:
        self._edges[pair] = True
        for end in pair:
            self._of_node.setdefault(end, set()).add(pair)

    def _wrong_edge(self, event: Edge | RemoveEdge) -> str | None:
        pair = _edge(event.source, event.target)
        if event.source == event.target:
            return f"node {event.source!r} has an edge to itself"
        for end in pair:
            if not self._there.get(end):
                return f"node {end!r} is not there"
        if isinstance(event, Edge):
            self._put(pair)
            return None
        if not self._has(pair):
            return f"there is no edge between {event.source!r} and {event.target!r}"
        self._edges[pair] = False
        return None

    def _has(self, pair: tuple[Id, Id]) -> bool:
        if pair in self._edges:
            return self._edges[pair]
        if pair[0] in self._anew or pair[1] in self._anew:
            return False
        return bool(self._store.have_edges([ids_array([pair[0]]), ids_array([pair[1]])])[0])

    def _wrong_label(self, event: Label) -> str | None:
        if event.candidates is not None:
            return "candidates are not supported: this service chooses among all classes"
        if isinstance(event.label, int) and not 0 <= event.label < 1 << 62:
            return "a label is text, or an integer from 0"
        if isinstance(event.label, str) and (not 0 < len(event.label) <= 1024 or not event.label.isprintable()):
            return "a label of text has 1 to 1,024 printable characters"
        classes = self._classes
        kind = self._labels or (str if classes.are_text else int if classes.begun else type(event.label))
        if type(event.label) is not kind:
            return f"labels of this service are {'text' if kind is str else 'integers'}; {event.label!r} is not"
        self._labels = kind
        return None


def _edge(first: Id, second: Id) -> tuple[Id, Id]:
    return (first, second) if str(first) <= str(second) else (second, first)
