"""What a service tells of itself: its state, its figures, a node, and the metrics of Prometheus."""

import time
from typing import Any

import numpy as np

import ocgl
from ocgl.errors import GraphError, UnknownNodeError
from ocgl.serving.engine import OUT_OF_REACH, Engine
from ocgl.serving.events import Id
from ocgl.serving.following import Follower
from ocgl.serving.service import Service
from ocgl.serving.views import time_of
from ocgl.types import Json


def cost_of(cost: Any) -> Json:
    """Return a cost as JSON."""
    return {"nodes": cost.nodes, "edges": cost.edges, "bytes": cost.bytes}


def bound_of(bound: Any) -> Json | None:
    """Return a bound as JSON; None for none."""
    return None if bound is None else cost_of(bound)


def node_of(engine: Engine, id: str) -> Json:
    """Return degree, time, known label and the answer at arrival of a node."""
    store = engine.store
    wanted: Id = id
    if store.id_kind == "integer":
        if not (id.isascii() and id.isdigit() and len(id) <= 19 and str(int(id)) == id):
            raise UnknownNodeError(f"node {id[:100]!r} is not there")
        wanted = int(id)
    try:
        (position,) = store.find([wanted]).tolist()
    except OUT_OF_REACH:
        raise
    except GraphError:  # too long, or empty
        position = -1
    if position < 0:
        raise UnknownNodeError(f"node {id[:100]!r} is not there")
    answer = engine.scores[engine.main].answer_at(position)
    return {
        "id": wanted,
        "degree": int(store.degrees([wanted])[0]),
        "time": time_of(store, position),
        "label": engine.known_label(position),
        "answer_at_arrival": None if answer < 0 else engine.classes.named(np.array([answer])).tolist()[0],
        "waiting": position in engine.waiting,
    }


def state_of(engine: Engine) -> Json:
    """Return the figures of the state."""
    store, model = engine.store, engine.models[engine.main]
    names = {
        number: engine.classes.named(np.array([number])).tolist()[0] for number in engine.scores[engine.main].by_class
    }
    return {
        "sequence": engine.sequence,
        "weights_sequence": engine.weights_sequence,
        "strategy": engine.main,
        "strategies": list(engine.models),
        "features": engine.config.features,
        "ids": store.id_kind if store.arrived else None,
        "labels": None if not engine.known_labels else "text" if engine.classes.are_text else "integer",
        "nodes": len(store),
        "arrived": store.arrived,
        "edges": store.edges,
        "classes": [str(name) for name in engine.classes.named(model.labels).tolist()],
        "waiting_labels": len(engine.waiting),
        "batches": engine.batches,
        "events": engine.events,
        "update": None if engine.cost is None else {"cost": cost_of(engine.cost[0]), "bound": bound_of(engine.cost[1])},
        "failed_batches": sum(failed for failed, _ in engine.troubles().values()),
        "losses_not_finite": sum(diverged for _, diverged in engine.troubles().values()),
        "accuracy": {name: scores.summary(names) for name, scores in engine.scores.items()},
        "store_bytes": store.nbytes,
        "strategy_bytes": model.strategy.memory_bytes,
    }


def figures_of(service: Service) -> Json:
    """Return what is not part of the state: clocks, queues and files."""
    return {
        "ready": service.ready,
        "uptime_seconds": time.time() - service.started,
        "queued": service._queued,
        "queue": service.config.queue,
        "limits": {"events": service.config.most_events, "bytes": service.config.most_bytes},
        "log_bytes": service.log.nbytes,
        "snapshot": service.snapshot_at,
        "recovered": service.recovered,
        "answer": _last_answer(service),
        "milliseconds": {name: _percentiles(list(times)) for name, times in service.timings.items()},
        "store": service.graphs.shown,
        "follows": service.figures if isinstance(service, Follower) else None,
        "version": ocgl.__version__,
    }


def _last_answer(service: Service) -> Json | None:
    last = service.last_answer
    return None if last is None else {"cost": cost_of(last.cost), "bound": bound_of(last.bound)}


def _percentiles(seconds: list[float]) -> Json:
    if not seconds:
        return {"p50": None, "p99": None}
    return {f"p{p}": 1000 * float(np.percentile(seconds, p)) for p in (50, 99)}
