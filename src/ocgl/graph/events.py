"""Events of a stream (arriving nodes with edges, and labels) and the batch that a strategy learns from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ocgl.errors import EmptyBatchError, LabelError, NeedsStoreError
from ocgl.graph.features import integers
from ocgl.graph.neighbor_sampling import Cost, NeighborSampling
from ocgl.graph.neighborhood import Neighborhood
from ocgl.rng import derived_key
from ocgl.types import AnyArray, BoolArray, DoubleArray, IntArray, Rows

if TYPE_CHECKING:
    from ocgl.graph.metered import MeteredStore

UNKNOWN = -1
"""Label of a node whose label is unknown."""


@dataclass(frozen=True, eq=False)
class Arrival:
    """Nodes that arrive together, with their features and edges.

    Args:
        ids: node ids, integers or text.
        rows: features, of shape [num_nodes, num_features].
        edges: node ids of shape [2, num_edges]. At least one end of each edge is a node of this arrival; the other
            end is too, or has arrived before.
        times: arrival times.
    """

    ids: AnyArray
    rows: Rows
    edges: AnyArray
    times: DoubleArray


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels that become known together, of nodes that have arrived.

    Args:
        ids: node ids, integers or text.
        labels: label of each node; a learner takes names of classes, too.
        candidates: classes that each node can have, of shape [num_nodes, num_candidates]; only in task-incremental
            streams.
    """

    ids: AnyArray
    labels: AnyArray
    candidates: IntArray | None = None


def labels_of(labels: ArrayLike, count: int) -> IntArray:
    """Return labels as an integer array after checking that there is one for each of `count` nodes."""
    given = integers(labels)
    if given is None or given.ndim != 1 or (given.size and given.min() < UNKNOWN):
        raise LabelError("labels must be a one-dimensional array of integers from 0, or -1 for an unknown label")
    if len(given) == 0:
        raise EmptyBatchError("a batch needs at least one node")
    if len(given) != count:
        raise LabelError(f"got {len(given)} labels for {count} nodes")
    return given


def candidates_of(candidates: ArrayLike, count: int) -> IntArray:
    """Return candidate classes as an integer array of shape [count, num_candidates], after checking them."""
    given = integers(candidates)
    if given is None or given.ndim != 2 or len(given) != count:
        raise LabelError(f"candidates must be integers of shape (nodes, classes), here with {count} rows")
    return given


@dataclass(frozen=True, eq=False)
class Batch:
    """What a strategy learns from: the sampled neighbourhood of some nodes, and their labels.

    Args:
        neighborhood: sampled neighbourhood of the nodes.
        labels: label of each seed, -1 if unknown.
        candidates: classes that each seed can have, of shape [num_seeds, num_candidates].
        store: metered access to the graph store, only for a strategy that declares `needs_store`.
        key: key of the sample, from which keys of further samples derive.
    """

    neighborhood: Neighborhood
    labels: IntArray
    candidates: IntArray | None = None
    store: "MeteredStore | None" = None
    key: int | None = None

    def __post_init__(self) -> None:
        seeds = self.neighborhood.seeds
        object.__setattr__(self, "labels", labels_of(self.labels, seeds))
        if self.candidates is not None:
            object.__setattr__(self, "candidates", candidates_of(self.candidates, seeds))
            possible = (self.candidates == self.labels[:, None]).any(1)
            if not possible[self.known].all():
                raise LabelError("a label is not among the candidates of its node")

    def resampled(self, sampling: NeighborSampling, number: int) -> Neighborhood:
        """Return another sample of the same nodes; the same number gives the same sample.

        Args:
            sampling: how to sample.
            number: number of the sample, from 1.
        """
        if self.store is None or self.key is None:
            raise NeedsStoreError("another sample of a batch needs the store that it was sampled from")
        ids = self.store.ids_at(self.neighborhood.nodes[: self.neighborhood.seeds])
        return self.store.sample(ids, sampling, derived_key(self.key, number))

    @property
    def known(self) -> BoolArray:
        """Mask of the nodes with a known label."""
        return np.not_equal(self.labels, UNKNOWN)

    @property
    def extra_cost(self) -> Cost:
        """Cost of reading the store beyond the batch's sample."""
        return Cost() if self.store is None else self.store.cost

    @property
    def cost(self) -> Cost:
        """Total cost: the batch's sample and all further reads of the store."""
        return self.neighborhood.cost + self.extra_cost
