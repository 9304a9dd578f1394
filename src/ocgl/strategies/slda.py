"""SLDA: streaming linear discriminant analysis on neighbourhood features."""

from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from ocgl.models.moments import Moments
from ocgl.strategies.base import STRICT
from ocgl.strategies.closed_form import ClosedForm, solved, variance
from ocgl.types import DoubleArray


@dataclass(kw_only=True, config=STRICT)
class SLDA(ClosedForm):
    """Class means mu_c and one covariance S within classes; the class of the highest mu_c' A z - mu_c' A mu_c / 2.

    A is the inverse of (1 - s) S + s (tr S / d) I with shrinkage s; all classes have the same prior. What all classes
    share is left out of the scores: they are those of rows and means from which the mean of the means is taken.

    >>> SLDA(shrinkage=0.1).look.hops
    1
    """

    name: ClassVar[str] = "slda"
    reference: ClassVar[str] = "Hayes and Kanan, Lifelong machine learning with deep streaming LDA, 2020"

    def solve(self, moments: Moments) -> tuple[DoubleArray, DoubleArray]:
        """Give A (mu - m) and the bias, with m the mean of the class means."""
        means, within = moments.means, moments.within()
        size = variance(within, means)
        within *= 1 - self.shrinkage
        middle = means.mean(0)
        centred = means - middle
        weights = solved(within, centred.T, self.shrinkage * size)
        return weights, -0.5 * np.einsum("cd,dc->c", centred, weights) - middle @ weights
