"""Streams a benchmark into a running service, and scores its answers as `ocgl run` does."""

import time
from collections.abc import Callable, Iterator

import numpy as np

from ocgl.evaluation import Evaluator
from ocgl.graph.features import dense
from ocgl.serving.client import Client
from ocgl.streams import Step, Stream
from ocgl.types import IntArray, Json

_CHUNK = 5_000


def events_of(step: Step) -> Iterator[Json]:
    """Return the events of a step: nodes, changes, labels, and the end of the batch."""
    arrival, changes, labels = step.arrival, step.changes, step.labels
    neighbors: dict[int, list[int]] = {}
    for node, other in arrival.edges.T.tolist():
        neighbors.setdefault(node, []).append(other)
    place = {node: number for number, node in enumerate(arrival.ids.tolist())}
    rows = dense(arrival.rows)
    for node, row, when in zip(arrival.ids.tolist(), rows, arrival.times.tolist(), strict=True):
        earlier = [other for other in neighbors.get(node, []) if place.get(other, -1) < place[node]]
        yield {"type": "node", "id": node, "x": row, "neighbors": earlier, "time": when}
    if changes is not None:
        for source, target in changes.later_edges.T.tolist():
            yield {"type": "edge", "source": source, "target": target}
        if changes.rows is not None:
            for node, row in zip(changes.updated.tolist(), dense(changes.rows), strict=True):
                yield {"type": "update", "id": node, "x": row}
        for source, target in changes.removed_edges.T.tolist():
            yield {"type": "remove_edge", "source": source, "target": target}
        for node in changes.removed.tolist():
            yield {"type": "remove", "id": node}
    if labels is not None:
        for node, label in zip(labels.ids.tolist(), labels.labels.tolist(), strict=True):
            yield {"type": "label", "id": node, "label": label}
        yield {"type": "learn"}


def play(
    stream: Stream,
    client: Client,
    rate: float | None = None,
    every: int = 1,
    score: bool = True,
    show: Callable[[int, int], None] | None = None,
) -> Evaluator:
    """Send the steps of a stream, each as a request, and score the answers.

    Args:
        stream: the stream.
        client: a client of the service.
        rate: nodes per second; as fast as it goes if None.
        every: score after every K-th step.
        score: whether to ask at all.
        show: called with the steps done and the steps of the stream.
    """
    evaluator = Evaluator(stream, every=every)
    sequence, begin, sent = 0, time.monotonic(), 0

    def predict(ids: IntArray, candidates: IntArray | None = None) -> IntArray:
        found: list[int] = []
        for start in range(0, len(ids), _CHUNK):
            labels = client.predict(ids[start : start + _CHUNK].tolist(), min_sequence=sequence)
            found += [-1 if label is None else label for label in labels]
        return np.array(found, np.int64)

    for step in stream:
        sequence = client.send(events_of(step))
        sent += len(step.ids)
        if score:
            evaluator.after(step, predict)
        if rate is not None:
            time.sleep(max(0.0, begin + sent / rate - time.monotonic()))
        if show is not None:
            show(step.index + 1, len(stream))
    return evaluator
