"""The methods: one file each. What they share lies in `_core`."""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocgl.strategies._core.base import Strategy, strategy
    from ocgl.strategies._core.cached_predictor import CachedPredictor
    from ocgl.strategies._core.closed_form import ClosedForm
    from ocgl.strategies._core.feature_replay import FeatureReplay
    from ocgl.strategies._core.gradient import GRID, REPLAY_GRID, Examples, GradientStrategy
    from ocgl.strategies._core.importance import Importances
    from ocgl.strategies._core.learner import Answer, Learner
    from ocgl.strategies._core.projection import project
    from ocgl.strategies._core.registry import find, make_strategy, names
    from ocgl.strategies.a_gem import AGEM
    from ocgl.strategies.bare import Bare
    from ocgl.strategies.er import ER
    from ocgl.strategies.ewc import EWC
    from ocgl.strategies.joint import Joint
    from ocgl.strategies.linear import Linear
    from ocgl.strategies.lwf import LwF
    from ocgl.strategies.mas import MAS
    from ocgl.strategies.pdgnn import PDGNN
    from ocgl.strategies.ridge import Ridge
    from ocgl.strategies.slda import SLDA
    from ocgl.strategies.ssm_a_gem import SSMAGEM
    from ocgl.strategies.ssm_er import SSMER
    from ocgl.strategies.twp import TWP

_HOME = {
    "Strategy": "base",
    "strategy": "base",
    "CachedPredictor": "cached_predictor",
    "ClosedForm": "closed_form",
    "FeatureReplay": "feature_replay",
    "GRID": "gradient",
    "REPLAY_GRID": "gradient",
    "Examples": "gradient",
    "GradientStrategy": "gradient",
    "Importances": "importance",
    "Answer": "learner",
    "Learner": "learner",
    "project": "projection",
    "find": "registry",
    "make_strategy": "registry",
    "names": "registry",
}

__all__ = [
    "AGEM", "ER", "EWC", "GRID", "MAS", "PDGNN", "REPLAY_GRID", "SLDA", "SSMAGEM", "SSMER", "TWP", "Answer", "Bare",
    "CachedPredictor", "ClosedForm", "Examples", "FeatureReplay", "GradientStrategy", "Importances", "Joint",
    "Learner", "Linear", "LwF", "Ridge", "Strategy", "find", "make_strategy", "names", "project", "strategy",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: methods need torch, and listing datasets does not."""
    if name in _HOME:
        return getattr(import_module(f"ocgl.strategies._core.{_HOME[name]}"), name)
    if not name.startswith("_"):
        for info in iter_modules(__path__):
            if info.name.replace("_", "") == name.lower():
                return getattr(import_module(f"ocgl.strategies.{info.name}"), name)
    raise AttributeError(f"module 'ocgl.strategies' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
