"""Ridge: least squares onto the classes, on neighbourhood features, exact at any time."""

from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass
from scipy.linalg import blas

from ocgl.models.moments import Moments
from ocgl.strategies.base import STRICT
from ocgl.strategies.closed_form import ClosedForm, solved, variance
from ocgl.types import DoubleArray


@dataclass(kw_only=True, config=STRICT)
class Ridge(ClosedForm):
    """W = argmin of the mean of |W'z + b - e_y|^2 plus s (tr S / d) |W|^2, with S the covariance within classes.

    `balanced` gives every class the same weight, with the covariance that all share: the mean over examples is then a
    mean over classes of S plus the scatter of the class means. Otherwise every example has the same weight.

    >>> Ridge(balanced=False).balanced
    False
    """

    name: ClassVar[str] = "ridge"
    reference: ClassVar[str] = "recursive least squares; Zhuang et al., Analytic class-incremental learning, 2022"

    balanced: bool = True

    def solve(self, moments: Moments) -> tuple[DoubleArray, DoubleArray]:
        """Give the solution of the normal equations."""
        means, within = moments.means, moments.within()
        share = self._share(moments.counts)
        size = variance(within, means)
        middle = share @ means
        centred = means - middle
        spread = blas.dsyrk(1.0, (centred * np.sqrt(share)[:, None]).T, 1.0, within, lower=1, overwrite_c=1)
        targets = np.eye(len(share)) - share
        weights = solved(spread, (centred * share[:, None]).T @ targets, self.shrinkage * size)
        return weights, share - middle @ weights

    def _share(self, counts: DoubleArray) -> DoubleArray:
        """Give the weight of each class."""
        return np.full(len(counts), 1 / len(counts)) if self.balanced else counts / counts.sum()
