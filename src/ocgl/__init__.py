"""Online Continual Graph Learning: learn from a growing graph in one pass, and be judged at any time."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ocgl.datasets import from_pyg, load
    from ocgl.evaluation import Judge
    from ocgl.graph import Arrival, Batch, Cost, Graph, Labels, Look, Neighborhood, Store
    from ocgl.strategies import Learner, Strategy, Watch, make
    from ocgl.streams import Stream, StreamConfig, class_stream, make_stream

_HOME = {
    "from_pyg": "datasets",
    "load": "datasets",
    "Judge": "evaluation",
    "Arrival": "graph",
    "Batch": "graph",
    "Cost": "graph",
    "Graph": "graph",
    "Labels": "graph",
    "Look": "graph",
    "Neighborhood": "graph",
    "Store": "graph",
    "Learner": "strategies",
    "Strategy": "strategies",
    "Watch": "strategies",
    "make": "strategies",
    "Stream": "streams",
    "StreamConfig": "streams",
    "class_stream": "streams",
    "make_stream": "streams",
}

__all__ = [
    "Arrival",
    "Batch",
    "Cost",
    "Graph",
    "Judge",
    "Labels",
    "Learner",
    "Look",
    "Neighborhood",
    "Store",
    "Strategy",
    "Stream",
    "StreamConfig",
    "Watch",
    "class_stream",
    "from_pyg",
    "load",
    "make",
    "make_stream",
]


def __getattr__(name: str) -> Any:
    """Import the rooms when they are first used: `import ocgl` itself takes no time."""
    if name in _HOME:
        return getattr(import_module(f"ocgl.{_HOME[name]}"), name)
    raise AttributeError(f"module 'ocgl' has no attribute {name!r}")
