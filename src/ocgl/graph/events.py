"""What comes in: nodes with their edges, and labels. And what a learner gets of it: a batch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ocgl.errors import EmptyBatchError, OcglError
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
        if len(self.labels) == 0:
            raise EmptyBatchError("a batch needs at least one node")
        if len(self.labels) != self.neighborhood.seeds:
            raise OcglError(f"{len(self.labels)} labels given for {self.neighborhood.seeds} nodes")
        if not np.issubdtype(self.labels.dtype, np.integer) or self.labels.min() < UNKNOWN:
            raise OcglError("labels are integers from 0, or -1 where not known")

    @property
    def known(self) -> BoolArray:
        """Which nodes have a label."""
        return np.not_equal(self.labels, UNKNOWN)
