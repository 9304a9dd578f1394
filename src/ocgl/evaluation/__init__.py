"""The evaluator and its metrics."""

from ocgl.evaluation.evaluator import Evaluator
from ocgl.evaluation.metrics import Metric

__all__ = ["Evaluator", "Metric"]
