"""The evaluator, the performance matrix, and the scores made of it."""

from ocgl.evaluation.evaluator import Evaluator
from ocgl.evaluation.metrics import Metric

__all__ = ["Evaluator", "Metric"]
