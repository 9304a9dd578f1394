"""What linear-Gaussian learners share: running moments of fixed features, and a classifier solved for when asked."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, NonNegativeInt
from pydantic.dataclasses import dataclass
from scipy.linalg import cho_factor, cho_solve

from ocgl.buffers.revisits import RevisitBuffer
from ocgl.errors import ConfigError, NeedsStoreError, StateError, WrongWidthError
from ocgl.graph import Batch, Cost, Look, Neighborhood, Store
from ocgl.graph.features import Table
from ocgl.graph.positions import arrived, ids_at
from ocgl.models.moments import Moments
from ocgl.models.views import View
from ocgl.rng import generator, key, restore, state_of
from ocgl.state import State
from ocgl.strategies.base import STRICT, Strategy
from ocgl.types import DoubleArray, FloatArray, IntArray, Json


@dataclass(kw_only=True, config=STRICT)
class ClosedForm(Strategy):
    """A classifier that is a function of running moments alone: no replay, no gradient.

    Given what each node looked like when it was learned, the order of the nodes does not matter.

    A node is seen once, with the view of its neighbourhood at that time. With `revisit`, `buffer_size` nodes are
    remembered, and that many of them are looked at again with every batch: what was learned of them is taken back, and
    what they are now is learned, as if they had come now. The classifier is solved for at the first question after an
    update and kept until the next.
    """

    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"shrinkage": (0.01, 0.03, 0.1, 0.3), "revisit": (0, 10)}

    view: str = "own+mean1"
    project: NonNegativeInt = 1024
    shrinkage: float = Field(default=0.1, gt=0, le=1)
    revisit: NonNegativeInt = 0
    buffer_size: NonNegativeInt = 500

    def __post_init__(self) -> None:
        self._view = View(self.view, self.project, self.seed)
        self._moments: Moments | None = None
        self._width = 0
        self._solved: tuple[int, DoubleArray, DoubleArray] | None = None
        self._buffer: RevisitBuffer | None = None
        self._rng = generator(self.seed, "revisit")
        self._further = Cost()
        self.updates = 0

    @property
    def look(self) -> Look:
        """As far as the view goes, without weights."""
        return self._looking(self._view.hops, "sum")

    @abstractmethod
    def solve(self, moments: Moments) -> tuple[DoubleArray, DoubleArray]:
        """Give the weights (features x classes) and the bias of the classifier."""

    def learn(self, batch: Batch) -> None:
        """Add the labelled nodes to the moments."""
        seen = batch.neighborhood
        self._check_look(seen, self._width)
        if self.needs_store and (batch.store is None or seen.table is not batch.store.features):
            raise NeedsStoreError(f"{self.name} looks again in the store: set revisit=0 to do without")
        if not batch.known.any():
            return
        rows, labels = self._view.encode(seen)[batch.known], batch.labels[batch.known]
        if self._moments is None:
            self._begin(seen.width)
            assert self._moments is not None
        self._moments.add(rows, labels)
        if self._buffer is not None:
            assert batch.store is not None
            self._look_again(self._moments, self._buffer, batch.store)
            known = seen.nodes[: seen.seeds][batch.known]
            self._buffer.offer(ids_at(batch.store, known), rows, labels)
        self.updates += 1

    def _begin(self, width: int) -> None:
        self._width = width
        self._moments = Moments(self._view.width(width))
        if self.needs_store:
            self._buffer = RevisitBuffer(self.buffer_size, self._moments.width, generator(self.seed, "buffer"))

    def _look_again(self, moments: Moments, buffer: RevisitBuffer, store: Store) -> None:
        """Correct what was learned of the nodes whose turn it is; one that this store does not know stays as it is."""
        self._further = Cost()
        slots = buffer.turn(self.revisit)
        slots = slots[arrived(store, buffer.ids[slots])]
        if len(slots) == 0:
            return
        distinct, place = np.unique(buffer.ids[slots], return_inverse=True)  # a node may have been learned twice
        seen = store.look(distinct, self.look, key(self._rng))
        self._further = seen.cost
        now = self._view.encode(seen)[place]
        moments.remove(buffer.rows[slots], buffer.labels[slots])
        moments.add(now, buffer.labels[slots])
        buffer.rows[slots] = now

    @property
    def needs_store(self) -> bool:
        """Whether nodes are looked at again."""
        return self.revisit > 0 and self.buffer_size > 0

    @property
    def looks_again(self) -> int:
        """How many remembered nodes are looked at with a batch."""
        return self.revisit if self.needs_store else 0

    @property
    def further_cost(self) -> Cost:
        """What looking again at remembered nodes has touched."""
        return self._further

    @property
    def memory_nodes(self) -> int:
        """How many nodes are remembered."""
        return 0 if self._buffer is None else len(self._buffer)

    def merge(self, other: Self) -> None:
        """Add what another learner of the same hyperparameters has learned, from another part of a stream.

        The other's remembered nodes are not taken over: what was learned of them stays as it is.
        """
        if (self.hyperparameters(), self.seed) != (other.hyperparameters(), other.seed):
            raise ConfigError("only learners of the same hyperparameters and seed can be merged")
        if other._moments is None:
            return
        if self._width and self._width != other._width:
            raise WrongWidthError(f"learned from features of width {other._width}, this one from {self._width}")
        if self._moments is None:
            self._begin(other._width)
            assert self._moments is not None
        self._moments.merge(other._moments)
        self.updates += other.updates

    @property
    def labels(self) -> IntArray:
        """The classes seen."""
        return np.array([] if self._moments is None else self._moments.labels, np.int64)

    def scores(self, seen: Neighborhood) -> FloatArray:
        """Give the linear scores."""
        self._check_look(seen, self._width)
        weights, bias = self.classifier()
        scores: FloatArray = (self._view.encode(seen) @ weights + bias).astype(np.float32)
        return scores

    def classifier(self) -> tuple[DoubleArray, DoubleArray]:
        """Give weights and bias, solved for anew if something was learned since."""
        moments = self._moments
        assert moments is not None, "nothing has been learned yet"
        if self._solved is None or self._solved[0] != moments.version:
            self._solved = (moments.version, *self.solve(moments))
        return self._solved[1:]

    def starts_from_sums(self, table: Table) -> bool:
        """Rows that are narrowed are narrowed before they are summed."""
        return self._view.hops > 0 and self._view.narrowed(table.width) == table.width

    @property
    def memory_bytes(self) -> int:
        """The moments, the classifier, the projection and the nodes remembered."""
        if self._moments is None:
            return 0
        classifier = 8 * (self._moments.width + 1) * len(self._moments.labels)
        remembered = 0 if self._buffer is None else self._buffer.nbytes
        return self._moments.nbytes + classifier + self._view.nbytes + remembered

    def state(self) -> State:
        """Give the moments."""
        facts = {"updates": self.updates, "width": self._width, "rng": state_of(self._rng), "view": self._seen_as()}
        state = State({}, facts)
        if self._moments is not None:
            state.include("moments", self._moments.state())
        return state if self._buffer is None else state.include("buffer", self._buffer.state())

    def _seen_as(self) -> Json:
        """Say how rows are made from features: sums of other rows are of no use to it."""
        narrowed = self._view.narrowed(self._width) < self._width
        return {"parts": self._view.parts, "projection": [self.project, self.seed] if narrowed else None}

    def take_state(self, state: State) -> None:
        """Take the moments, if they are of the same view."""
        self._width, self.updates = state.facts["width"], state.facts["updates"]
        if self._width and state.facts["view"] != self._seen_as():
            raise StateError(f"the state is of another view: {state.facts['view']}")
        self._moments = self._solved = self._buffer = None
        restore(self._rng, state.facts["rng"])
        if self._width:
            self._begin(self._width)
            assert self._moments is not None
            self._moments.load_state(state.part("moments"))
            if self._buffer is not None:
                self._buffer.load_state(state.part("buffer"))


def variance(within: DoubleArray, means: DoubleArray) -> float:
    """Give the mean variance of a feature, with a floor for features that do not vary (relative to their size)."""
    return max(float(np.trace(within)) / len(within), 1e-9 * float(np.square(means).mean()), 1e-12)


def solved(matrix: DoubleArray, right: DoubleArray, ridge: float) -> DoubleArray:
    """Solve (matrix + ridge I) X = right for a matrix given by its lower triangle, which is overwritten."""
    matrix[np.diag_indices_from(matrix)] += ridge
    found: DoubleArray = cho_solve(cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False), right)
    return found
