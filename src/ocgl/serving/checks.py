"""Whether the events of a request can be applied as a whole."""

from collections.abc import Mapping
from math import isfinite
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
    if all(type(x) is bytes for x in given):
        return np.frombuffer(b"".join(given), "<f4").reshape(-1, width)
    rows = np.zeros((len(given), width), np.float32)
    for row, x in zip(rows, given, strict=True):
        if isinstance(x, Sparse):
            row[x.index] = x.value
        else:
            row[:] = np.frombuffer(x, "<f4") if isinstance(x, bytes) else x
    return rows


def packed(events: list[Event], config: ServiceConfig) -> list[Event]:
    """Return the events with their features as 32-bit numbers, as the log holds them.

    Raises `WrongEventError` for what is wrong whatever the graph is: too many events, wrong numbers of features,
    numbers that are not finite.
    """
    if not events:
        raise WrongEventError(0, "a request needs at least one event")
    if len(events) > config.most_events:
        raise WrongEventError(0, f"{len(events):,} events; a request has at most {config.most_events:,}")
    width = config.features
    given = [(line, event) for line, event in enumerate(events) if isinstance(event, Node | Update)]
    if not given:
        return events
    for line, event in given:
        why = _wrong_features(event.x, width)
        if why is not None:
            raise WrongEventError(line + 1, why)
    with np.errstate(over="ignore"):
        plain = all(type(event.x) is list for _, event in given)
        chosen = [event for _, event in given]
        rows = np.array([event.x for event in chosen], np.float32) if plain else rows_of(chosen, width)
    finite = np.isfinite(rows).all(1)
    if not finite.all():
        line = given[int(np.nonzero(~finite)[0][0])][0]
        raise WrongEventError(line + 1, "x has a number that is NaN, infinite or too large for 32 bits")
    found = list(events)
    content, size = np.ascontiguousarray(rows, "<f4").tobytes(), 4 * width
    for number, (line, event) in enumerate(given):
        if type(event.x) is list:
            x = content[number * size : (number + 1) * size]
            found[line] = Node(event.id, x, event.neighbors, event.time) if type(event) is Node else Update(event.id, x)
    return found


def _wrong_features(x: list[float] | Sparse | bytes, width: int) -> str | None:
    if isinstance(x, Sparse):
        wrong = len(x.index) != len(x.value) or any(not 0 <= i < width for i in x.index)
        if wrong or len(set(x.index)) != len(x.index):
            return f"index and value must be of one length, with distinct indices below {width}"
        return None
    right = len(x) == (4 * width if isinstance(x, bytes) else width)
    return None if right else f"x must have {width} features"


class RequestCheck:
    """Checks the events of a request against the graph, and against each other.

    Args:
        config: what the service is.
        store: its graph.
        classes: its classes.
        known_labels: labels that were seen, as the user knows them.
    """

    def __init__(
        self, config: ServiceConfig, store: GraphStore, classes: ClassNames, known_labels: Mapping[Id, None]
    ) -> None:
        self._config, self._store, self._classes, self._known_labels = config, store, classes, known_labels
        self._new_labels: set[Id] = set()
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
        if not self.plainly_right(events):
            self.closely(events)

    def closely(self, events: list[Event]) -> None:
        """Check event by event."""
        self._look_up(events)
        for line, event in enumerate(events, start=1):
            why = self._wrong(event, line == len(events))
            if why is not None:
                raise WrongEventError(line, why)

    def plainly_right(self, events: list[Event]) -> bool:
        """Return whether a request of new nodes, followed by labels, is right; False if that takes a closer look.

        Most requests are of this kind, and are checked with arrays.
        """
        kinds = [type(event) for event in events]
        count, named = kinds.count(Node), kinds.count(Label)
        end = [Learn] if kinds[-1] is Learn else []
        if kinds != [Node] * count + [Label] * named + end:
            return False
        nodes: list[Node] = events[:count]  # type: ignore[assignment]
        labels: list[Label] = events[count : count + named]  # type: ignore[assignment]
        ids = [node.id for node in nodes]
        sizes = [len(node.neighbors) for node in nodes]
        near = [neighbor for node in nodes for neighbor in node.neighbors]
        mentioned = [*ids, *near, *(label.id for label in labels)]
        types = set(map(type, mentioned))
        if len(types) > 1 or (self._kind is not None and not types <= {self._kind}):
            return False
        if types == {int}:
            if not (is_id(min(mentioned)) and is_id(max(mentioned))):
                return False
        elif types and not (types == {str} and all(map(is_id, mentioned))):
            return False
        if not all(node.time is None or isfinite(node.time) for node in nodes):
            return False
        places = {id: number for number, id in enumerate(ids)}
        there = np.zeros(len(mentioned), np.bool_)
        if self._store.arrived and mentioned:
            there = self._store.find(ids_array(mentioned)) >= 0
        if len(places) != count or there[:count].any():
            return False
        owners = np.repeat(np.arange(count), sizes)
        for missing in np.nonzero(~there)[0][count:].tolist():
            place = places.get(mentioned[missing])
            first = owners[missing - count] if missing < count + len(near) else count
            if place is None or place >= first:
                return False
        values = {(type(label.label), label.label): label for label in labels}
        return all(label.candidates is None for label in labels) and all(
            self._wrong_label(label) is None for label in values.values()
        )

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
            return "a label is text, or an integer from 0 to 2^62 - 1"
        if isinstance(event.label, str) and (not 0 < len(event.label) <= 1024 or not event.label.isprintable()):
            return "a label of text has 1 to 1,024 printable characters"
        classes = self._classes
        kind = self._labels or (str if classes.are_text else int if classes.begun else type(event.label))
        if type(event.label) is not kind:
            return f"labels of this service are {'text' if kind is str else 'integers'}; {event.label!r} is not"
        self._labels = kind
        if event.label not in self._known_labels:
            self._new_labels.add(event.label)
            if len(self._known_labels) + len(self._new_labels) > self._config.most_classes:
                return f"this service knows at most {self._config.most_classes:,} classes; {event.label!r} is one more"
        return None


def _edge(first: Id, second: Id) -> tuple[Id, Id]:
    return (first, second) if str(first) <= str(second) else (second, first)
