"""What takes long the first time, done once before a client asks for it."""

import contextlib

from ocgl.errors import OcglError
from ocgl.graph import GraphStore
from ocgl.serving.config import ServiceConfig
from ocgl.serving.engine import Engine
from ocgl.serving.events import Batch, Edge, Event, Label, Node, Publish, Remove, RemoveEdge, Request, Solve, Update


def rehearse(config: ServiceConfig, saved: bool = False) -> None:
    """Do everything once with a graph of four nodes, so that no client waits until kernels are compiled.

    Args:
        config: what the service is.
        saved: take the state as well, which hashes the code of the strategies the first time.
    """
    config = config.model_copy(update={"most_classes": 2, "most_events": 100})
    engine = Engine(config, GraphStore(sparse=config.sparse))
    x = bytes(4 * config.features)
    nodes: list[Event] = [Node(place, x, list(range(place))) for place in range(4)]
    labels: list[Event] = [Label(place, place % 2) for place in range(4)]
    engine.check([*nodes, *labels])
    with contextlib.suppress(OcglError):  # four equal nodes may be too little for a strategy
        engine.apply(Request([*nodes, *labels]), 1)
        engine.apply(Batch(list(range(4))), 2)
        for name, model in engine.models.items():
            if engine.solve_due(name):
                engine.apply(Solve(name), engine.sequence + 1)
                engine.apply(Publish(name), engine.sequence + 1)
            model.predict(engine.store.sample([0], engine.learners[name].query_sampling, 0))
        engine.answer([0])
        engine.apply(Request([Edge(0, 1), RemoveEdge(0, 1), Update(0, x), Remove(0)]), engine.sequence + 1)
    if saved:
        engine.state_hash()
