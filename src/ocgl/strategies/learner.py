"""A strategy with a local store: nodes come in, labels come in, questions are answered at any time."""

from dataclasses import replace
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from ocgl.errors import ConfigError, EmptyBatchError
from ocgl.graph import Arrival, Batch, Labels, Look, Store
from ocgl.graph.events import candidates_of
from ocgl.rng import generator, key, restore, state_of
from ocgl.state import State
from ocgl.strategies.base import Fanout, Strategy, caps_of
from ocgl.types import IntArray


class Learner:
    """Wires a strategy to the Past Information Store.

    Training looks use a fresh key per batch; questions use one fixed key, so that the sampled neighbourhood of a
    node depends on the node and its degree alone, and asking changes nothing. `predict` answers in chunks of
    `chunk` nodes, each one look. `store` is the Past Information Store, empty; one in memory if none is given.
    """

    def __init__(
        self,
        strategy: Strategy,
        eval_fanout: Fanout | Literal["same"] = "same",
        chunk: int = 512,
        store: Store | None = None,
    ) -> None:
        if chunk < 1:
            raise ConfigError(f"chunk must be positive, not {chunk}")
        self.strategy = strategy
        self.store = Store() if store is None else store
        self.version = 0  # counts what may change an answer
        self.chunk = chunk
        self._rng = generator(strategy.seed, "neighbors")
        self.question_key = key(generator(strategy.seed, "evaluation"))
        self.question_look = _question_look(strategy.look, eval_fanout)

    def arrive(self, arrival: Arrival) -> None:
        """Let nodes join the graph."""
        self.version += 1
        self.store.arrive(arrival)

    def batch(self, labels: Labels) -> Batch:
        """Look at labelled nodes, once, for training."""
        if len(labels.ids) == 0:
            raise EmptyBatchError("no labelled node to learn from")
        before = state_of(self._rng)
        try:
            seen = self.store.look(labels.ids, self.strategy.look, key(self._rng))
            return Batch(seen, labels.labels, labels.candidates, self.store)
        except BaseException:
            restore(self._rng, before)  # what was refused leaves no trace
            raise

    @overload
    def learn(self, labels: Labels | Batch) -> Batch: ...
    @overload
    def learn(self, labels: None) -> None: ...
    def learn(self, labels: Labels | Batch | None) -> Batch | None:
        """Learn from labels that have become known, with the graph as it is now. Gives what was seen.

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

        Only methods whose memory is a sum can be merged; the stores stay as they are.
        """
        merge = getattr(self.strategy, "merge", None)
        if merge is None:
            raise ConfigError(f"{self.strategy.name} cannot be merged: what it has learned is not a sum over nodes")
        merge(other.strategy)
        self.version += 1

    def predict(self, ids: ArrayLike, candidates: IntArray | None = None, chunk: int | None = None) -> IntArray:
        """Give the label of each node, -1 while none is known. Any node can be asked from its arrival on."""
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
            seen = self.store.look(unique[part], self.question_look, self.question_key)
            parts.append(self.strategy.predict(seen, None if candidates is None else candidates[first[part]]))
        return np.concatenate(parts)[inverse]

    def state(self) -> State:
        """Give the strategy and the sampling generator; the store is the stream's arrivals."""
        return State({}, {"rng": state_of(self._rng)}).include("strategy", self.strategy.state())

    def load_state(self, state: State) -> None:
        """Take the strategy and the sampling generator."""
        self.version += 1
        self.strategy.load_state(state.part("strategy"))
        restore(self._rng, state.facts["rng"])


def _question_look(look: Look, fanout: Fanout | Literal["same"]) -> Look:
    if fanout == "same":
        return look
    return replace(look, fanout=caps_of(fanout))
