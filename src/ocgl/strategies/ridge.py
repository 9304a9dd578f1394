"""Ridge: least squares onto the classes, on neighbourhood features, exact at any time."""

from typing import ClassVar

import numpy as np
from scipy.linalg import blas

from ocgl.nn.moments import Moments
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.closed_form import ClosedForm, solved, variance
from ocgl.types import DoubleArray, FloatArray


@strategy
class Ridge(ClosedForm):
    """Least squares onto the classes: z are the node's features, e_y the unit vector of its class.

    W, b = argmin of mean |W'z + b - e_y|^2 + s (tr S / d) |W|^2,  S the covariance within classes

    Args:
        balanced: give every class the same weight, with the covariance that all classes share: the mean over
            examples is then a mean over classes of S plus the scatter of the class means. Otherwise every example
            has the same weight.

    >>> Ridge(balanced=False).balanced
    False
    """

    name: ClassVar[str] = "ridge"
    title: ClassVar[str] = "Ridge"
    idea: ClassVar[str] = "least squares onto the classes, from the same running sums (not in the paper)"
    reference: ClassVar[str] = "recursive least squares; Zhuang et al., Analytic class-incremental learning, 2022"

    balanced: bool = True

    def solve(self, moments: Moments) -> tuple[DoubleArray, DoubleArray]:
        """Solve the normal equations."""
        means, within = moments.means, moments.within()
        prior = self._class_weights(moments.counts)
        size = variance(within, means)
        middle = prior @ means
        centred = means - middle
        spread = blas.dsyrk(1.0, (centred * np.sqrt(prior)[:, None]).T, 1.0, within, lower=1, overwrite_c=1)
        targets = np.eye(len(prior)) - prior
        weights = solved(spread, (centred * prior[:, None]).T @ targets, self.shrinkage * size)
        return weights, prior - middle @ weights

    def probabilities(self, scores: FloatArray) -> DoubleArray:
        """Return the nearest probabilities to the scores, which are least-squares estimates of them."""
        return projected_on_simplex(scores.astype(np.float64))

    def _class_weights(self, counts: DoubleArray) -> DoubleArray:
        """Return the weight of each class."""
        return np.full(len(counts), 1 / len(counts)) if self.balanced else counts / counts.sum()


def projected_on_simplex(rows: DoubleArray) -> DoubleArray:
    """Return for each row the nearest one of non-negative numbers that add up to 1 (Wang and Carreira-Perpinan, 2013).

    >>> projected_on_simplex(np.array([[0.7, 0.5, -0.2]])).tolist()
    [[0.6, 0.4, 0.0]]
    """
    falling = -np.sort(-rows, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    last = (falling > excess).sum(axis=1) - 1
    found: DoubleArray = np.maximum(rows - excess[np.arange(len(rows)), last][:, None], 0.0)
    return found
