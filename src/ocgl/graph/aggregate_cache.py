"""Repeated sampling of the same nodes in a growing graph, with cached sums of neighbour features."""

from dataclasses import dataclass

import numpy as np

from ocgl.errors import DiskFullError, DuplicateNodeError, WrongSamplingError
from ocgl.graph._kernels.aggregation import Block
from ocgl.graph._kernels.sampling import sample
from ocgl.graph.growable import Growable
from ocgl.graph.neighbor_sampling import Cost, NeighborSampling
from ocgl.graph.neighborhood import Neighborhood, touched, weigh
from ocgl.graph.store import GraphStore
from ocgl.kernels import kernel
from ocgl.types import FloatArray, IntArray, PositionArray, Rows


@dataclass(frozen=True, eq=False, kw_only=True)
class CachedNeighborhood(Neighborhood):
    """A neighbourhood with cached aggregated features instead of its last hop.

    It provides `aggregated`, the features of nodes before the last hop, and the blocks of all layers but the first.

    Args:
        sums: aggregated features of the nodes before the last hop, of shape [num_nodes, num_features].
        sampled: number of sampled neighbours of each of these nodes.
    """

    sums: FloatArray
    sampled: IntArray

    @property
    def aggregated(self) -> FloatArray:
        """The cached sums."""
        return self.sums

    def counts(self, rows: int) -> IntArray:
        """Return the number of sampled neighbours of each of the first `rows` nodes."""
        return self.sampled[:rows]

    def block(self, layer: int) -> Block:
        """Return the sampled edges of a layer, counted from 1; the first layer raises."""
        if layer == 1:
            raise WrongSamplingError("a cached neighbourhood has no edges for the first layer; use `aggregated`")
        return super().block(layer)

    def rows(self) -> Rows:
        """Raise WrongSamplingError: the features of the last hop are not stored."""
        raise WrongSamplingError("a cached neighbourhood has no features of its last hop; use `aggregated`")


@kernel
def _assign_slots(
    nodes: PositionArray,
    sizes: IntArray,
    heads: IntArray,
    changes: PositionArray,
    slots: PositionArray,
    held: PositionArray,
    stamps: IntArray,
    degrees: IntArray,
    sums: FloatArray,
    before: int,
) -> IntArray:
    """Assign every node a slot in the range of its hop, moving as few sums as possible.

    Updates `slots` (by node, -1 for none) and `held`, `stamps`, `degrees`, `sums` (by slot; the first `before` were in
    use). Returns the slots whose sums are out of date: the node is new, or its row's version has changed. While rows
    only grow, `changes` is empty and a degree serves as version.
    """
    count = len(nodes)
    stays = np.zeros(max(count, before), np.bool_)
    movers = np.empty(count, np.int32)
    moving = 0
    cached = 0
    hop = 0
    for i in range(count):
        while i >= sizes[hop]:
            hop += 1
        low = sizes[hop - 1] if hop else 0
        slot = slots[nodes[i]]
        if low <= slot < sizes[hop]:
            stays[slot] = True
        else:
            movers[moving] = i
            moving += 1
            cached += slot >= 0
    carried = np.empty((cached, sums.shape[1]), np.float32)
    carried_stamps = np.full(moving, -1, np.int64)
    cached = 0
    for m in range(moving):
        slot = slots[nodes[movers[m]]]
        if slot >= 0:
            carried[cached] = sums[slot]
            carried_stamps[m] = stamps[slot]
            cached += 1
    for slot in range(before):
        if not stays[slot]:
            slots[held[slot]] = -1
    cached = free = 0
    # Movers and free slots are both in order of hop, and each hop has equally many of them.
    for m in range(moving):
        while stays[free]:
            free += 1
        node = nodes[movers[m]]
        held[free], slots[node], stamps[free] = node, free, carried_stamps[m]
        if carried_stamps[m] >= 0:
            sums[free] = carried[cached]
            cached += 1
        free += 1
    changed = np.empty(count, np.int64)
    found = 0
    for slot in range(count):
        node = held[slot]
        degrees[slot] = heads[node, 1]
        stamp = np.int64(changes[node]) if len(changes) else heads[node, 1]
        if stamps[slot] != stamp:
            stamps[slot] = stamp
            changed[found] = slot
            found += 1
    return changed[:found].copy()


@kernel
def _renumbered(
    nodes: PositionArray, indptr: IntArray, indices: PositionArray, slots: PositionArray
) -> tuple[IntArray, PositionArray]:
    """Return the sampled edges as CSR over slots instead of local node indices."""
    rows = len(indptr) - 1
    starts = np.zeros(rows + 1, np.int64)
    for v in range(rows):
        starts[slots[nodes[v]] + 1] = indptr[v + 1] - indptr[v]
    for v in range(rows):
        starts[v + 1] += starts[v]
    edges = np.empty(len(indices), np.int32)
    for v in range(rows):
        begin = starts[slots[nodes[v]]]
        for e in range(indptr[v], indptr[v + 1]):
            edges[begin + e - indptr[v]] = slots[nodes[indices[e]]]
    return starts, edges


def is_cacheable(sampling: NeighborSampling) -> bool:
    """Return whether a node's sum depends only on the node and its degree, so that it can be cached.

    This excludes symmetric weights, which depend on the neighbours' degrees, and fan-outs that differ between hops.
    """
    return sampling.hops > 0 and sampling.norm != "sym" and len(set(sampling.fanouts)) == 1


class AggregateCache:
    """Samples a growing set of nodes repeatedly with one key, and caches their aggregated features.

    The key, the node and its row determine the sampled neighbours. The sum of a node's neighbour features is therefore
    recomputed only when its row, or a feature in it, has changed, which the version of the row tells. The cache holds
    one row for each node before the last hop, in the store's folder if the store is on disk.

    Args:
        store: the store to sample from.
        sampling: hops, fan-outs and weights; `is_cacheable(sampling)` must hold.
        key: key of the random draws.

    >>> store = GraphStore()
    >>> store.add([7, 8], np.eye(2), edges=[[8], [7]])
    >>> neighborhood, order = AggregateCache(store, NeighborSampling(hops=1), key=0).sample(np.array([8, 7]))
    >>> neighborhood.aggregated[order].tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, store: GraphStore, sampling: NeighborSampling, key: int) -> None:
        if not is_cacheable(sampling):
            raise WrongSamplingError(
                f"sums with norm={sampling.norm} and fan-outs {sampling.fanouts} cannot be cached; "
                "use norm=sum or norm=mean and the same fan-out at every hop"
            )
        self._store = store
        self._sampling = sampling
        self._key = key
        self._slots = Growable(np.int32)
        self._held = Growable(np.int32)
        self._stamps = Growable(np.int64)
        self._degrees = Growable(np.int64)
        self._sums: Growable | None = None
        self._removed = 0
        self._last_lookup: tuple[IntArray, PositionArray] = (np.empty(0, np.int64), np.empty(0, np.int32))

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        parts = (self._slots, self._held, self._stamps, self._degrees, self._sums)
        return sum(part.nbytes for part in parts if part is not None)

    def sample(self, ids: IntArray) -> tuple[CachedNeighborhood, PositionArray]:
        """Sample the neighbourhood of distinct nodes.

        Args:
            ids: ids of nodes that have arrived.

        Returns:
            The neighbourhood, and the index of each node of `ids` among its seeds.
        """
        seeds = self._positions(ids)
        sampling, key = self._sampling, np.uint64(self._key)
        heads, pool = self._store.adjacency
        inner = np.array(sampling.fanouts[1:], np.int64)
        nodes, sizes, indptr, indices = sample(heads, pool, seeds, inner, key)
        if sizes[0] != len(seeds):
            raise DuplicateNodeError("a node id occurs twice; sample each node once")
        sums = self._reserve(len(nodes))
        slots, held, degrees = self._slots.rows, self._held.reserved, self._degrees.reserved
        stamps, changes = self._stamps.reserved, self._store.changes
        changed = _assign_slots(nodes, sizes, heads, changes, slots, held, stamps, degrees, sums, self._held.size)
        for part in (self._held, self._stamps, self._degrees, self._sums):
            assert part is not None
            part.size = len(nodes)
        try:
            cost = self._recompute(sums, changed, held)
        except BaseException:  # the next call recomputes these sums
            stamps[changed] = -1
            raise
        starts, edges = _renumbered(nodes, indptr, indices, slots)
        cap = sampling.fanouts[0]
        sampled = degrees[: len(nodes)].copy() if cap < 0 else np.minimum(degrees[: len(nodes)], cap)
        edge_weight, self_weight = weigh(sampling, sizes, starts, edges, None)
        neighborhood = CachedNeighborhood(
            (*sizes.tolist(), len(nodes)),
            starts,
            edges,
            edge_weight,
            self_weight,
            held[: len(nodes)].copy(),
            self._store.features,
            cost,
            sampling.norm,
            sums=sums[: len(nodes)],
            sampled=sampled,
        )
        return neighborhood, slots[seeds]

    def _positions(self, ids: IntArray) -> PositionArray:
        """Return the positions of nodes; a prefix equal to the ids of the last call is not looked up again."""
        known_ids, known = self._last_lookup
        if self._store.removed != self._removed:  # an id may be gone, or be of another node now
            known_ids, known, self._removed = known_ids[:0], known[:0], self._store.removed
        if len(ids) >= len(known_ids) and np.array_equal(ids[: len(known_ids)], known_ids):
            known = np.concatenate([known, self._store.positions(ids[len(known_ids) :])])
        else:
            known = self._store.positions(ids)
        self._last_lookup = (ids.copy(), known)
        return known

    def _reserve(self, count: int) -> FloatArray:
        """Reserve space for this many sums and for the slots of all nodes in the store; return the array of sums."""
        missing = self._store.arrived - self._slots.size
        if missing:
            self._slots.extend(np.full(missing, -1, np.int32))
        try:
            if self._sums is None:
                self._sums = Growable(np.float32, self._store.features.width, self._store.folder)
            for part in (self._held, self._stamps, self._degrees, self._sums):
                part.reserve(count)
        except OSError as error:
            text = f"no room for the sums of {count} nodes in {self._store.folder}; free disk space"
            raise DiskFullError(f"{text}: {error}") from error
        return self._sums.reserved

    def _recompute(self, sums: FloatArray, changed: IntArray, held: PositionArray) -> Cost:
        """Recompute the sums of the changed slots, and return the cost of the samples."""
        if len(changed) == 0:
            return Cost()
        sampling = self._sampling
        last = np.array(sampling.fanouts[-1:], np.int64)
        nodes, sizes, indptr, indices = sample(*self._store.adjacency, held[changed], last, np.uint64(self._key))
        edge_weight, self_weight = weigh(sampling, sizes, indptr, indices, None)
        table = self._store.features
        sums[changed] = table.aggregate(
            nodes, Block(indptr, indices, edge_weight, self_weight, len(changed), len(nodes))
        )
        return touched(table, nodes, indptr)
