"""Variants of the closed forms that were tried and are not shipped; `benchmarks.beyond` measures them."""

from typing import Any, ClassVar

import numpy as np
from pydantic.dataclasses import dataclass
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from ocgl.graph import Batch, Neighborhood
from ocgl.models.moments import Moments
from ocgl.rng import generator
from ocgl.strategies.base import STRICT
from ocgl.strategies.closed_form import ClosedForm, variance
from ocgl.strategies.ridge import Ridge
from ocgl.types import DoubleArray, FloatArray, IntArray

EVERY = 10


class _Encoded:
    """Wraps a view: what `change` makes of its rows is learned and asked instead."""

    def __init__(self, view: Any, change: Any, added: int = 0) -> None:
        self._view, self._change, self._added = view, change, added

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def width(self, width: int) -> int:
        inner: int = self._view.width(width)
        return inner + self._added

    def encode(self, seen: Neighborhood) -> FloatArray:
        changed: FloatArray = self._change(self._view.encode(seen))
        return changed


@dataclass(kw_only=True, config=STRICT)
class Diagonal(Ridge):
    """Standardised features: the penalty is on W scaled by each feature's own deviation within classes."""

    name: ClassVar[str] = "ridge, standardised"

    def _scales(self, variances: DoubleArray) -> DoubleArray:
        return variances

    def solve(self, moments: Moments) -> tuple[DoubleArray, DoubleArray]:
        means, within = moments.means, moments.within()
        share = self._share(moments.counts)
        middle = share @ means
        centred = means - middle
        within = np.tril(within) + np.tril(within, -1).T
        own = self._scales(np.diag(within)) + 1e-6 * variance(within, means)
        matrix = within + (centred * share[:, None]).T @ centred + np.diag(self.shrinkage * own)
        targets = np.eye(len(share)) - share
        weights = cho_solve(cho_factor(matrix, lower=True), (centred * share[:, None]).T @ targets)
        return weights, share - middle @ weights


@dataclass(kw_only=True, config=STRICT)
class ByPart(Diagonal):
    """The penalty on each part of the view is relative to that part's own mean variance, not to that of all."""

    name: ClassVar[str] = "ridge, scaled by part"

    def _scales(self, variances: DoubleArray) -> DoubleArray:
        parts = np.split(variances, len(self._view.parts))
        return np.repeat([part.mean() for part in parts], len(parts[0]))


@dataclass(kw_only=True, config=STRICT)
class Relu(Ridge):
    """Random ReLU features beside the view."""

    name: ClassVar[str] = "ridge, random ReLU"
    units: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        plain: Any = self._view
        self._random: FloatArray | None = None
        self._view = _Encoded(plain, self._beside, self.units)  # type: ignore[assignment]

    def _beside(self, rows: FloatArray) -> FloatArray:
        if self._random is None:
            rng = generator(self.seed, "relu")
            self._random = rng.standard_normal((rows.shape[1], self.units), np.float32)
            self._random /= np.float32(np.sqrt(rows.shape[1]) * (np.abs(rows).mean() + 1e-9))
        return np.concatenate([rows, np.maximum(rows @ self._random, 0)], 1)


@dataclass(kw_only=True, config=STRICT)
class Unit(Ridge):
    """Every row of the view brought to length one."""

    name: ClassVar[str] = "ridge, rows of length one"

    def __post_init__(self) -> None:
        super().__post_init__()
        plain: Any = self._view
        self._view = _Encoded(plain, _to_unit)  # type: ignore[assignment]


def _to_unit(rows: FloatArray) -> FloatArray:
    scaled: FloatArray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-9))
    return scaled


@dataclass(kw_only=True, config=STRICT)
class Forgetting(Ridge):
    """All sums are multiplied by `keep` before each batch: old nodes fade."""

    name: ClassVar[str] = "ridge, forgetting"
    keep: float = 0.998

    def learn(self, batch: Batch) -> None:
        moments = self._moments
        if moments is not None:
            moments._second = moments._coming.counted(moments._second, overwrite=True)  # what waits is added first
            moments._coming._count = 0
            for part in (moments._counts, moments._sums, moments._second):
                part *= self.keep
        super().learn(batch)


@dataclass(kw_only=True, config=STRICT)
class ClassCovariances(ClosedForm):
    """Quadratic discriminants: half of each class's own covariance, half of the shared one."""

    name: ClassVar[str] = "class covariances"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._each: dict[int, Moments] = {}
        self._factors: tuple[int, list[Any]] = (-1, [])

    def learn(self, batch: Batch) -> None:
        super().learn(batch)
        rows = self._view.encode(batch.neighborhood)
        for label in np.unique(batch.labels[batch.known]).tolist():
            mine = batch.labels == label
            self._each.setdefault(label, Moments(rows.shape[1])).add(rows[mine], batch.labels[mine])

    def solve(self, moments: Moments) -> tuple[DoubleArray, DoubleArray]:
        raise NotImplementedError

    def scores(self, seen: Neighborhood) -> FloatArray:
        moments = self._moments
        assert moments is not None
        if self._factors[0] != moments.version:
            self._factors = (moments.version, [self._factor(moments, label) for label in moments.labels])
        rows = self._view.encode(seen)
        columns = []
        for mean, factor, size in self._factors[1]:
            away = (rows - mean).astype(np.float32).T
            columns.append(-np.square(solve_triangular(factor, away, lower=True, check_finite=False)).sum(0) - size)
        return np.stack(columns, 1).astype(np.float32)

    def _factor(self, moments: Moments, label: int) -> tuple[DoubleArray, Any, float]:
        shared, own = moments.within(), self._each[label].within()
        mixed = 0.5 * shared + 0.5 * own
        mixed *= 1 - self.shrinkage
        mixed[np.diag_indices_from(mixed)] += self.shrinkage * variance(shared, moments.means)
        factor = cholesky(mixed, lower=True)
        return self._each[label].means[0], factor.astype(np.float32), 2 * float(np.log(np.diag(factor)).sum())


@dataclass(kw_only=True, config=STRICT)
class Ensemble(Ridge):
    """One ridge per hop, their scores weighted by how well each did on every tenth batch before learning it."""

    name: ClassVar[str] = "ridge, ensemble of hops"
    view: str = "own+mean2"

    def __post_init__(self) -> None:
        super().__post_init__()
        settings: Any = {"seed": self.seed, "fanout": self.fanout, "project": self.project, "shrinkage": self.shrinkage}
        self._parts = [Ridge(view=self.view, **settings) for _ in range(3)]
        for part, hop in zip(self._parts, ("own", "mean1", "mean2"), strict=True):
            assert part.look.hops == 2  # all look two hops far, so that one look serves them all
            part._view.parts = [hop]
        self._right: DoubleArray = np.ones(3)
        self._tried = 1.0

    def learn(self, batch: Batch) -> None:
        if self.updates % EVERY == 0 and len(self.labels):
            for i, part in enumerate(self._parts):
                self._right[i] += (part.predict(batch.neighborhood) == batch.labels).mean()
            self._tried += 1
        for part in self._parts:
            part.learn(batch)
        self._moments = self._parts[0]._moments
        self.updates += 1

    def scores(self, seen: Neighborhood) -> FloatArray:
        accuracy = self._right / self._tried
        shares = (accuracy / (1.05 - accuracy)).astype(np.float32)
        weighted = [share * part.scores(seen) for share, part in zip(shares, self._parts, strict=True)]
        summed: FloatArray = np.sum(weighted, axis=0)
        return summed


@dataclass(kw_only=True, config=STRICT)
class Weighted(Ridge):
    """A node counts the more the more neighbours it had when it was learned: later, all have more."""

    name: ClassVar[str] = "ridge, weighted by neighbours"
    exponent: float = 1.0

    def learn(self, batch: Batch) -> None:
        seen, known = batch.neighborhood, batch.known
        rows, labels = self._view.encode(seen)[known], batch.labels[known]
        cap = self.fanout if isinstance(self.fanout, int) else seen.counts(seen.seeds).max()
        weight = (((seen.counts(seen.seeds)[known] + 1.0) / (cap + 1.0)) ** self.exponent)[:, None]
        if self._moments is None:
            self._begin(seen.width)
        moments = self._moments
        assert moments is not None
        places = moments._places(labels)
        np.add.at(moments._counts, places, weight[:, 0])
        np.add.at(moments._sums, places, weight * rows)
        moments._second = moments._coming.put(np.sqrt(weight) * rows, moments._second)
        moments.version += 1
        self.updates += 1


@dataclass(kw_only=True, config=STRICT)
class Adaptive(Ridge):
    """The shrinkage of the grid that has predicted best so far, on every tenth batch before learning it."""

    name: ClassVar[str] = "ridge, adaptive shrinkage"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._choices: IntArray = np.zeros(len(self.grid["shrinkage"]), np.int64)

    def learn(self, batch: Batch) -> None:
        if self.updates % EVERY == 0 and len(self.labels) > 1:
            for i, value in enumerate(self.grid["shrinkage"]):
                self._solved, self.shrinkage = None, value
                self._choices[i] += int((self.predict(batch.neighborhood) == batch.labels).sum())
            self.shrinkage = self.grid["shrinkage"][int(self._choices.argmax())]
            self._solved = None
        super().learn(batch)
