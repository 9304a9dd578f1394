"""Classifiers that are solved for from running moments, shared by SLDA and Ridge."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, NonNegativeInt
from scipy.linalg import cho_factor, cho_solve

from ocgl.buffers import RevisitBuffer
from ocgl.errors import ConfigError, NotFiniteError, StateError, WrongWidthError
from ocgl.graph import Batch, MeteredStore, Neighborhood, NeighborSampling
from ocgl.graph.features import Table
from ocgl.nn.moments import Moments
from ocgl.nn.neighbor_features import NeighborFeatures
from ocgl.rng import generator, key
from ocgl.state import State
from ocgl.strategies._core.base import Strategy, strategy
from ocgl.types import DoubleArray, FloatArray, IntArray, Json


@strategy
class ClosedForm(Strategy):
    """A linear classifier that is a function of running moments: no gradient, no replay.

    Given the features of each node when it was learned, the order of the nodes does not matter. The classifier is
    solved for at the first prediction after an update and cached until the next update.

    With `revisit`, the strategy remembers `buffer_size` nodes and samples some of them again with every batch: it
    subtracts what was learned of them and adds their present features.

    Args:
        view: features of a node, parts joined by `+` (see `NeighborFeatures`).
        project: multiply rows wider than this by a seeded Gaussian matrix of this width (0: never).
        shrinkage: strength of the regularisation.
        revisit: remembered nodes that are sampled again with every batch.
        buffer_size: nodes that are remembered for that.
    """

    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"shrinkage": (0.01, 0.03, 0.1, 0.3), "revisit": (0, 10)}
    keeps: ClassVar[str] = "D^2 + 256 D; M D more with `revisit`"
    update_cost: ClassVar[str] = "B D^2"
    without_store: ClassVar[str] = "set revisit=0 to do without"

    view: str = "own+mean1"
    project: NonNegativeInt = 1024
    shrinkage: float = Field(default=0.1, gt=0, le=1)
    revisit: NonNegativeInt = 0
    buffer_size: NonNegativeInt = 500

    def setup(self) -> None:
        """Make the feature map and the generator of revisits."""
        super().setup()
        self.features = NeighborFeatures(self.view, self.project, self.seed)
        self._rng = generator(self.seed, "revisit")
        self._solution: Solution | None = None

    def build(self, width: int) -> None:
        """Make the moments, the cached classifier and the buffer."""
        super().build(width)
        self.encoding = Encoding(self.features, self.project, self.seed, width)
        self.moments = Moments(self.features.width(width))
        self._solution = Solution(self.moments)
        if self.needs_store:
            self.buffer = RevisitBuffer(self.buffer_size, self.moments.width, self.seed)

    @abstractmethod
    def solve(self, moments: Moments) -> tuple[DoubleArray, DoubleArray]:
        """Return the weights (features x classes) and the bias of the classifier."""

    def update(self, batch: Batch) -> None:
        """Add the labelled nodes to the moments."""
        neighborhood = batch.neighborhood
        rows, labels = self.encode(neighborhood)[batch.known], batch.labels[batch.known]
        self.moments.add(rows, labels)
        if self.needs_store:
            assert batch.store is not None
            self._revisit(batch.store)
            known = neighborhood.nodes[: neighborhood.seeds][batch.known]
            self.buffer.offer(known.astype(np.int64), rows, labels)

    def encode(self, neighborhood: Neighborhood) -> FloatArray:
        """Return the features of the seeds; a sum that overflows would make every later answer meaningless."""
        with np.errstate(all="ignore"):
            rows = self.features.encode(neighborhood)
        if not np.isfinite(rows).all():
            raise NotFiniteError(f"sums over features overflow in {self.name}: scale the features down")
        return rows

    def _revisit(self, store: MeteredStore) -> None:
        """Correct what was learned of the nodes whose turn it is.

        A node that was removed leaves the buffer; what it has taught stays. One that has not arrived here is left out.
        """
        slots = self.buffer.turn(self.revisit)
        self.buffer.empty(slots[store.was_removed(self.buffer.positions[slots])])
        slots = slots[store.is_present(self.buffer.positions[slots])]
        if len(slots) == 0:
            return
        # a node may have been learned twice
        distinct, place = np.unique(self.buffer.positions[slots], return_inverse=True)
        now = self.encode(store.sample(store.ids_at(distinct), self.sampling, key(self._rng)))[place]
        self.moments.remove(self.buffer.rows[slots], self.buffer.labels[slots])
        self.moments.add(now, self.buffer.labels[slots])
        self.buffer.rows[slots] = now

    def merge(self, other: Self) -> None:
        """Add what another strategy with the same hyperparameters has learned from another part of a stream.

        The nodes that the other one remembers are not taken over.
        """
        if (self.hyperparameters(), self.seed) != (other.hyperparameters(), other.seed):
            raise ConfigError("only strategies with the same hyperparameters and seed can be merged")
        if not other._width:
            return
        if self._width and self._width != other._width:
            raise WrongWidthError(f"learned from features of width {other._width}, this one from {self._width}")
        if not self._width:
            self.build(other._width)
        self.moments.merge(other.moments)
        self.updates += other.updates

    def classifier(self) -> tuple[DoubleArray, DoubleArray]:
        """Return weights and bias, solved for again if something was learned since."""
        assert self._solution is not None, "nothing has been learned yet"
        return self._solution.up_to_date(self.solve)

    @property
    def labels(self) -> IntArray:
        """The classes seen."""
        return np.array(self.moments.labels if self._width else [], np.int64)

    def scores(self, neighborhood: Neighborhood) -> FloatArray:
        """Return the linear scores."""
        self.check_neighborhood(neighborhood)
        weights, bias = self.classifier()
        scores: FloatArray = (self.encode(neighborhood) @ weights + bias).astype(np.float32)
        return scores

    @property
    def sampling(self) -> NeighborSampling:
        """As far as the features reach, without weights."""
        return self.sampling_of(self.features.hops, "sum")

    @property
    def needs_store(self) -> bool:
        """Remembered nodes are sampled again, unless `revisit` is 0."""
        return self.revisit > 0 and self.buffer_size > 0

    @property
    def extra_seeds(self) -> int:
        """Number of remembered nodes that are sampled with a batch."""
        return self.revisit if self.needs_store else 0

    def supports_cached_aggregates(self, table: Table) -> bool:
        """Projected rows are projected before they are summed."""
        return self.features.sums_rows(table.width)


class Encoding:
    """How rows are made from features, saved with the moments: sums of other rows are of no use to it."""

    nbytes = 0

    def __init__(self, features: NeighborFeatures, project: int, seed: int, width: int) -> None:
        projected = features.narrowed(width) < width
        self._facts: Json = {"parts": features.parts, "projection": [project, seed] if projected else None}

    def state(self) -> State:
        """Return the description."""
        return State({}, dict(self._facts))

    def load_state(self, state: State) -> None:
        """Check that the description is the same."""
        if state.facts != self._facts:
            raise StateError(f"the state is of other features: {state.facts}")


class Solution:
    """The cached classifier of some moments."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments
        self._version = -1
        self._found: tuple[DoubleArray, DoubleArray] | None = None

    def up_to_date(self, solve: Any) -> tuple[DoubleArray, DoubleArray]:
        """Return the classifier, solved for again if the moments have changed."""
        if self._found is None or self._version != self._moments.version:
            self._found, self._version = solve(self._moments), self._moments.version
        return self._found

    @property
    def nbytes(self) -> int:
        """Bytes of weights and bias."""
        return 8 * (self._moments.width + 1) * len(self._moments.labels)


def variance(within: DoubleArray, means: DoubleArray) -> float:
    """Return the mean variance of a feature, with a floor for features that do not vary (relative to their size)."""
    return max(float(np.trace(within)) / len(within), 1e-9 * float(np.square(means).mean()), 1e-12)


def solved(matrix: DoubleArray, right: DoubleArray, ridge: float) -> DoubleArray:
    """Solve (matrix + ridge I) X = right for a matrix given by its lower triangle, which is overwritten."""
    matrix[np.diag_indices_from(matrix)] += ridge
    found: DoubleArray = cho_solve(cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False), right)
    return found
