"""Streams: nodes and labels in order of arrival, for each continual learning setting."""

from ocgl.streams.batches import batches
from ocgl.streams.build import class_stream, make_stream
from ocgl.streams.config import StreamConfig
from ocgl.streams.split import NONE, TEST, TRAIN, VALIDATION
from ocgl.streams.stream import Step, Stream

__all__ = [
    "NONE", "TEST", "TRAIN", "VALIDATION", "Step", "Stream", "StreamConfig", "batches", "class_stream", "make_stream",
]  # fmt: skip
