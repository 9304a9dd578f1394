"""A strategy with a graph store: nodes arrive, labels arrive, and every node can be asked about at any time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from pydantic import TypeAdapter, ValidationError

from ocgl.errors import ConfigError, EmptyBatchError, StateError
from ocgl.graph import Arrival, Batch, Cost, GraphStore, Labels, MeteredStore, Neighborhood, NeighborSampling
from ocgl.graph.events import candidates_of, labels_of
from ocgl.graph.ids import ids_of
from ocgl.rng import generator, key, restore, state_of
from ocgl.state import State
from ocgl.strategies._core.base import Fanout, Strategy, caps_of
from ocgl.strategies._core.class_names import ClassNames, as_labels
from ocgl.strategies._core.registry import make_strategy
from ocgl.strategies._core.waiting import WaitingLabels
from ocgl.types import AnyArray, DoubleArray, FloatArray, Json

_FANOUT: TypeAdapter[Fanout] = TypeAdapter(Fanout)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a learner says of some nodes.

    Attributes:
        ids: the nodes.
        labels: the class of each, -1 (None where classes have names) while none is known.
        classes: the classes known so far, one per column of scores and probabilities.
        scores: the method's scores, of shape [num_nodes, num_classes].
        probabilities: the scores as probabilities.
        calibrated: whether a probability of 0.8 is right in 80 of 100 cases; no method of this package promises that.
        cost: what was read of the graph.
        bound: the most that could have been read, whatever the graph; None for whole neighbourhoods.
    """

    ids: AnyArray
    labels: AnyArray
    classes: AnyArray
    scores: FloatArray
    probabilities: DoubleArray
    calibrated: bool
    cost: Cost
    bound: Cost | None


class Learner:
    """Connects a strategy to a graph store.

    Neighbourhoods for training are sampled with a new key for each batch. Neighbourhoods for predictions are sampled
    with one fixed key: they depend on the node and its degree alone, and predicting changes nothing.

    Ids and classes are the user's own: integers or text.

    Args:
        strategy: the strategy to train, or the name of one, which is made with its defaults.
        eval_fanout: fan-out of neighbourhoods for predictions; `same` for the strategy's own.
        chunk: nodes per neighbourhood sample in `predict`.
        store: an empty store, in memory if none is given; `GraphStore.open(folder)` for one that lasts.
        device: where the network of the strategy computes: `cpu`, `cuda`, `mps`, or `auto` for the first there is.
            Sampling stays on the CPU, and so do methods without a network.
        batch_size: labels wait until there are this many, and are learned together; None to learn labels as they are
            given.

    >>> learner = Learner("ridge", batch_size=2)
    >>> learner.add(["a", "b", "c"], [[1, 0], [0, 1], [1, 0]], edges=[["c"], ["a"]])
    >>> learner.learn(["a"], ["fine"])
    >>> learner.waiting
    1
    >>> _ = learner.learn(["b"], ["fraud"])
    >>> learner.predict(["c"]).tolist()
    ['fine']
    """

    def __init__(
        self,
        strategy: Strategy | str,
        eval_fanout: Fanout | Literal["same"] = "same",
        chunk: int = 512,
        store: GraphStore | None = None,
        device: str = "cpu",
        batch_size: int | None = None,
    ) -> None:
        if isinstance(strategy, str):
            strategy = make_strategy(strategy)
        if not isinstance(strategy, Strategy):
            given = f"the class {strategy.__name__}" if isinstance(strategy, type) else f"a {type(strategy).__name__}"
            raise ConfigError(f"a learner takes a strategy such as ER(lr=0.01), or the name of one, not {given}")
        for name, value in (("chunk", chunk), ("batch_size", 1 if batch_size is None else batch_size)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name} must be a positive whole number, not {value!r}")
        if store is not None and not isinstance(store, GraphStore):
            raise ConfigError(f"store must be a GraphStore, not a {type(store).__name__}")
        self.strategy = strategy.to(device)
        self.store = GraphStore() if store is None else store
        self.version = 0  # counts what may change a prediction
        self.chunk = chunk
        self.eval_fanout = eval_fanout
        self.batch_size = batch_size
        self._rng = generator(strategy.seed, "neighbors")
        self._classes = ClassNames()
        self._waiting = WaitingLabels()
        self.query_key = key(generator(strategy.seed, "evaluation"))
        self.query_sampling = _query_sampling(strategy.sampling, eval_fanout)

    # The graph

    def arrive(self, arrival: Arrival) -> None:
        """Add nodes to the graph."""
        self.version += 1
        self.store.arrive(arrival)

    def add(self, ids: ArrayLike, x: Any, edges: ArrayLike = ((), ()), times: ArrayLike | None = None) -> None:
        """Add nodes with their edges; see `GraphStore.add`."""
        self.store.add(ids, x, edges, times)

    def add_edges(self, edges: ArrayLike) -> int:
        """Add edges between nodes that are there; see `GraphStore.add_edges`."""
        return self.store.add_edges(edges)

    def update(self, ids: ArrayLike, x: Any) -> None:
        """Replace the features of nodes; see `GraphStore.update`."""
        self.store.update(ids, x)

    def remove(self, ids: ArrayLike) -> None:
        """Remove nodes from the graph; see `GraphStore.remove`. What they have taught stays."""
        self.store.remove(ids)

    def remove_edges(self, edges: ArrayLike) -> None:
        """Remove edges; see `GraphStore.remove_edges`."""
        self.store.remove_edges(edges)

    # Learning

    def batch(self, labels: Labels) -> Batch:
        """Sample the neighbourhood of labelled nodes for training."""
        if len(labels.ids) == 0:
            raise EmptyBatchError("no labelled node to learn from")
        before = state_of(self._rng)
        try:
            drawn = key(self._rng)
            neighborhood = self.store.sample(labels.ids, self.strategy.sampling, drawn)
            handle = MeteredStore(self.store) if self.strategy.needs_store else None
            numbers = self._classes.peek(labels.labels)
            batch = Batch(neighborhood, numbers, self._candidates(labels.candidates), handle, drawn)
            self._classes.numbers(labels.labels)
            return batch
        except BaseException:
            restore(self._rng, before)  # a refused batch leaves no trace
            raise

    @overload
    def learn(self, labels: Batch) -> Batch: ...
    @overload
    def learn(self, labels: Labels | ArrayLike | None, classes: Any = None) -> Batch | None: ...
    def learn(self, labels: Labels | Batch | ArrayLike | None, classes: Any = None) -> Batch | None:
        """Learn labels that have become known, with the graph as it is now; return the last batch that was learned.

        Labels may come whenever they become known, long after their nodes. With `batch_size`, they wait until a batch
        is full; a second label of a node that waits replaces the first. `learn_waiting` learns what waits.

        Args:
            labels: labels with their nodes, or the ids of nodes; None teaches nothing.
            classes: the class of each node, if `labels` are ids.
        """
        if labels is None:
            return None
        if isinstance(labels, Batch):
            return self._learned(labels)
        if not isinstance(labels, Labels):
            if classes is None:
                raise ConfigError("give the class of each node as well: learner.learn(ids, classes)")
            labels = Labels(ids_of(labels), as_labels(classes))
        if self.batch_size is None:
            return self._learned(self.batch(labels))
        if labels.candidates is not None:
            raise ConfigError("labels with candidates cannot wait for a batch; make the learner without batch_size")
        positions = self.store.positions(labels.ids)
        if len(positions) == 0:
            return None
        numbers = labels_of(self._classes.peek(labels.labels), len(positions))
        self._classes.numbers(labels.labels)
        self._waiting.add(positions, numbers)
        last = None
        while len(self._waiting) >= self.batch_size:
            last = self._learn_some(self.batch_size) or last
        return last

    def learn_waiting(self) -> Batch | None:
        """Learn the labels that wait for a full batch."""
        return self._learn_some(len(self._waiting)) if len(self._waiting) else None

    @property
    def waiting(self) -> int:
        """Number of labels that wait for a full batch."""
        return len(self._waiting)

    def _learn_some(self, count: int) -> Batch | None:
        """Learn the labels that have waited longest; those of nodes that were removed meanwhile are left out."""
        positions, numbers = self._waiting.first(count)
        there = self.store.is_present(positions)
        batch = None
        if there.any():
            numbered = Labels(self.store.ids_at(positions[there]), self._classes.named(numbers[there]))
            batch = self._learned(self.batch(numbered))
        self._waiting.drop(len(positions))
        return batch

    def _learned(self, batch: Batch) -> Batch:
        self.version += 1
        self.strategy.learn(batch)
        return batch

    def merge(self, other: "Learner") -> None:
        """Add what another learner of the same method has learned from another part of the stream.

        Only methods whose memory is a sum over nodes can be merged. The stores stay as they are.
        """
        merge = getattr(self.strategy, "merge", None)
        if merge is None:
            raise ConfigError(f"{self.strategy.name} cannot be merged: what it has learned is not a sum over nodes")
        if self._classes.facts() != other._classes.facts():
            raise ConfigError("learners can be merged if they number their classes alike")
        merge(other.strategy)
        self.version += 1

    # Questions

    @property
    def classes(self) -> AnyArray:
        """The classes known so far, one per column of `scores` and `predict_proba`."""
        return self._classes.named(self.strategy.labels)

    def predict(self, ids: ArrayLike, candidates: Any = None, chunk: int | None = None) -> AnyArray:
        """Return the class of each node, -1 (None where classes have names) while none is known.

        Any node can be asked about from its arrival on.

        Args:
            ids: the nodes.
            candidates: classes that each node can have (nodes x k), where the setting tells.
            chunk: nodes per neighbourhood sample; the learner's own if not given.
        """
        wanted = ids_of(ids)
        if len(self.store.positions(wanted)) == 0:
            return self._classes.named(np.empty(0, np.int64))
        allowed = self._candidates(candidates)
        if allowed is not None:
            allowed = candidates_of(allowed, len(wanted))
        unique, first, inverse = np.unique(wanted, return_index=True, return_inverse=True)
        parts = []
        for part, neighborhood in self._samples(unique, chunk):
            parts.append(self.strategy.predict(neighborhood, None if allowed is None else allowed[first[part]]))
        return self._classes.named(np.concatenate(parts)[inverse])

    def scores(self, ids: ArrayLike) -> FloatArray:
        """Return the score of every known class for every node; `classes` are the columns."""
        return self.answer(ids).scores

    def predict_proba(self, ids: ArrayLike) -> DoubleArray:
        """Return the probability of every known class for every node; `classes` are the columns.

        The probabilities are not calibrated: they rank classes, and say little about how often the first is right.
        """
        return self.answer(ids).probabilities

    def answer(self, ids: ArrayLike) -> Answer:
        """Return classes, scores and probabilities of nodes, with what the answer has cost."""
        wanted = ids_of(ids)
        if len(self.store.positions(wanted)) == 0:
            raise EmptyBatchError("no node to ask about; ids is empty")
        unique, inverse = np.unique(wanted, return_inverse=True)
        known, cost, parts = len(self.strategy.labels), Cost(), []
        for _, neighborhood in self._samples(unique, None):
            found = self.strategy.scores(neighborhood) if known else np.empty((neighborhood.seeds, 0), np.float32)
            parts.append(found)
            cost += neighborhood.cost
        scores = np.concatenate(parts)[inverse]
        best = self.strategy.chosen(scores) if known else np.full(len(wanted), -1, np.int64)
        sampling = self.query_sampling
        bound = sampling.bound(len(unique), self.store.features.row_bound) if sampling.bounded else None
        probabilities = self.strategy.probabilities(scores) if known else scores.astype(np.float64)
        return Answer(wanted, self._classes.named(best), self.classes, scores, probabilities, False, cost, bound)

    def _samples(self, ids: AnyArray, chunk: int | None) -> Iterator[tuple[slice, Neighborhood]]:
        """Sample the neighbourhoods of distinct nodes for predictions, some nodes at a time."""
        size = chunk or self.chunk
        for begin in range(0, len(ids), size):
            part = slice(begin, begin + size)
            yield part, self.store.sample(ids[part], self.query_sampling, self.query_key)

    def _candidates(self, candidates: Any) -> Any:
        return None if candidates is None else self._classes.candidates(candidates)

    # Keeping

    def save(self, folder: str | PathLike[str]) -> None:
        """Save the learner with its graph. It can be saved to the same folder again and again.

        A crash leaves the last save as it was. If the store is `GraphStore.open(folder / "graph")`, only what has
        changed in the graph since the last save is written.
        """
        from ocgl.strategies._core.saved import save

        save(self, Path(folder))

    @classmethod
    def load(
        cls, folder: str | PathLike[str], *, strategy: Strategy | None = None, trust: bool = False, device: str = "cpu"
    ) -> "Learner":
        """Load a learner that `save` has saved; it goes on as if it had never stopped.

        Args:
            folder: where it was saved.
            strategy: a new strategy to load into, for one whose class is in no file and no package.
            trust: execute the files of the user's own strategy or network that the folder names.
            device: where to compute.
        """
        from ocgl.strategies._core.saved import load

        return load(Path(folder), strategy, trust, device)

    def state(self) -> State:
        """Return the state of the strategy and of the sampling generator; the store is not part of it."""
        facts: Json = {"rng": state_of(self._rng)}
        if self._classes.are_text or len(self._waiting):
            facts["classes"] = self._classes.facts()
        state = State({}, facts)
        if len(self._waiting):
            state.include("waiting", self._waiting.state())
        return state.include("strategy", self.strategy.state())

    def load_state(self, state: State) -> None:
        """Take the state of the strategy and of the sampling generator."""
        part = state.part("strategy")
        if len(self.store) and part.facts.get("width", 0) not in (0, self.store.features.width):
            text = f"the state is of features of width {part.facts['width']}"
            raise StateError(f"{text}, but the graph has features of width {self.store.features.width}")
        rng: Json = state.facts.get("rng", {})
        try:
            restore(np.random.default_rng(), rng)  # refuses what is no state of a generator
        except (TypeError, ValueError, KeyError) as error:
            raise StateError(f"the state has no state of the sampling generator: {error!r}") from error
        self.version += 1
        self.strategy.load_state(part)
        restore(self._rng, rng)
        self._classes = ClassNames()
        self._classes.load(state.facts.get("classes", {}))
        self._waiting = WaitingLabels()
        if "waiting" in state.facts:
            self._waiting.load_state(state.part("waiting"))


def _query_sampling(sampling: NeighborSampling, fanout: Fanout | Literal["same"]) -> NeighborSampling:
    if fanout == "same":
        return sampling
    try:
        checked = _FANOUT.validate_python(tuple(fanout) if isinstance(fanout, list) else fanout, strict=True)
    except ValidationError as error:
        raise ConfigError(f"eval_fanout {fanout!r}: give a whole number from 1, all, or a list of them") from error
    return replace(sampling, fanout=caps_of(checked))
