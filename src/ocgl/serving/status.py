"""What a service tells of itself: its state, its figures, a node, and the metrics of Prometheus."""

import time
from typing import Any

import numpy as np

import ocgl
from ocgl.errors import GraphError, UnknownNodeError
from ocgl.serving.engine import Engine
from ocgl.serving.events import Id
from ocgl.serving.service import Service
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
        if not id.isdigit() or len(id) > 19:
            raise UnknownNodeError(f"node {id!r} is not there")
        wanted = int(id)
    try:
        (position,) = store.find([wanted]).tolist()
    except GraphError:  # too long, or empty
        position = -1
    if position < 0:
        raise UnknownNodeError(f"node {id[:100]!r} is not there")
    known = engine.known.get(position)
    answer = engine.scores[engine.main].answer_at(position)
    return {
        "id": wanted,
        "degree": int(store.degrees([wanted])[0]),
        "time": float(store.all_times[position]),
        "label": None if known is None else engine.classes.named(np.array([known])).tolist()[0],
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
        "nodes": len(store),
        "arrived": store.arrived,
        "edges": store.edges,
        "classes": [str(name) for name in engine.classes.named(model.labels).tolist()],
        "waiting_labels": len(engine.waiting),
        "batches": engine.batches,
        "events": engine.events,
        "update": None if engine.cost is None else {"cost": cost_of(engine.cost[0]), "bound": bound_of(engine.cost[1])},
        "failed_batches": sum(engine.failed.values()),
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
        "log_bytes": service.log.nbytes,
        "snapshot": service.snapshot_at,
        "recovered": service.recovered,
        "milliseconds": {name: _percentiles(list(times)) for name, times in service.timings.items()},
        "version": ocgl.__version__,
    }


def _percentiles(seconds: list[float]) -> Json:
    if not seconds:
        return {"p50": None, "p99": None}
    return {f"p{p}": 1000 * float(np.percentile(seconds, p)) for p in (50, 99)}


def prometheus(status: Json) -> str:
    """Return the status as metrics."""
    lines = []

    def metric(name: str, kind: str, text: str, values: dict[str, Any]) -> None:
        lines.append(f"# HELP ocgl_{name} {text}")
        lines.append(f"# TYPE ocgl_{name} {kind}")
        lines.extend(f"ocgl_{name}{labels} {value}" for labels, value in values.items() if value is not None)

    metric("sequence", "counter", "Records of the log.", {"": status["sequence"]})
    metric("weights_sequence", "gauge", "Record up to which the weights know.", {"": status["weights_sequence"]})
    metric("nodes", "gauge", "Nodes of the graph.", {"": status["nodes"]})
    metric("edges", "gauge", "Edges of the graph.", {"": status["edges"]})
    metric("waiting_labels", "gauge", "Labels that wait for a batch.", {"": status["waiting_labels"]})
    metric("batches", "counter", "Batches learned.", {"": status["batches"]})
    metric("queued_requests", "gauge", "Requests that wait.", {"": status["queued"]})
    metric("log_bytes", "gauge", "Bytes of the log.", {"": status["log_bytes"]})
    metric("ready", "gauge", "Whether requests are taken.", {"": int(status["ready"])})
    named = {f'{{strategy="{_escaped(name)}"}}': one for name, one in status["accuracy"].items()}
    metric("accuracy", "gauge", "Accuracy of answers at arrival.", {k: v["accuracy"] for k, v in named.items()})
    metric("accuracy_recent", "gauge", "The same over the last answers.", {k: v["recent"] for k, v in named.items()})
    metric("scored_answers", "counter", "Answers that were scored.", {k: v["scored"] for k, v in named.items()})
    metric("drifts", "counter", "Drifts that were detected.", {k: len(v["drifts"]) for k, v in named.items()})
    times = {
        f'{{what="{what}",quantile="{q}"}}': None if one[f"p{p}"] is None else one[f"p{p}"] / 1000
        for what, one in status["milliseconds"].items()
        for p, q in ((50, "0.5"), (99, "0.99"))
    }
    metric("seconds", "gauge", "Time of the last requests, batches and answers.", times)
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
