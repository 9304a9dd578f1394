"""Metered access to the graph store, for strategies that read more of the graph than their batch."""

from numpy.typing import ArrayLike

from ocgl.graph._kernels.sparsify import Sparsified
from ocgl.graph.neighbor_sampling import Cost, NeighborSampling
from ocgl.graph.neighborhood import Neighborhood
from ocgl.graph.store import GraphStore
from ocgl.types import AnyArray, BoolArray, IntArray, PositionArray


class MeteredStore:
    """Read-only access to a store. `cost` counts the nodes, edges and bytes of all samples and subgraphs.

    A strategy gets this handle with a batch only if it declares `needs_store`.

    Args:
        store: the store to read.

    >>> import numpy as np
    >>> store = GraphStore()
    >>> store.add([7, 8], np.eye(2), edges=[[8], [7]])
    >>> handle = MeteredStore(store)
    >>> handle.sample([8], NeighborSampling(hops=1), key=0).seeds
    1
    >>> handle.cost.nodes, handle.cost.edges
    (2, 1)
    """

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self.cost = Cost()

    def sample(self, ids: ArrayLike, sampling: NeighborSampling, key: int) -> Neighborhood:
        """Sample the neighbourhood of distinct nodes; see `GraphStore.sample`."""
        neighborhood = self._store.sample(ids, sampling, key)
        self.cost += neighborhood.cost
        return neighborhood

    def subgraph(self, position: int, budget: tuple[int, int], key: int) -> Sparsified:
        """Return a small subgraph around the node at a position of arrival; see `GraphStore.subgraph`."""
        found = self._store.subgraph(position, budget, key)
        features = self._store.features.bytes_of(found.nodes)
        self.cost += found.cost(features)
        return found

    def ids_at(self, positions: PositionArray | IntArray) -> AnyArray:
        """Return the ids of the nodes at these positions of arrival."""
        return self._store.ids_at(positions)

    def is_present(self, positions: IntArray) -> BoolArray:
        """Return for each position of arrival whether its node has arrived and was not removed."""
        return self._store.is_present(positions)

    def was_removed(self, positions: IntArray) -> BoolArray:
        """Return for each position of arrival whether its node was removed."""
        return self._store.was_removed(positions)

    def holds(self, neighborhood: Neighborhood) -> bool:
        """Return whether a neighbourhood was sampled from this store."""
        return neighborhood.table is self._store.features
