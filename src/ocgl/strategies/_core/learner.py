"""A strategy with a graph store: nodes arrive, labels arrive, and every node can be asked about at any time."""

from dataclasses import replace
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from pydantic import TypeAdapter, ValidationError

from ocgl.errors import ConfigError, EmptyBatchError, StateError
from ocgl.graph import Arrival, Batch, GraphStore, Labels, MeteredStore, NeighborSampling
from ocgl.graph.events import candidates_of
from ocgl.rng import generator, key, restore, state_of
from ocgl.state import State
from ocgl.strategies._core.base import Fanout, Strategy, caps_of
from ocgl.strategies._core.registry import make_strategy
from ocgl.types import IntArray, Json

_FANOUT: TypeAdapter[Fanout] = TypeAdapter(Fanout)


class Learner:
    """Connects a strategy to a graph store.

    Neighbourhoods for training are sampled with a new key for each batch. Neighbourhoods for predictions are sampled
    with one fixed key: they depend on the node and its degree alone, and predicting changes nothing.

    Args:
        strategy: the strategy to train, or the name of one, which is made with its defaults.
        eval_fanout: fan-out of neighbourhoods for predictions; `same` for the strategy's own.
        chunk: nodes per neighbourhood sample in `predict`.
        store: an empty store; one in memory if none is given.
        device: where the network of the strategy computes: `cpu`, `cuda`, `mps`, or `auto` for the first there is.
            Sampling stays on the CPU, and so do methods without a network.
    """

    def __init__(
        self,
        strategy: Strategy | str,
        eval_fanout: Fanout | Literal["same"] = "same",
        chunk: int = 512,
        store: GraphStore | None = None,
        device: str = "cpu",
    ) -> None:
        if isinstance(strategy, str):
            strategy = make_strategy(strategy)
        if not isinstance(strategy, Strategy):
            given = f"the class {strategy.__name__}" if isinstance(strategy, type) else f"a {type(strategy).__name__}"
            raise ConfigError(f"a learner takes a strategy such as ER(lr=0.01), or the name of one, not {given}")
        if chunk < 1:
            raise ConfigError(f"chunk must be positive, not {chunk}")
        self.strategy = strategy.to(device)
        self.store = GraphStore() if store is None else store
        self.version = 0  # counts what may change a prediction
        self.chunk = chunk
        self._rng = generator(strategy.seed, "neighbors")
        self.query_key = key(generator(strategy.seed, "evaluation"))
        self.query_sampling = _query_sampling(strategy.sampling, eval_fanout)

    def arrive(self, arrival: Arrival) -> None:
        """Add nodes to the graph."""
        self.version += 1
        self.store.arrive(arrival)

    def batch(self, labels: Labels) -> Batch:
        """Sample the neighbourhood of labelled nodes for training."""
        if len(labels.ids) == 0:
            raise EmptyBatchError("no labelled node to learn from")
        before = state_of(self._rng)
        try:
            drawn = key(self._rng)
            neighborhood = self.store.sample(labels.ids, self.strategy.sampling, drawn)
            handle = MeteredStore(self.store) if self.strategy.needs_store else None
            return Batch(neighborhood, labels.labels, labels.candidates, handle, drawn)
        except BaseException:
            restore(self._rng, before)  # a refused batch leaves no trace
            raise

    @overload
    def learn(self, labels: Labels | Batch) -> Batch: ...
    @overload
    def learn(self, labels: None) -> None: ...
    def learn(self, labels: Labels | Batch | None) -> Batch | None:
        """Learn labels that have become known, with the graph as it is now; return the batch.

        A step of a stream may bring no labels: None teaches nothing.
        """
        if labels is None:
            return None
        self.version += 1
        batch = labels if isinstance(labels, Batch) else self.batch(labels)
        self.strategy.learn(batch)
        return batch

    def merge(self, other: "Learner") -> None:
        """Add what another learner of the same method has learned from another part of the stream.

        Only methods whose memory is a sum over nodes can be merged. The stores stay as they are.
        """
        merge = getattr(self.strategy, "merge", None)
        if merge is None:
            raise ConfigError(f"{self.strategy.name} cannot be merged: what it has learned is not a sum over nodes")
        merge(other.strategy)
        self.version += 1

    def predict(self, ids: ArrayLike, candidates: IntArray | None = None, chunk: int | None = None) -> IntArray:
        """Return the label of each node, -1 while none is known. Any node can be asked about from its arrival on.

        Args:
            ids: the nodes.
            candidates: classes that each node can have (nodes x k), where the setting tells.
            chunk: nodes per neighbourhood sample; the learner's own if not given.
        """
        if len(self.store.positions(ids)) == 0:
            return np.empty(0, np.int64)
        wanted = np.asarray(ids, np.int64)
        if candidates is not None:
            candidates = candidates_of(candidates, len(wanted))
        unique, first, inverse = np.unique(wanted, return_index=True, return_inverse=True)
        parts = []
        size = chunk or self.chunk
        for begin in range(0, len(unique), size):
            part = slice(begin, begin + size)
            neighborhood = self.store.sample(unique[part], self.query_sampling, self.query_key)
            parts.append(self.strategy.predict(neighborhood, None if candidates is None else candidates[first[part]]))
        return np.concatenate(parts)[inverse]

    def state(self) -> State:
        """Return the state of the strategy and of the sampling generator; the store is not part of it."""
        return State({}, {"rng": state_of(self._rng)}).include("strategy", self.strategy.state())

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


def _query_sampling(sampling: NeighborSampling, fanout: Fanout | Literal["same"]) -> NeighborSampling:
    if fanout == "same":
        return sampling
    try:
        checked = _FANOUT.validate_python(tuple(fanout) if isinstance(fanout, list) else fanout, strict=True)
    except ValidationError as error:
        raise ConfigError(f"eval_fanout {fanout!r}: give a whole number from 1, all, or a list of them") from error
    return replace(sampling, fanout=caps_of(checked))
