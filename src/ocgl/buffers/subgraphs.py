"""A reservoir of small subgraphs with the features of their nodes, frozen when they are stored."""

from typing import Literal

import numpy as np

from ocgl.buffers.reservoir import Reservoir, Sampling
from ocgl.errors import NeedsStoreError
from ocgl.graph import Batch, Cost, Neighborhood, NeighborSampling
from ocgl.graph._kernels.sparsify import Sparsified, sparsify_sample, subgraph_bound
from ocgl.graph.features import FixedTable, dense
from ocgl.graph.neighborhood import touched, weigh
from ocgl.kernels import kernel
from ocgl.rng import generator, key, restore, state_of
from ocgl.state import State
from ocgl.types import AnyArray, BoolArray, FloatArray, IntArray, PositionArray

Source = Literal["graph", "batch"]
"""Where subgraphs are cut out: the store's graph, or what was sampled around the batch."""

Centres = Literal["on_top", "counted"]
"""Whether the centres of subgraphs count against the capacity of a buffer."""


@kernel
def _union(
    slots: IntArray, ring: PositionArray, joined: BoolArray, hops: int
) -> tuple[PositionArray, IntArray, IntArray, PositionArray, IntArray]:
    """Lay stored subgraphs side by side, ring by ring; return nodes, sizes, indptr, indices and degrees."""
    most = ring.shape[1]
    local = np.full((len(slots), most), -1, np.int32)
    nodes = np.empty(len(slots) * most, np.int32)
    owner = np.empty(len(slots) * most, np.int32)
    sizes = np.zeros(hops + 1, np.int64)
    count = 0
    for distance in range(hops + 1):
        for s in range(len(slots)):
            for i in range(most):
                if ring[slots[s], i] == distance:
                    local[s, i] = count
                    nodes[count] = slots[s] * most + i
                    owner[count] = s
                    count += 1
        sizes[distance] = count
    expanded = sizes[hops - 1] if hops else 0
    indptr = np.zeros(expanded + 1, np.int64)
    indices = np.empty(expanded * most, np.int32)
    degrees = np.empty(count, np.int64)
    edges = 0
    for v in range(count):
        slot, i = nodes[v] // most, nodes[v] % most
        degrees[v] = joined[slot, i].sum()
    for v in range(expanded):
        slot, i = nodes[v] // most, nodes[v] % most
        for j in range(most):
            if joined[slot, i, j]:
                indices[edges] = local[owner[v], j]
                edges += 1
        indptr[v + 1] = edges
    return nodes[:count].copy(), sizes, indptr, indices[:edges].copy(), degrees


class SubgraphBuffer:
    """Keeps sparsified subgraphs around a uniform sample of the labelled nodes it was offered.

    A subgraph has at most 1 + b1 + b2 nodes. A buffer of M nodes holds `examples(M, budget, centres)` subgraphs.

    Args:
        capacity: how many nodes fit.
        budget: (b1, b2), the most first-hop and second-hop nodes of a subgraph.
        width: number of features.
        sampling: hops and weights of the neighbourhoods that the network expects.
        source: `graph` cuts subgraphs out of the store, `batch` out of the batch's own neighbourhood.
        centres: whether centres count against the capacity.
        seed: seed of the reservoir, the draws and the cuts.
        drawing: how the reservoir decides.
    """

    def __init__(
        self,
        capacity: int,
        budget: tuple[int, int],
        width: int,
        sampling: NeighborSampling,
        source: Source,
        centres: Centres,
        seed: int,
        drawing: Sampling = "uniform",
    ) -> None:
        self._budget, self._sampling, self._source = budget, sampling, source
        self._most = 1 + sum(budget)
        self._slots = Reservoir(examples(capacity, budget, centres), generator(seed, "buffer"), drawing)
        self._draws, self._cuts = generator(seed, "replay"), generator(seed, "sparsify")
        shape = (self._slots.capacity, self._most)
        self._rows = np.zeros((*shape, width), np.float32)
        self._joined = np.zeros((*shape, self._most), np.bool_)
        self._ring = np.full(shape, -1, np.int32)
        self._labels = np.zeros(shape[0], np.int64)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def nodes(self) -> int:
        """Number of nodes held."""
        return int((self._ring[: len(self)] >= 0).sum())

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._rows.nbytes + self._joined.nbytes + self._ring.nbytes + self._labels.nbytes

    def offer_batch(self, batch: Batch) -> None:
        """Offer each labelled node of a batch once; only subgraphs that are kept are cut out."""
        seeds = np.nonzero(batch.known)[0]
        for seed, slot in zip(seeds.tolist(), self._slots.offer(len(seeds)).tolist(), strict=True):
            if slot >= 0:
                subgraph, positions = self._cut(batch, seed)
                rows = dense(batch.neighborhood.table.take(positions))
                self._put(slot, subgraph, rows, int(batch.labels[seed]))

    def _cut(self, batch: Batch, seed: int) -> tuple[Sparsified, PositionArray]:
        """Return a subgraph around a seed, and the positions of its nodes in the table of features."""
        neighborhood, drawn = batch.neighborhood, key(self._cuts)
        if self._source == "graph":
            if batch.store is None:
                raise NeedsStoreError("subgraphs are cut out of the store: set source=batch to do without")
            found = batch.store.subgraph(int(neighborhood.nodes[seed]), self._budget, drawn)
            return found, found.nodes
        found = sparsify_sample(neighborhood, seed, self._budget, drawn)
        return found, neighborhood.nodes[found.nodes]

    def _put(self, slot: int, subgraph: Sparsified, rows: FloatArray, label: int) -> None:
        size = len(subgraph.nodes)
        self._rows[slot, :size] = rows
        self._joined[slot] = False
        self._joined[slot, :size, :size] = subgraph.joined
        self._ring[slot] = -1
        self._ring[slot, :size] = subgraph.ring
        self._labels[slot] = label

    def draw_nodes(self, count: int) -> tuple[Neighborhood, IntArray] | None:
        """Draw up to `count` distinct subgraphs, side by side, their centres as seeds; None while it is empty."""
        slots = self._slots.draw(count, self._draws)
        if not len(slots):
            return None
        sampling = self._sampling
        nodes, sizes, indptr, indices, degrees = _union(slots, self._ring, self._joined, sampling.hops)
        given = degrees if sampling.norm == "sym" else None
        weights = weigh(sampling, sizes, indptr, indices, given)
        table = FixedTable(self._rows.reshape(-1, self._rows.shape[2]))
        cost = touched(table, nodes, indptr)
        shape = tuple(sizes.tolist())
        return Neighborhood(shape, indptr, indices, *weights, nodes, table, cost, sampling.norm), self._labels[slots]

    def state(self) -> State:
        """Return the subgraphs in use and the generators."""
        used = len(self)
        arrays: dict[str, AnyArray] = {
            "rows": self._rows[:used].copy(),
            "joined": self._joined[:used].copy(),
            "ring": self._ring[:used].copy(),
            "labels": self._labels[:used].copy(),
        }
        facts = {"draws": state_of(self._draws), "cuts": state_of(self._cuts)}
        return State(arrays, facts).include("slots", self._slots.state())

    def load_state(self, state: State) -> None:
        """Take subgraphs and generators."""
        self._slots.load_state(state.part("slots"))
        restore(self._draws, state.facts["draws"])
        restore(self._cuts, state.facts["cuts"])
        for name, held in (("rows", self._rows), ("joined", self._joined), ("ring", self._ring)):
            held[: len(self)] = state.arrays[name]
        self._labels[: len(self)] = state.arrays["labels"]


def examples(capacity: int, budget: tuple[int, int], centres: Centres) -> int:
    """Return how many subgraphs a buffer of `capacity` nodes holds.

    With centres `on_top` only the neighbours count: M // max(1, b1 + b2) subgraphs, up to M (1 + 1 / (b1 + b2)) nodes.
    With centres `counted` all nodes count: M // (1 + b1 + b2) subgraphs.

    >>> examples(550, (5, 5), "on_top"), examples(550, (5, 5), "counted"), examples(550, (0, 0), "on_top")
    (55, 50, 550)
    """
    return capacity // (max(1, sum(budget)) if centres == "on_top" else 1 + sum(budget))


def offer_bound(budget: tuple[int, int], source: Source, nodes: int, row_bytes: int) -> Cost:
    """Return the most that `SubgraphBuffer.offer_batch` reads from the store for a batch of `nodes` nodes."""
    if source == "batch":
        return Cost()
    bound = subgraph_bound(budget, row_bytes)
    return Cost(nodes * bound.nodes, nodes * bound.edges, nodes * bound.bytes)
