"""The judge, the performance matrix, and the figures made of it."""

from ocgl.evaluation.judge import Judge
from ocgl.evaluation.metrics import Metric

__all__ = ["Judge", "Metric"]
