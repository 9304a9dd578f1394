"""What comes in: nodes with their edges, and labels. And what a learner gets of it: a batch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ocgl.errors import EmptyBatchError, LabelError
from ocgl.graph.features import integers
from ocgl.graph.neighborhood import Neighborhood
from ocgl.types import BoolArray, DoubleArray, IntArray, Rows

if TYPE_CHECKING:
    from ocgl.graph.store import Store

UNKNOWN = -1
"""The label of a node whose label is not known."""


@dataclass(frozen=True, eq=False)
class Arrival:
    """Nodes that arrive together: ids, feature rows, edges (2 x E ids) and times.

    Each edge has at least one end among these nodes, and its other end has arrived or is among them too.
    """

    ids: IntArray
    rows: Rows
    edges: IntArray
    times: DoubleArray


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels that become known together, of nodes that have arrived.

    `candidates` are the classes these nodes can have, given only where the setting tells (task-incremental).
    """

    ids: IntArray
    labels: IntArray
    candidates: IntArray | None = None


def labels_of(labels: ArrayLike, count: int) -> IntArray:
    """Read a label for each of `count` nodes."""
    given = integers(labels)
    if given is None or given.ndim != 1 or (given.size and given.min() < UNKNOWN):
        raise LabelError("labels are a flat array of integers from 0, or -1 where not known")
    if len(given) == 0:
        raise EmptyBatchError("a batch needs at least one node")
    if len(given) != count:
        raise LabelError(f"{len(given)} labels given for {count} nodes")
    return given


def candidates_of(candidates: ArrayLike, count: int) -> IntArray:
    """Read the classes that each of `count` nodes can have."""
    given = integers(candidates)
    if given is None or given.ndim != 2 or len(given) != count:
        raise LabelError(f"candidates are integers of shape (nodes, classes), with {count} rows here")
    return given


@dataclass(frozen=True, eq=False)
class Batch:
    """All that a strategy gets: a bounded look at some nodes and their labels (-1 where not known).

    `store` is there where the look was taken from one; methods that declare `needs_store` look further in it.
    """

    neighborhood: Neighborhood
    labels: IntArray
    candidates: IntArray | None = None
    store: "Store | None" = None

    def __post_init__(self) -> None:
        seeds = self.neighborhood.seeds
        object.__setattr__(self, "labels", labels_of(self.labels, seeds))
        if self.candidates is not None:
            object.__setattr__(self, "candidates", candidates_of(self.candidates, seeds))
            possible = (self.candidates == self.labels[:, None]).any(1)
            if not possible[self.known].all():
                raise LabelError("a label is not among the candidates given for its node")

    @property
    def known(self) -> BoolArray:
        """Which nodes have a label."""
        return np.not_equal(self.labels, UNKNOWN)
