"""Every size of the paper, and the real graphs: updates, questions and evaluations as the graph grows."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ocgl.datasets import load_dataset
from ocgl.datasets.sbm import PRESETS
from ocgl.datasets.sbm_features import draw_features
from ocgl.experiments import configure
from ocgl.graph import Arrival, Graph, Labels
from ocgl.strategies import CachedPredictor, Learner, make_strategy
from ocgl.streams import VALIDATION
from ocgl.streams.build import build
from ocgl.types import Json
from perf.scale import resident

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
STEPS, WARM = 60, 10
QUESTIONS = 5
CAP = 3000
NAIVE = 3
CHUNK = 20_000
STRUCTURES = ("corafull", "arxiv", "elliptic")
NAMES = (*(f"sbm:{name}" for name in PRESETS), "amazon-computer", "coauthor-cs", *STRUCTURES)


def graph_of(name: str) -> Graph:
    """Load a graph; one with structure only gets made-up features of its true width."""
    if name not in STRUCTURES:
        return load_dataset(name)
    graph = load_dataset(name, structure_only=True)
    shape, y = PRESETS[name], np.maximum(graph.y, 0)
    half, none = np.full(graph.nodes, 0.5), np.zeros(graph.nodes, np.int64)
    x = draw_features(y, half, none, shape.width, 3.0, 0.0, shape.density, np.random.default_rng(0))
    return replace(graph, x=x)


def child(name: str) -> None:
    """Measure one graph in a process of its own. Prints JSON."""
    torch.set_num_threads(1)
    config = configure(name, "bare", "time" if name.endswith("elliptic") else "class")
    stream = build(graph_of(name), config.stream)
    learner = Learner(make_strategy("bare"))
    predictor = CachedPredictor(learner)
    whole = stream.held_out(VALIDATION)
    rng = np.random.default_rng(0)
    held = np.sort(rng.choice(whole, CAP, replace=False)) if len(whole) > CAP else whole
    points: list[Json] = []
    done = 0
    for share in SHARES:
        first = max(int(share * len(stream)) - STEPS, done)
        begin, end = (int(stream.cuts[step - 1]) if step else 0 for step in (done, first))
        for start in range(begin, end, CHUNK):
            learner.arrive(stream.arrival(stream.order[start : min(start + CHUNK, end)]))
        spent: dict[str, list[float]] = {"update": [], "predict": [], "evaluate": []}
        learned = 0
        for index in range(first, min(first + STEPS, len(stream))):
            step = stream.step(index)
            arrival, labels = step.arrival, step.labels
            spent["update"].append(_timed(_advance, learner, arrival, labels))
            learned += len(step.ids) if index - first >= WARM else 0
            ids = held[stream.position[held] < stream.cuts[index]]
            if len(ids):
                spent["evaluate"].append(_timed(predictor, ids))
            for node in rng.choice(stream.order[: stream.cuts[index]], QUESTIONS):
                spent["predict"].append(_timed(learner.predict, [node]))
        done = min(first + STEPS, len(stream))
        naive = float(np.median([_timed(learner.predict, ids) for _ in range(NAIVE)])) if len(ids) else None
        assert np.array_equal(learner.predict(ids), predictor(ids))
        points.append(_point(len(learner.store), len(ids), spent, learned, naive))
    graph = stream.graph
    facts: Json = {"nodes": graph.nodes, "edges": graph.edges, "features": graph.width, "sparse": graph.sparse}
    facts |= {"batch": config.stream.batch_size, "validation": len(whole)}
    facts |= {"store_bytes": learner.store.nbytes, "peak_bytes": resident()["peak"]}
    facts |= {"whole_seconds": _timed(CachedPredictor(learner), whole), "whole_peak_bytes": resident()["peak"]}
    print(json.dumps({"name": name, **facts, "points": points}))


def _timed(call: Callable[..., object], *given: Any) -> float:
    begin = time.perf_counter()
    call(*given)
    return time.perf_counter() - begin


def _advance(learner: Learner, arrival: Arrival, labels: Labels | None) -> None:
    learner.arrive(arrival)
    learner.learn(labels)


def _point(nodes: int, asked: int, spent: dict[str, list[float]], learned: int, naive: float | None) -> Json:
    warm = {name: 1000 * np.array(times[WARM:] or times or [np.nan]) for name, times in spent.items()}
    found: Json = {"nodes": nodes, "asked": asked, "naive_ms": None if naive is None else 1000 * naive}
    for name in ("update", "predict"):
        found |= {f"{name}_p{p}_ms": float(np.percentile(warm[name], p)) for p in (50, 99)}
    found["evaluate_ms"] = float(np.median(warm["evaluate"]))
    return found | {"nodes_per_second": learned / (warm["update"].sum() / 1000)}


def measure(names: tuple[str, ...] = NAMES) -> list[Json]:
    found = []
    for name in names:
        command = [sys.executable, "-m", "perf.sizes", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return found


if __name__ == "__main__":
    child(sys.argv[1])
