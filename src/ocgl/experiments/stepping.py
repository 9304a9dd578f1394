"""Drive a learner over a stream step by step, for code that needs more than `evaluate`."""

from collections.abc import Iterator

from ocgl.graph import Batch
from ocgl.strategies import Learner
from ocgl.streams import Step, Stream


def arrivals(learner: Learner, stream: Stream) -> Iterator[tuple[Step, Batch]]:
    """Let the nodes of a stream arrive step by step; yield each step that brings labels, with its sampled batch.

    The caller learns the batch, or not: `learner.learn(batch)`.
    """
    for step in stream:
        step.apply(learner)
        labels = step.labels
        if labels is not None:
            yield step, learner.batch(labels)
