"""Variants of the closed forms that were tried and are not shipped; `studies.beyond` measures them."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular

from ocgl.graph import Batch, Neighborhood
from ocgl.nn.moments import Moments
from ocgl.nn.neighbor_features import NeighborFeatures
from ocgl.rng import generator
from ocgl.strategies import strategy
from ocgl.strategies._core.closed_form import ClosedForm, Solution, variance
from ocgl.strategies.ridge import Ridge
from ocgl.types import DoubleArray, FloatArray, IntArray

EVERY = 10


class ChangedFeatures(NeighborFeatures):
    """Features with `change` applied to their rows, which are `added` columns wider after it."""

    def __init__(self, plain: NeighborFeatures, change: Callable[[FloatArray], FloatArray], added: int = 0) -> None:
        super().__init__("+".join(plain.parts), plain.project, plain.seed)
        self._change, self._added = change, added

    def width(self, width: int) -> int:
        return super().width(width) + self._added

    def encode(self, neighborhood: Neighborhood) -> FloatArray:
        return self._change(super().encode(neighborhood))


@strategy
class Diagonal(Ridge):
    """Standardised features: the penalty is on W scaled by each feature's deviation within classes."""

    name: ClassVar[str] = "ridge, standardised"

    def _scales(self, variances: DoubleArray) -> DoubleArray:
        return variances

    def solve(self, moments: Moments) -> tuple[DoubleArray, DoubleArray]:
        means, within = moments.means, moments.within()
        share = self._class_weights(moments.counts)
        middle = share @ means
        centred = means - middle
        within = np.tril(within) + np.tril(within, -1).T
        scales = self._scales(np.diag(within)) + 1e-6 * variance(within, means)
        matrix = within + (centred * share[:, None]).T @ centred + np.diag(self.shrinkage * scales)
        targets = np.eye(len(share)) - share
        weights = cho_solve(_factored(matrix), (centred * share[:, None]).T @ targets)
        return weights, share - middle @ weights


def _factored(matrix: DoubleArray) -> Any:
    """Factorise a matrix; one that is not positive definite (features that do not vary) gets a small ridge first."""
    try:
        return cho_factor(matrix, lower=True)
    except LinAlgError:
        return cho_factor(matrix + 1e-6 * np.trace(matrix) / len(matrix) * np.eye(len(matrix)), lower=True)


@strategy
class ByPart(Diagonal):
    """The penalty on each part of the features is relative to the mean variance of that part, not of all parts."""

    name: ClassVar[str] = "ridge, scaled by part"

    def _scales(self, variances: DoubleArray) -> DoubleArray:
        parts = np.split(variances, len(self.features.parts))
        return np.repeat([part.mean() for part in parts], len(parts[0]))


@strategy
class Relu(Ridge):
    """Random ReLU features beside the others."""

    name: ClassVar[str] = "ridge, random ReLU"
    units: int = 512

    def setup(self) -> None:
        super().setup()
        self._random: FloatArray | None = None
        self.features = ChangedFeatures(self.features, self._beside, self.units)

    def _beside(self, rows: FloatArray) -> FloatArray:
        if self._random is None:
            rng = generator(self.seed, "relu")
            self._random = rng.standard_normal((rows.shape[1], self.units), np.float32)
            self._random /= np.float32(np.sqrt(rows.shape[1]) * (np.abs(rows).mean() + 1e-9))
        return np.concatenate([rows, np.maximum(rows @ self._random, 0)], 1)


@strategy
class Unit(Ridge):
    """Every row of the features brought to length one."""

    name: ClassVar[str] = "ridge, rows of length one"

    def setup(self) -> None:
        super().setup()
        self.features = ChangedFeatures(self.features, _to_unit)


def _to_unit(rows: FloatArray) -> FloatArray:
    scaled: FloatArray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-9))
    return scaled


@strategy
class Forgetting(Ridge):
    """All sums are multiplied by `factor` before each batch: old nodes fade."""

    name: ClassVar[str] = "ridge, forgetting"
    factor: float = 0.998

    def update(self, batch: Batch) -> None:
        moments = self.moments
        if moments.labels:
            moments._second = moments._added.counted(moments._second, overwrite=True)  # what waits is added first
            moments._added._count = 0
            for part in (moments._counts, moments._sums, moments._second):
                part *= self.factor
        super().update(batch)


@strategy
class ClassCovariances(ClosedForm):
    """Quadratic discriminants: half of each class's covariance, half of the shared one."""

    name: ClassVar[str] = "class covariances"
    title: ClassVar[str] = "class covariances"
    reference: ClassVar[str] = "Friedman, Regularized discriminant analysis, 1989"

    def setup(self) -> None:
        super().setup()
        self._each: dict[int, Moments] = {}
        self._factors: tuple[int, list[Any]] = (-1, [])

    def update(self, batch: Batch) -> None:
        super().update(batch)
        rows = self.features.encode(batch.neighborhood)
        for label in np.unique(batch.labels[batch.known]).tolist():
            mine = batch.labels == label
            self._each.setdefault(label, Moments(rows.shape[1])).add(rows[mine], batch.labels[mine])

    def solve(self, moments: Moments) -> tuple[DoubleArray, DoubleArray]:
        raise NotImplementedError

    def scores(self, neighborhood: Neighborhood) -> FloatArray:
        moments = self.moments
        if self._factors[0] != moments.version:
            self._factors = (moments.version, [self._factor(moments, label) for label in moments.labels])
        rows = self.features.encode(neighborhood)
        columns = []
        for mean, factor, size in self._factors[1]:
            away = (rows - mean).astype(np.float32).T
            columns.append(-np.square(solve_triangular(factor, away, lower=True, check_finite=False)).sum(0) - size)
        return np.stack(columns, 1).astype(np.float32)

    def _factor(self, moments: Moments, label: int) -> tuple[DoubleArray, Any, float]:
        shared, single = moments.within(), self._each[label].within()
        mixed = 0.5 * shared + 0.5 * single
        mixed *= 1 - self.shrinkage
        mixed[np.diag_indices_from(mixed)] += self.shrinkage * variance(shared, moments.means)
        factor = cholesky(mixed, lower=True)
        return self._each[label].means[0], factor.astype(np.float32), 2 * float(np.log(np.diag(factor)).sum())


@strategy
class Ensemble(Ridge):
    """One ridge per hop, their scores weighted by how well each did on every tenth batch before learning it."""

    name: ClassVar[str] = "ridge, ensemble of hops"
    view: str = "own+mean2"

    def setup(self) -> None:
        super().setup()
        settings: Any = {"seed": self.seed, "fanout": self.fanout, "project": self.project, "shrinkage": self.shrinkage}
        self._members = [Ridge(view=self.view, **settings) for _ in range(3)]
        for member, part in zip(self._members, ("own", "mean1", "mean2"), strict=True):
            assert member.sampling.hops == 2  # all sample two hops, so that one sample serves them all
            member.features.parts = [part]
        self._right: DoubleArray = np.ones(3)
        self._tried = 1.0

    def update(self, batch: Batch) -> None:
        if self.updates % EVERY == 0 and len(self.labels):
            for i, member in enumerate(self._members):
                self._right[i] += (member.predict(batch.neighborhood) == batch.labels).mean()
            self._tried += 1
        for member in self._members:
            member.learn(batch)

    @property
    def labels(self) -> IntArray:
        return self._members[0].labels

    def scores(self, neighborhood: Neighborhood) -> FloatArray:
        accuracy = self._right / self._tried
        shares = (accuracy / (1.05 - accuracy)).astype(np.float32)
        weighted = [share * member.scores(neighborhood) for share, member in zip(shares, self._members, strict=True)]
        summed: FloatArray = np.sum(weighted, axis=0)
        return summed


@strategy
class Weighted(Ridge):
    """A node counts the more the more neighbours it had when it was learned: later, all have more."""

    name: ClassVar[str] = "ridge, weighted by neighbours"
    exponent: float = 1.0

    def update(self, batch: Batch) -> None:
        neighborhood, known = batch.neighborhood, batch.known
        rows, labels = self.features.encode(neighborhood)[known], batch.labels[known]
        counts = neighborhood.counts(neighborhood.seeds)
        cap = self.fanout if isinstance(self.fanout, int) else counts.max()
        weight = (((counts[known] + 1.0) / (cap + 1.0)) ** self.exponent)[:, None]
        moments = self.moments
        class_rows = moments._class_rows(labels)
        np.add.at(moments._counts, class_rows, weight[:, 0])
        np.add.at(moments._sums, class_rows, weight * rows)
        moments._second = moments._added.put(np.sqrt(weight) * rows, moments._second)
        moments.version += 1


@strategy
class Adaptive(Ridge):
    """The shrinkage of the grid that has predicted best so far, on every tenth batch before learning it."""

    name: ClassVar[str] = "ridge, adaptive shrinkage"

    def setup(self) -> None:
        super().setup()
        self._choices: IntArray = np.zeros(len(self.grid["shrinkage"]), np.int64)

    def update(self, batch: Batch) -> None:
        if self.updates % EVERY == 0 and len(self.labels) > 1:
            for i, value in enumerate(self.grid["shrinkage"]):
                self._use(value)
                self._choices[i] += int((self.predict(batch.neighborhood) == batch.labels).sum())
            self._use(self.grid["shrinkage"][int(self._choices.argmax())])
        super().update(batch)

    def _use(self, shrinkage: float) -> None:
        self.shrinkage = shrinkage
        self._solution = Solution(self.moments)  # the cached classifier is of the old shrinkage
