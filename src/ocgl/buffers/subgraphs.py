"""A reservoir of small subgraphs with the features of their nodes, frozen when they are stored."""

import numpy as np

from ocgl.buffers.reservoir import Reservoir
from ocgl.graph import Look, Neighborhood
from ocgl.graph.features import FixedTable
from ocgl.graph.neighborhood import touched, weigh
from ocgl.graph.sparsify import Sparsified
from ocgl.kernels import kernel
from ocgl.state import State
from ocgl.types import AnyArray, BoolArray, FloatArray, IntArray, PositionArray


@kernel
def _union(
    slots: IntArray, ring: PositionArray, joined: BoolArray, hops: int
) -> tuple[PositionArray, IntArray, IntArray, PositionArray, IntArray]:
    """Lay stored subgraphs side by side, ring by ring; gives nodes, sizes, indptr, indices and degrees."""
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
    """Holds as many subgraphs of at most 1 + b1 + b2 nodes as fit a capacity counted in nodes, in the worst case."""

    def __init__(self, capacity: int, budget: tuple[int, int], width: int, rng: np.random.Generator) -> None:
        self._most = 1 + sum(budget)
        self._slots = Reservoir(capacity // self._most, rng)
        shape = (self._slots.capacity, self._most)
        self._rows = np.zeros((*shape, width), np.float32)
        self._joined = np.zeros((*shape, self._most), np.bool_)
        self._ring = np.full(shape, -1, np.int32)
        self._labels = np.zeros(shape[0], np.int64)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def nodes(self) -> int:
        """How many nodes are held."""
        return int((self._ring[: len(self)] >= 0).sum())

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._rows.nbytes + self._joined.nbytes + self._ring.nbytes + self._labels.nbytes

    def offer(self, count: int) -> IntArray:
        """Decide where that many more subgraphs go, -1 for nowhere: rejected ones need not be built."""
        return self._slots.offer(count)

    def put(self, slot: int, subgraph: Sparsified, rows: FloatArray, label: int) -> None:
        """Store a subgraph."""
        size = len(subgraph.nodes)
        self._rows[slot, :size] = rows
        self._joined[slot] = False
        self._joined[slot, :size, :size] = subgraph.joined
        self._ring[slot] = -1
        self._ring[slot, :size] = subgraph.ring
        self._labels[slot] = label

    def draw(self, count: int, look: Look, rng: np.random.Generator) -> tuple[Neighborhood, IntArray] | None:
        """Give up to `count` distinct subgraphs side by side, their centres as seeds, and the centres' labels."""
        slots = self._slots.draw(count, rng)
        if not len(slots):
            return None
        nodes, sizes, indptr, indices, degrees = _union(slots, self._ring, self._joined, look.hops)
        given = degrees if look.norm == "sym" else None
        edge, own = weigh(look, sizes, indptr, indices, given)
        table = FixedTable(self._rows.reshape(-1, self._rows.shape[2]))
        cost = touched(table, nodes, indptr)
        seen = Neighborhood(tuple(sizes.tolist()), indptr, indices, edge, own, nodes, table, cost, look.norm)
        return seen, self._labels[slots]

    def state(self) -> State:
        """Give the subgraphs in use and the reservoir's state."""
        used = len(self)
        arrays: dict[str, AnyArray] = {
            "rows": self._rows[:used].copy(),
            "joined": self._joined[:used].copy(),
            "ring": self._ring[:used].copy(),
            "labels": self._labels[:used].copy(),
        }
        return State(arrays).include("slots", self._slots.state())

    def load_state(self, state: State) -> None:
        """Take subgraphs and the reservoir's state."""
        self._slots.load_state(state.part("slots"))
        for name, held in (("rows", self._rows), ("joined", self._joined), ("ring", self._ring)):
            held[: len(self)] = state.arrays[name]
        self._labels[: len(self)] = state.arrays["labels"]
