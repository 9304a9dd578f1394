"""Online Continual Graph Learning: learn from a growing graph in one pass, and be evaluated at any time."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from ocgl.datasets import FeatureEncoder, from_networkx, from_pandas, from_polars, from_pyg, load_dataset
    from ocgl.evaluation import Evaluator
    from ocgl.experiments import RunResult, evaluate, resume, train_sharded
    from ocgl.graph import Arrival, Batch, Cost, Graph, GraphStore, Labels, Neighborhood, NeighborSampling
    from ocgl.serving.client import Client
    from ocgl.strategies import Answer, CachedPredictor, Learner, Strategy, make_strategy
    from ocgl.streams import Stream, StreamConfig, batches, class_stream, make_stream

_HOME = {
    "FeatureEncoder": "datasets",
    "from_networkx": "datasets",
    "from_pandas": "datasets",
    "from_polars": "datasets",
    "from_pyg": "datasets",
    "load_dataset": "datasets",
    "Evaluator": "evaluation",
    "RunResult": "experiments",
    "evaluate": "experiments",
    "resume": "experiments",
    "train_sharded": "experiments",
    "Arrival": "graph",
    "Batch": "graph",
    "Cost": "graph",
    "Graph": "graph",
    "GraphStore": "graph",
    "Labels": "graph",
    "NeighborSampling": "graph",
    "Neighborhood": "graph",
    "Client": "serving.client",
    "Answer": "strategies",
    "CachedPredictor": "strategies",
    "Learner": "strategies",
    "Strategy": "strategies",
    "make_strategy": "strategies",
    "Stream": "streams",
    "StreamConfig": "streams",
    "batches": "streams",
    "class_stream": "streams",
    "make_stream": "streams",
}

_ROOMS = (
    "buffers", "datasets", "errors", "evaluation", "experiments", "graph", "nn", "reporting", "strategies", "streams",
    "testing",
)  # fmt: skip
"""Subpackages, importable as attributes."""

__all__ = [
    "Answer", "Arrival", "Batch", "CachedPredictor", "Client", "Cost", "Evaluator", "FeatureEncoder", "Graph",
    "GraphStore", "Labels", "Learner", "NeighborSampling", "Neighborhood", "RunResult", "Strategy", "Stream",
    "StreamConfig", "batches", "class_stream", "evaluate", "from_networkx", "from_pandas", "from_polars", "from_pyg",
    "load_dataset", "make_strategy", "make_stream", "resume", "train_sharded",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import ocgl` itself takes no time."""
    if name in _HOME:
        return getattr(import_module(f"ocgl.{_HOME[name]}"), name)
    if name in _ROOMS:
        return import_module(f"ocgl.{name}")
    raise AttributeError(f"module 'ocgl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS, "__version__"])
