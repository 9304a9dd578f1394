"""Split of the labelled nodes into training, validation and test."""

import numpy as np

from ocgl.graph import Graph
from ocgl.rng import generator
from ocgl.streams.config import StreamConfig
from ocgl.streams.tasks import Plan
from ocgl.types import IntArray

TRAIN, VALIDATION, TEST, NONE = 0, 1, 2, 3
"""Roles of nodes; NONE is for nodes without a label or outside the stream."""


def roles(graph: Graph, layout: Plan, config: StreamConfig) -> IntArray:
    """Return the role of each node, by default stratified by (task, class).

    In a cell of one node that node is for training; in a cell of two, one is for training and one for test.
    """
    role = np.full(graph.nodes, NONE, np.int64)
    rng = generator(config.stream_seed, "split")
    usable = rng.permutation(np.nonzero((layout.scored >= 0) & (graph.y >= 0))[0])
    if len(usable) == 0:
        return role
    if config.stratify == "random":
        cells = [usable]
    else:
        grouped = usable[np.lexsort((graph.y[usable], layout.scored[usable]))]
        other = (np.diff(layout.scored[grouped]) != 0) | (np.diff(graph.y[grouped]) != 0)
        cells = np.split(grouped, np.nonzero(other)[0] + 1)
    for members in cells:
        validation, test = _held_out(len(members), config.split)
        role[members] = TRAIN
        role[members[:validation]] = VALIDATION
        role[members[validation : validation + test]] = TEST
    return role


def _held_out(count: int, split: tuple[float, float, float]) -> tuple[int, int]:
    if count == 1:
        return 0, 0
    if count == 2:
        return 0, int(split[2] > 0)
    return round(split[1] * count), round(split[2] * count)
