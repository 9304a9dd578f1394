"""Methods: one file each, and the training loop they share."""

from ocgl.strategies.base import STRICT, Strategy
from ocgl.strategies.learner import Learner
from ocgl.strategies.registry import find, make, names
from ocgl.strategies.watch import Watch

__all__ = ["STRICT", "Learner", "Strategy", "Watch", "find", "make", "names"]
