"""SLDA: streaming linear discriminant analysis on neighbourhood features."""

from typing import ClassVar

import numpy as np

from ocgl.nn.moments import Moments
from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.closed_form import ClosedForm, solved, variance
from ocgl.types import DoubleArray


@strategy
class SLDA(ClosedForm):
    """Gaussian classes: means mu_c and one covariance S within classes, all classes equally likely.

    class = argmax_c of mu_c' A z - mu_c' A mu_c / 2,  A the inverse of (1 - s) S + s (tr S / d) I,  s the shrinkage

    What all classes share is left out of the scores: the mean of the class means is subtracted from rows and means.

    >>> SLDA(shrinkage=0.1).sampling.hops
    1
    """

    name: ClassVar[str] = "slda"
    title: ClassVar[str] = "SLDA"
    idea: ClassVar[str] = "Gaussian classes around running means with one covariance (not in the paper)"
    reference: ClassVar[str] = "Hayes and Kanan, Lifelong machine learning with deep streaming LDA, 2020"

    def solve(self, moments: Moments) -> tuple[DoubleArray, DoubleArray]:
        """Return A (mu - m) and the bias, with m the mean of the class means."""
        means, within = moments.means, moments.within()
        size = variance(within, means)
        within *= 1 - self.shrinkage
        middle = means.mean(0)
        centred = means - middle
        weights = solved(within, centred.T, self.shrinkage * size)
        return weights, -0.5 * np.einsum("cd,dc->c", centred, weights) - middle @ weights
