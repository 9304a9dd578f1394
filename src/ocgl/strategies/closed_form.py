"""What linear-Gaussian learners share: running moments of fixed features, and a classifier solved for when asked."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, NonNegativeInt
from pydantic.dataclasses import dataclass
from scipy.linalg import cho_factor, cho_solve

from ocgl.errors import ConfigError, StateError
from ocgl.graph import Batch, Look, Neighborhood
from ocgl.graph.features import Table
from ocgl.models.moments import Moments
from ocgl.models.views import View
from ocgl.state import State
from ocgl.strategies.base import STRICT, Strategy
from ocgl.types import DoubleArray, FloatArray, IntArray


@dataclass(kw_only=True, config=STRICT)
class ClosedForm(Strategy):
    """A classifier that is a function of running moments alone: no replay, no gradient, no dependence on order.

    A node is seen once, with the view of its neighbourhood at that time. The classifier is solved for at the first
    question after an update and kept until the next.
    """

    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"shrinkage": (0.01, 0.03, 0.1, 0.3)}

    view: str = "own+mean1"
    project: NonNegativeInt = 1024
    shrinkage: float = Field(default=0.1, gt=0, le=1)

    def __post_init__(self) -> None:
        self._view = View(self.view, self.project, self.seed)
        self._moments: Moments | None = None
        self._width = 0
        self._solved: tuple[int, DoubleArray, DoubleArray] | None = None
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
        if not batch.known.any():
            return
        rows = self._view.encode(seen)[batch.known]
        if self._moments is None:
            self._width = seen.width
            self._moments = Moments(rows.shape[1])
        self._moments.add(rows, batch.labels[batch.known])
        self.updates += 1

    def merge(self, other: Self) -> None:
        """Add what another learner of the same hyperparameters has learned, from another part of a stream."""
        if (self.hyperparameters(), self.seed) != (other.hyperparameters(), other.seed):
            raise ConfigError("only learners of the same hyperparameters and seed can be merged")
        if other._moments is None:
            return
        if self._moments is None:
            self._width = other._width
            self._moments = Moments(other._moments.width)
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
        """The moments, the classifier and the projection."""
        if self._moments is None:
            return 0
        classifier = 8 * (self._moments.width + 1) * len(self._moments.labels)
        return self._moments.nbytes + classifier + self._view.nbytes

    def state(self) -> State:
        """Give the moments."""
        state = State({}, {"updates": self.updates, "width": self._width})
        return state if self._moments is None else state.include("moments", self._moments.state())

    def take_state(self, state: State) -> None:
        """Take the moments."""
        self._moments = self._solved = None
        self._width, self.updates = state.facts["width"], state.facts["updates"]
        if self._width:
            part = state.part("moments")
            width = self._view.width(self._width)
            if part.arrays["second"].shape != (width, width):
                raise StateError(
                    f"the state is of another view: {part.arrays['second'].shape[0]} features, not {width}"
                )
            self._moments = Moments(width)
            self._moments.load_state(part)


def variance(within: DoubleArray, means: DoubleArray) -> float:
    """Give the mean variance of a feature, with a floor for features that do not vary (relative to their size)."""
    return max(float(np.trace(within)) / len(within), 1e-9 * float(np.square(means).mean()), 1e-12)


def solved(matrix: DoubleArray, right: DoubleArray, ridge: float) -> DoubleArray:
    """Solve (matrix + ridge I) X = right for a matrix given by its lower triangle, which is overwritten."""
    matrix[np.diag_indices_from(matrix)] += ridge
    found: DoubleArray = cho_solve(cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False), right)
    return found
