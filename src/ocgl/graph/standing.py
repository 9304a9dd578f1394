"""A look at the same nodes again and again while the graph grows: what has not changed is kept."""

from dataclasses import dataclass

import numpy as np

from ocgl.errors import DiskFullError, DuplicateNodeError, WrongLookError
from ocgl.graph.aggregation import Block
from ocgl.graph.growable import Growable
from ocgl.graph.look import Cost, Look
from ocgl.graph.neighborhood import Neighborhood, touched, weigh
from ocgl.graph.sampling import sample
from ocgl.graph.store import Store
from ocgl.kernels import kernel
from ocgl.types import FloatArray, IntArray, PositionArray, Rows


@dataclass(frozen=True, eq=False, kw_only=True)
class Kept(Neighborhood):
    """A neighbourhood whose aggregated features were kept, and whose last hop therefore is not there.

    It serves what starts from `aggregated`, the rows of nodes before the last hop, and the blocks from the second
    layer on.
    """

    sums: FloatArray
    sampled: IntArray

    @property
    def aggregated(self) -> FloatArray:
        """The kept sums."""
        return self.sums

    def counts(self, rows: int) -> IntArray:
        """Count the sampled neighbours of the first nodes."""
        return self.sampled[:rows]

    def block(self, layer: int) -> Block:
        """Give the message passing of a layer after the first."""
        if layer == 1:
            raise WrongLookError("a kept look holds the sums of the first layer, not its edges")
        return super().block(layer)

    def rows(self) -> Rows:
        """Refuse: the last hop is not there."""
        raise WrongLookError("a kept look holds sums, not the rows of its last hop")


@kernel
def _settle(
    nodes: PositionArray,
    sizes: IntArray,
    heads: IntArray,
    slots: PositionArray,
    held: PositionArray,
    degrees: IntArray,
    sums: FloatArray,
    before: int,
) -> IntArray:
    """Give every node a slot in the range of its hop, moving as few sums as can be.

    `slots` (by node, -1 without) and `held`, `degrees`, `sums` (by slot; `before` of them in use) are brought up to
    date. Gives the slots whose sums must be made anew: their node is new there, or its degree has changed.
    """
    count = len(nodes)
    stays = np.zeros(max(count, before), np.bool_)
    movers = np.empty(count, np.int32)
    moving = 0
    kept = 0
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
            kept += slot >= 0
    carried = np.empty((kept, sums.shape[1]), np.float32)
    carried_degrees = np.full(moving, -1, np.int64)
    kept = 0
    for m in range(moving):
        slot = slots[nodes[movers[m]]]
        if slot >= 0:
            carried[kept] = sums[slot]
            carried_degrees[m] = degrees[slot]
            kept += 1
    for slot in range(before):
        if not stays[slot]:
            slots[held[slot]] = -1
    kept = free = 0
    for m in range(moving):  # movers and free slots both go up hop by hop, and each hop has as many of either
        while stays[free]:
            free += 1
        node = nodes[movers[m]]
        held[free], slots[node], degrees[free] = node, free, carried_degrees[m]
        if carried_degrees[m] >= 0:
            sums[free] = carried[kept]
            kept += 1
        free += 1
    changed = np.empty(count, np.int64)
    found = 0
    for slot in range(count):
        degree = heads[held[slot], 1]
        if degrees[slot] != degree:
            degrees[slot] = degree
            changed[found] = slot
            found += 1
    return changed[:found].copy()


@kernel
def _renumbered(
    nodes: PositionArray, indptr: IntArray, indices: PositionArray, slots: PositionArray
) -> tuple[IntArray, PositionArray]:
    """Bring sampled edges into the order of the slots."""
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


def can_stand(look: Look) -> bool:
    """Tell whether a node's sum depends on the node and its degree alone, so that it can be kept.

    Not so with symmetric weights, which depend on the neighbours' degrees, or with other caps at other hops.
    """
    return look.hops > 0 and look.norm != "sym" and len(set(look.fanouts)) == 1


class Standing:
    """One look at a growing set of nodes in a growing store.

    The sampled neighbours of a node are fixed by the key, the node and its degree; so its sum of raw features is made
    again only when its degree has changed. What is held depends on the nodes looked at: a row of sums for each node
    before the last hop, on disk where the store is.

    >>> store = Store()
    >>> store.add([7, 8], np.eye(2), edges=[[8], [7]])
    >>> seen, order = Standing(store, Look(hops=1), key=0).look(np.array([8, 7]))
    >>> seen.aggregated[order].tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, store: Store, look: Look, key: int) -> None:
        if not can_stand(look):
            raise WrongLookError(f"sums with {look.norm} weights and fan-outs {look.fanouts} cannot be kept")
        self._store = store
        self._look = look
        self._key = key
        self._slots = Growable(np.int32)
        self._held = Growable(np.int32)
        self._degrees = Growable(np.int64)
        self._sums: Growable | None = None
        self._asked: tuple[IntArray, PositionArray] = (np.empty(0, np.int64), np.empty(0, np.int32))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        parts = (self._slots, self._held, self._degrees, self._sums)
        return sum(part.nbytes for part in parts if part is not None)

    def look(self, ids: IntArray) -> tuple[Kept, PositionArray]:
        """Look at distinct nodes; gives the look and where in its order each of them lies."""
        seeds = self._positions(ids)
        look, key = self._look, np.uint64(self._key)
        heads, pool = self._store.adjacency
        inner = np.array(look.fanouts[1:], np.int64)
        nodes, sizes, indptr, indices = sample(heads, pool, seeds, inner, key)
        if sizes[0] != len(seeds):
            raise DuplicateNodeError("a node is named twice in one look")
        sums = self._room(len(nodes))
        slots, held, degrees = self._slots.rows, self._held.reserved, self._degrees.reserved
        changed = _settle(nodes, sizes, heads, slots, held, degrees, sums, self._held.size)
        for part in (self._held, self._degrees, self._sums):
            assert part is not None
            part.size = len(nodes)
        try:
            cost = self._renew(sums, changed, held)
        except BaseException:  # what was not made is made the next time
            degrees[changed] = -1
            raise
        starts, edges = _renumbered(nodes, indptr, indices, slots)
        cap = look.fanouts[0]
        sampled = degrees[: len(nodes)].copy() if cap < 0 else np.minimum(degrees[: len(nodes)], cap)
        edge, own = weigh(look, sizes, starts, edges, None)
        seen = Kept(
            (*sizes.tolist(), len(nodes)),
            starts,
            edges,
            edge,
            own,
            held[: len(nodes)].copy(),
            self._store.features,
            cost,
            look.norm,
            sums=sums[: len(nodes)],
            sampled=sampled,
        )
        return seen, slots[seeds]

    def _positions(self, ids: IntArray) -> PositionArray:
        """Find nodes; those asked before, in the same order, are not searched again."""
        known_ids, known = self._asked
        if len(ids) >= len(known_ids) and np.array_equal(ids[: len(known_ids)], known_ids):
            known = np.concatenate([known, self._store.positions(ids[len(known_ids) :])])
        else:
            known = self._store.positions(ids)
        self._asked = (ids.copy(), known)
        return known

    def _room(self, count: int) -> FloatArray:
        """Make room for as many sums, and for the slots of all nodes in the store."""
        missing = len(self._store) - self._slots.size
        if missing:
            self._slots.extend(np.full(missing, -1, np.int32))
        try:
            if self._sums is None:
                self._sums = Growable(np.float32, self._store.features.width, self._store.folder)
            for part in (self._held, self._degrees, self._sums):
                part.reserve(count)
        except OSError as error:
            raise DiskFullError(f"no room for the sums of {count} nodes in {self._store.folder}: {error}") from error
        return self._sums.reserved

    def _renew(self, sums: FloatArray, changed: IntArray, held: PositionArray) -> Cost:
        if len(changed) == 0:
            return Cost()
        look = self._look
        last = np.array(look.fanouts[-1:], np.int64)
        nodes, sizes, indptr, indices = sample(*self._store.adjacency, held[changed], last, np.uint64(self._key))
        edge, own = weigh(look, sizes, indptr, indices, None)
        table = self._store.features
        sums[changed] = table.aggregate(nodes, Block(indptr, indices, edge, own, len(changed), len(nodes)))
        return touched(table, nodes, indptr)
