"""A reservoir of single nodes: a remembered node comes back without its neighbours."""

from ocgl.buffers.reservoir import Sampling
from ocgl.buffers.vectors import VectorBuffer
from ocgl.graph import Batch, Neighborhood, isolated
from ocgl.graph.features import dense
from ocgl.types import IntArray


class NodeBuffer(VectorBuffer):
    """Keeps (x, y) of a uniform sample of the labelled nodes it was offered.

    Args:
        capacity: how many nodes fit.
        width: number of features.
        hops: hops of the neighbourhoods that the network expects; a drawn node has none but its self-loop.
        seed: seed of the reservoir and of the draws.
        sampling: how the reservoir decides.
    """

    def __init__(self, capacity: int, width: int, hops: int, seed: int, sampling: Sampling = "uniform") -> None:
        super().__init__(capacity, width, seed, sampling)
        self._hops = hops

    def offer_batch(self, batch: Batch) -> None:
        """Offer each labelled node of a batch once."""
        self.offer(dense(batch.neighborhood.own_rows())[batch.known], batch.labels[batch.known])

    def draw_nodes(self, count: int) -> tuple[Neighborhood, IntArray] | None:
        """Draw up to `count` distinct nodes, as isolated nodes with their labels; None while the buffer is empty."""
        vectors, labels = self.draw(count)
        return (isolated(vectors, self._hops), labels) if len(labels) else None
