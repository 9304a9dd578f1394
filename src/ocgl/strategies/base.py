"""What every strategy is: it learns from batches and predicts for nodes, and knows nothing else."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field, PositiveInt
from pydantic.dataclasses import dataclass

from ocgl.errors import StateError, WrongLookError, WrongWidthError
from ocgl.graph import UNKNOWN, Batch, Cost, Look, Neighborhood
from ocgl.graph.features import Table
from ocgl.graph.look import Degrees, Norm
from ocgl.state import State
from ocgl.types import FloatArray, IntArray, Json

Cap = PositiveInt | Literal["all"]
Fanout = Cap | tuple[Cap, ...]
"""Neighbours per node, or one such cap for each hop, first hop first."""


def caps_of(fanout: Fanout) -> int | tuple[int | None, ...] | None:
    """Give a fan-out as a look takes it."""
    if isinstance(fanout, tuple):
        return tuple(None if cap == "all" else cap for cap in fanout)
    return None if fanout == "all" else fanout


STRICT = ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False)
"""How the hyperparameters of a strategy, its constructor's arguments, are checked."""


@dataclass(kw_only=True, config=STRICT)
class Strategy(ABC):
    """A learner of node labels. Its constructor's arguments are its hyperparameters.

    A strategy receives batches: bounded looks at nodes, and their labels. It has no way to ask for tasks, for the
    stream, or for held-out labels.
    """

    name: ClassVar[str]
    reference: ClassVar[str]
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """The paper's search space, in the order in which ties are broken."""
    offline: ClassVar[bool] = False
    """Whether the method is no online learner but a bound on them."""

    replays: ClassVar[str] = "nothing"
    """What a remembered node comes back as."""

    seed: int = Field(default=0, ge=0)
    fanout: Fanout = 10

    @property
    @abstractmethod
    def look(self) -> Look:
        """How the strategy wants to see nodes."""

    @abstractmethod
    def learn(self, batch: Batch) -> None:
        """Learn from one batch. Nodes without a label teach nothing."""

    @property
    @abstractmethod
    def labels(self) -> IntArray:
        """The classes known so far, one per column of the scores."""

    @abstractmethod
    def scores(self, seen: Neighborhood) -> FloatArray:
        """Score every known class for every node looked at. Changes nothing."""

    @property
    @abstractmethod
    def memory_bytes(self) -> int:
        """Bytes kept between batches: parameters, optimizer, buffers and all."""

    @abstractmethod
    def state(self) -> State:
        """Give everything that learning has changed."""

    @abstractmethod
    def take_state(self, state: State) -> None:
        """Take over a state from a strategy of the same hyperparameters; may raise halfway."""

    def load_state(self, state: State) -> None:
        """Become what the state was taken from, or stay as it is and say that the state does not fit."""
        before = self.state()
        try:
            self.take_state(state)
        except (StateError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            self.take_state(before)
            raise StateError(f"the state does not fit {self.name} with these hyperparameters: {error!r}") from error

    @property
    def needs_store(self) -> bool:
        """Whether batches must come with the store they were looked up in."""
        return False

    def starts_from_sums(self, table: Table) -> bool:
        """Tell whether scores need no more of a look than its aggregated features and what lies before the last hop.

        Then the sums of nodes that are asked about again and again can be kept while the graph does not change there.
        """
        return False

    @property
    def looks_again(self) -> int:
        """How many nodes an update may look at beside those of its batch."""
        return 0

    @property
    def further_cost(self) -> Cost:
        """What the last update has touched by that."""
        return Cost()

    @property
    def memory_nodes(self) -> int:
        """How many nodes' worth of past the strategy holds."""
        return 0

    def predict(self, seen: Neighborhood, candidates: IntArray | None = None) -> IntArray:
        """Give the best label of each node, -1 before any is known. Changes nothing.

        `candidates` (nodes x k) restricts each node to some classes, where the setting tells them.
        """
        labels = self.labels
        if len(labels) == 0:
            return np.full(seen.seeds, UNKNOWN, np.int64)
        scores = self.scores(seen)
        if candidates is not None:
            possible = (candidates[:, :, None] == labels).any(1)
            scores = np.where(possible, scores, -np.inf)
            return np.where(possible.any(1), labels[scores.argmax(1)], UNKNOWN)
        best: IntArray = labels[scores.argmax(1)]
        return best

    @classmethod
    def representative(cls, settings: Json) -> Json:
        """Give the first of the grid's settings that provably give the same run as these."""
        return settings

    def hyperparameters(self) -> Json:
        """Give the constructor's arguments, without the seed."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values.pop("seed")
        return values

    def clone(self) -> Self:
        """Copy the strategy as it is now; the two go on independently."""
        twin = type(self)(seed=self.seed, **self.hyperparameters())
        twin.load_state(self.state())
        return twin

    def _check_look(self, seen: Neighborhood, width: int) -> None:
        """Refuse a look that is not what the method asked for; `width` is what it has learned from, 0 before that."""
        if width and seen.width != width:
            raise WrongWidthError(f"features of width {seen.width} given, the model has learned from {width}")
        look = self.look
        if (seen.hops, seen.norm) != (look.hops, look.norm):
            given = f"{seen.hops} hops with {seen.norm} weights"
            raise WrongLookError(f"a look of {given} given, {self.name} needs {look.hops} with {look.norm}")

    def _looking(self, hops: int, norm: Norm, degrees: Degrees = "sampled") -> Look:
        return Look(hops, caps_of(self.fanout), norm, degrees)
