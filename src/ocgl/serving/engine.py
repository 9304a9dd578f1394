"""The state of a service: what follows from the records of its log, one after the other, and from nothing else."""

import hashlib
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import numpy as np

from ocgl.errors import (
    ConfigError,
    OcglError,
    StateError,
    StoreBehindError,
    StoreChangedError,
    StoreRefusedError,
    StoreUnreachableError,
)
from ocgl.graph import Cost, GraphStore, Labels
from ocgl.graph.growable import Growable
from ocgl.serving.checks import RequestCheck, ids_array, pairs_array, rows_of
from ocgl.serving.config import ServiceConfig
from ocgl.serving.events import (
    Abandon,
    Batch,
    Begin,
    Edge,
    Event,
    Id,
    Label,
    Learn,
    Node,
    Publish,
    Record,
    Remove,
    RemoveEdge,
    Request,
    Solve,
    Update,
)
from ocgl.serving.prequential import Prequential
from ocgl.serving.published import Model, Weights
from ocgl.serving.views import around, graph_bytes, graph_size
from ocgl.state import State
from ocgl.strategies import Learner, make_strategy
from ocgl.strategies._core.class_names import ClassNames
from ocgl.strategies._core.waiting import WaitingLabels
from ocgl.types import AnyArray, FloatArray, IntArray, Json

_CHUNK = 4096
OUT_OF_REACH = (StoreUnreachableError, StoreRefusedError, StoreBehindError, StoreChangedError)
"""Errors that say nothing about the graph of a record. A replay may not meet them, so nothing may follow from them."""


@dataclass(frozen=True)
class Accepted:
    """What was answered to a request.

    Attributes:
        accepted: number of events.
        sequence: number of its record.
        digest: hash of its body.
    """

    accepted: int
    sequence: int
    digest: str


class Waiting(WaitingLabels):
    """Waiting labels of which the first are found without a look at the others.

    `WaitingLabels` copies all of them, which is right for the few of an experiment. A service may have a million.
    """

    def first(self, count: int) -> tuple[IntArray, IntArray]:
        """Return positions and labels of those that have waited longest."""
        count = min(count, len(self))
        positions = np.fromiter(islice(self._labels, count), np.int64, count)
        return positions, np.fromiter(islice(self._labels.values(), count), np.int64, count)


class Engine:
    """Graph, strategies, waiting labels and scores of a service.

    `apply` is the only way to change it. The same records give the same state, to the bit.

    Args:
        config: what the service is.
        store: where the graph is.

    Attributes:
        sequence: number of the last record.
        main: name of the strategy that answers.
    """

    def __init__(self, config: ServiceConfig, store: GraphStore) -> None:
        self.config, self.store = config, store
        self.sequence = 0
        self.main = config.strategy
        self.learners: dict[str, Learner] = {}
        self.models: dict[str, Model] = {}
        self.scores: dict[str, Prequential] = {}
        for name in (config.strategy, *config.shadows):
            if name in self.learners:
                raise ConfigError(f"{name} is the strategy of this service twice")
            values = config.hyperparameters if name == config.strategy else {}
            strategy = make_strategy(name, seed=config.seed, **values)
            if strategy.offline:
                raise ConfigError(f"{name} is an offline bound; a service needs a strategy that learns online")
            self.learners[name] = Learner(strategy, store=store)
            self.models[name] = Model(strategy)
            self.scores[name] = Prequential(config.window)
        self.classes = ClassNames()
        self.known_labels: dict[Id, None] = {}  # labels, as the user knows them
        self.waiting = Waiting()
        self._known = Growable(np.int64)  # number of each node's class by position; -1 while it has no label
        self.accepted: dict[str, Accepted] = {}
        self.offsets: dict[str, int] = {}
        self.batches = 0
        self.failed: dict[str, int] = {}
        self.events = 0
        self.touched = False  # whether anything of the last request was applied
        self.owed = False  # a request has closed the waiting batch, and it was not learned yet
        self.cost: tuple[Cost, Cost | None] | None = None  # of the last update, with its bound

    # Checking

    def check(self, events: list[Event]) -> None:
        """Raise `WrongEventError` if a request cannot be applied as a whole."""
        RequestCheck(self.config, self.store, self.classes, self.known_labels).all(events)

    def due(self) -> Batch | None:
        """Return the next full batch of waiting labels."""
        if len(self.waiting) < self.config.batch_size:
            return None
        return self.next_batch(self.config.batch_size)

    def next_batch(self, count: int) -> Batch | None:
        """Return a batch of the labels that have waited longest; those of removed nodes are left out."""
        positions, _ = self.waiting.first(count)
        there = positions[self.store.is_present(positions)]
        if len(there) == 0 and len(positions) == 0:
            return None
        return Batch(self.store.ids_at(there).tolist())

    def solve_due(self, name: str) -> bool:
        """Return whether the weights of a strategy are behind what it has learned, and nobody is solving for them."""
        model = self.models[name]
        solved = 0 if model.published is None else model.published.sequence
        due = model.solves and model.solving is None and model.learned_at > max(solved, model.abandoned_at)
        return due and len(model.strategy.labels) > 0

    # Changing

    def apply(self, record: Record, sequence: int) -> None:
        """Take the next record."""
        if sequence != self.sequence + 1:
            raise StateError(f"record {sequence} does not follow record {self.sequence}")
        if isinstance(record, Begin):
            self.config.check_begun(record.config)
        elif isinstance(record, Request):
            self._take(record, sequence)
        elif isinstance(record, Batch):
            self._learn(record, sequence)
        elif isinstance(record, Solve):
            model = self.models[record.strategy]
            model.solving = model.begin_solving(sequence)
        elif isinstance(record, Publish):
            self._publish(record)
        elif isinstance(record, Abandon):
            self.models[record.strategy].solving = None
            self.models[record.strategy].abandoned_at = sequence
        else:
            self.main = record.strategy
        self.sequence = sequence

    def _take(self, record: Request, sequence: int) -> None:
        self.touched = False
        for _, alike in groupby(record.events, type):
            self._take_alike(list(alike), sequence)
        self.events += len(record.events)
        if record.events and isinstance(record.events[-1], Learn):
            self.owed = len(self.waiting) > 0
        if record.key is not None:
            key, _, digest = record.key.rpartition("#")
            self.accepted[key] = Accepted(len(record.events), sequence, digest)
            while len(self.accepted) > self.config.keys_kept:
                del self.accepted[next(iter(self.accepted))]
        if record.source is not None:
            topic, partition, offset = record.source
            self.offsets[f"{topic}/{partition}"] = offset

    def _take_alike(self, events: list[Any], sequence: int) -> None:
        """Take events of one kind that follow each other."""
        first = events[0]
        if isinstance(first, Node):
            self._add(events)
        elif isinstance(first, Edge):
            self.store.add_edges(pairs_array([event.source for event in events], [event.target for event in events]))
        elif isinstance(first, RemoveEdge):
            self.store.remove_edges(pairs_array([event.source for event in events], [event.target for event in events]))
        elif isinstance(first, Update):
            last = {event.id: event for event in events}
            self.store.update(ids_array(list(last)), rows_of(list(last.values()), self.config.features))
        elif isinstance(first, Remove):
            positions = self.store.positions(ids_array([event.id for event in events]))
            self.store.remove(ids_array([event.id for event in events]))
            self._known.rows[positions] = -1
            self.waiting.take(positions.tolist())
        elif isinstance(first, Label):
            self._label(events, sequence)
        self.touched = True

    def _add(self, events: list[Node]) -> None:
        first = self.store.arrived
        ids = [event.id for event in events]
        sources = [event.id for event in events for _ in event.neighbors]
        targets = [neighbor for event in events for neighbor in event.neighbors]
        times = [first + i if event.time is None else event.time for i, event in enumerate(events)]
        edges = pairs_array(sources, targets) if sources else ((), ())
        self.store.add(ids_array(ids), rows_of(events, self.config.features), edges, times)
        self._known.extend(np.full(len(ids), -1, np.int64))
        for name, model in self.models.items():
            self.scores[name].answered(first, self._asked(name, model, ids_array(ids)))

    def _asked(self, name: str, model: Model, ids: AnyArray) -> IntArray:
        """Return what a strategy says about nodes right now."""
        if len(model.labels) == 0:
            return np.full(len(ids), -1, np.int64)
        learner = self.learners[name]
        parts = []
        for begin in range(0, len(ids), _CHUNK):
            chunk = ids[begin : begin + _CHUNK]
            sampled = self.store.sample(chunk, learner.query_sampling, learner.query_key)
            try:
                parts.append(model.predict(sampled))
            except OUT_OF_REACH:
                raise
            except OcglError:  # sums that overflow: no answer, here and in a replay
                parts.append(np.full(len(chunk), -1, np.int64))
        return np.concatenate(parts)

    def _label(self, events: list[Label], sequence: int) -> None:
        positions = self.store.positions(ids_array([event.id for event in events])).astype(np.int64)
        labels = [event.label for event in events]
        numbers = np.asarray(self.classes.numbers(labels), np.int64)
        self.known_labels |= dict.fromkeys(labels)
        for scores in self.scores.values():
            scores.score(positions, numbers, self.store.arrived, sequence)
        self.waiting.add(positions, numbers)
        self._known.rows[positions] = numbers

    def _learn(self, record: Batch, sequence: int) -> None:
        positions = self.store.find(ids_array(record.ids)) if record.ids else np.empty(0, np.int32)
        labels = self.waiting.take(positions[positions >= 0].tolist())
        self.owed = self.owed and len(self.waiting) > 0
        if not labels:
            return
        ids = self.store.ids_at(np.array(list(labels), np.int64))
        batch = Labels(ids, np.array(list(labels.values()), np.int64))
        for name, learner in self.learners.items():
            try:
                learned = learner.learn(batch)
                if name == self.main and learned is not None:
                    self.cost = learned.cost, _update_bound(learner, len(labels))
            except OUT_OF_REACH:
                raise
            except OcglError:  # the same in a replay: sums that overflow, say
                self.failed[name] = self.failed.get(name, 0) + 1
            else:
                self.models[name].learned_at = sequence
        self.batches += 1

    def _publish(self, record: Publish) -> None:
        model = self.models[record.strategy]
        if model.solving is None:
            raise StateError(f"weights of {record.strategy} are published, but were not solved for")
        model.published = model.solving if isinstance(model.solving, Weights) else model.solving()
        model.solving = None

    # Questions

    def answer(self, ids: list[Id]) -> tuple[AnyArray, FloatArray, AnyArray, Any, Any]:
        """Return classes, scores, their columns, the cost and its bound, as of now."""
        learner, model = self.learners[self.main], self.models[self.main]
        unique = list(dict.fromkeys(ids))
        sampled = self.store.sample(ids_array(unique), learner.query_sampling, learner.query_key)
        labels = model.labels
        place = {id: i for i, id in enumerate(unique)}
        scores = model.scores(sampled) if len(labels) else np.empty((len(unique), 0), np.float32)
        best = labels[scores.argmax(1)] if len(labels) else np.full(len(unique), -1, np.int64)
        order = [place[id] for id in ids]
        sampling = learner.query_sampling
        bound = sampling.bound(len(unique), self.store.features.row_bound) if sampling.bounded else None
        return self.classes.named(best[order]), scores[order], self.classes.named(labels), sampled.cost, bound

    def answer_new(self, x: AnyArray, neighbors: list[Id]) -> tuple[AnyArray, FloatArray, AnyArray, Any, Any]:
        """Answer about a node that is not there, with edges to nodes that are; it is not added."""
        learner, model = self.learners[self.main], self.models[self.main]
        sampling, labels = learner.query_sampling, model.labels
        neighborhood = around(self.store, x, neighbors, sampling, learner.query_key)
        scores = model.scores(neighborhood) if len(labels) else np.empty((1, 0), np.float32)
        best = labels[scores.argmax(1)] if len(labels) else np.full(1, -1, np.int64)
        bound = sampling.bound(1, 4 * self.config.features + 8) if sampling.bounded else None
        return self.classes.named(best), scores, self.classes.named(labels), neighborhood.cost, bound

    def neighborhood(self, id: Id) -> Json:
        """Return the sampled neighbourhood that an answer about a node rests on, to be drawn."""
        learner = self.learners[self.main]
        found = self.store.sample(ids_array([id]), learner.query_sampling, learner.query_key)
        hops = np.searchsorted(np.array(found.sizes), np.arange(len(found.nodes)), side="right")
        names = [self.known_label(position) for position in found.nodes.tolist()]
        ids = self.store.ids_at(found.nodes).tolist()
        nodes = [{"id": i, "hop": h, "label": n} for i, h, n in zip(ids, hops.tolist(), names, strict=True)]
        rows = np.repeat(np.arange(len(found.indptr) - 1), np.diff(found.indptr))
        return {"nodes": nodes, "edges": np.stack([rows, found.indices]).T.tolist()}

    def known_label(self, position: int) -> Any:
        """Return the class of the node at a position of arrival; None if its label has not come."""
        number = self._known.rows[position]
        return None if number < 0 else self.classes.named(np.array([number])).tolist()[0]

    def troubles(self) -> dict[str, tuple[int, int]]:
        """Return for each strategy the batches that could not be learned, and the losses that were not finite."""
        return {
            name: (self.failed.get(name, 0), int(getattr(learner.strategy, "nonfinite_losses", 0)))
            for name, learner in self.learners.items()
        }

    @property
    def settled_sequence(self) -> int:
        """Record up to which nothing is left to be solved for; a solve that has failed is not waited for."""
        return self.models[self.main].settled_at(self.sequence)

    @property
    def weights_sequence(self) -> int:
        """Record up to which the answering weights know."""
        return self.models[self.main].weights_at(self.sequence)

    # Keeping

    def state(self) -> State:
        """Return everything but the graph."""
        waiting = self.waiting.state()
        facts: Json = {
            "sequence": self.sequence,
            "main": self.main,
            "classes": self.classes.facts(),
            "known_labels": list(self.known_labels),
            "accepted": [[key, one.accepted, one.sequence, one.digest] for key, one in self.accepted.items()],
            "offsets": self.offsets,
            "batches": self.batches,
            "events": self.events,
            "owed": self.owed,
            "failed": self.failed,
            "abandoned": {name: model.abandoned_at for name, model in self.models.items()},
            "learned_at": {name: model.learned_at for name, model in self.models.items()},
            "published": [name for name, model in self.models.items() if model.published is not None],
            "solving": [name for name, model in self.models.items() if model.solving is not None],
        }
        state = State({"known": self._known.rows.copy()}, facts).include("waiting", waiting)
        for number, name in enumerate(self.learners):
            state.include(f"learner {number}", self.learners[name].state())
            state.include(f"scores {number}", self.scores[name].state())
            model = self.models[name]
            if model.published is not None:
                state.include(f"published {number}", model.published.state())
            if model.solving is not None:
                found = model.solving if isinstance(model.solving, Weights) else model.solving()
                state.include(f"solving {number}", found.state())
        return state

    def load_state(self, state: State) -> None:
        """Take a saved state; the graph must be that of the same record."""
        facts = state.facts
        self.sequence, self.main, self.batches = facts["sequence"], facts["main"], facts["batches"]
        self.events, self.owed = facts["events"], facts["owed"]
        self.classes.load(facts["classes"])
        self.known_labels = dict.fromkeys(facts["known_labels"])
        self.accepted = {key: Accepted(count, at, digest) for key, count, at, digest in facts["accepted"]}
        self.offsets, self.failed = dict(facts["offsets"]), dict(facts["failed"])
        self._known = Growable(np.int64)
        self._known.extend(state.arrays["known"])
        self.waiting.load_state(state.part("waiting"))
        for number, name in enumerate(self.learners):
            self.learners[name].load_state(state.part(f"learner {number}"))
            self.scores[name].load_state(state.part(f"scores {number}"))
            model = self.models[name]
            model.learned_at, model.abandoned_at = facts["learned_at"][name], facts["abandoned"][name]
            model.published = model.solving = None
            if name in facts["published"]:
                model.published = Weights.from_state(state.part(f"published {number}"))
            if name in facts["solving"]:
                model.solving = Weights.from_state(state.part(f"solving {number}"))

    def state_hash(self, graph: bool = True) -> str:
        """Return the SHA-256 of graph and state: two services with the same one answer alike for ever.

        Args:
            graph: whether to read the whole graph; otherwise its numbers of nodes and edges count.
        """
        digest = hashlib.sha256(self.state().checksum().encode())
        for part in graph_bytes(self.store) if graph else [graph_size(self.store)]:
            digest.update(part)
        return digest.hexdigest()


def _update_bound(learner: Learner, nodes: int) -> Cost | None:
    strategy = learner.strategy
    return strategy.update_bound(nodes, learner.store.features.row_bound) if strategy.sampling.bounded else None
