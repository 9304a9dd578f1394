"""The Past Information Store on Redis or Valkey: samples are those of the store in memory, to the bit."""

import json
from collections import defaultdict
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from ocgl.errors import (
    ConfigError,
    DuplicateNodeError,
    EmptyBatchError,
    GraphError,
    StoreUnreachableError,
    UnknownNodeError,
)
from ocgl.graph._kernels.sparsify import Sparsified
from ocgl.graph.features import Table
from ocgl.graph.ids import Ids, Kind, kind_of
from ocgl.graph.neighbor_sampling import NeighborSampling
from ocgl.graph.neighborhood import Neighborhood, touched, weigh
from ocgl.graph.redis.address import Address, address_of
from ocgl.graph.redis.changes import TOTALS, Writer
from ocgl.graph.redis.partitions import Partitions, pages_of
from ocgl.graph.redis.parts import RemoteAdjacency, RemoteIds, RemoteSparseTable, RemoteTable, RemoteTimes
from ocgl.graph.redis.reading import Reader
from ocgl.graph.redis.servers import Servers, slot_of
from ocgl.graph.store import GraphStore
from ocgl.types import AnyArray, DoubleArray, PositionArray, Rows

LAYOUT = 2
_CLOSED = "it is closed"


class RedisStore(GraphStore):
    """A graph on Redis or Valkey, single or as a cluster. It is used as `GraphStore` is.

    The graph is divided into partitions. Each has a mark: the number of the last change that it has. Every answer
    comes with the mark. A partition that lacks a change, after a failover say, gets it again before anything is
    answered from it. For that, what was sent lies in a temporary file until the store is closed.

    Args:
        address: `redis://HOST:PORT[,HOST:PORT...]/NAME`; any nodes of a cluster. There must be no graph of this name.
        sparse: whether features are stored as sparse rows; None for as the first ones are given.
    """

    def __init__(self, address: str | Address, sparse: bool | None = None) -> None:
        super().__init__(None, sparse)
        self._connect(address)
        if not self._ask_meta("HSETNX", "layout", str(LAYOUT)):
            self.servers.close()
            raise ConfigError(f"there is a graph at {self.address.shown}; attach it, drop it, or choose another name")
        self._ask_meta("HSET", "partitions", str(self.address.partitions), "state", "open")
        self._divide(self.address.partitions)
        self.partitions.begin_writing()

    def _connect(self, address: str | Address) -> None:
        self.address = address_of(address) if isinstance(address, str) else address
        self.servers = Servers(self.address)
        self._adjacency = cast(Any, RemoteAdjacency(self))
        self._times = cast(Any, RemoteTimes())
        self._failed: str | None = None
        self.moment: int | None = None
        """Change as of which to sample where a call does not say; None for the graph as it is."""

    def _divide(self, partitions: int) -> None:
        self.partitions = Partitions(self.servers, self.address.name, partitions)
        self.reader = Reader(self.partitions)

    @classmethod
    def attach(cls, address: str | Address) -> "RedisStore":
        """Return the graph of an address.

        If its writer has closed it, it can be changed as well. Otherwise it can be read while it grows: see `as_of` of
        `sample`.
        """
        found = cls.__new__(cls)
        GraphStore.__init__(found)
        found._connect(address)
        meta = found._meta()
        if meta.get("layout") != str(LAYOUT):
            found.servers.close()
            what = "no graph" if not meta else f"a graph of layout {meta.get('layout')}"
            raise ConfigError(f"there is {what} at {found.address.shown}")
        found._divide(int(meta["partitions"]))
        found._begin_table(meta)
        if meta["state"] == "closed":
            found._resume(json.loads(meta["totals"]))
        else:
            found._failed = "its writer has it open, or has not closed it; it can only be read"
            found.refresh()
        return found

    def refresh(self) -> int:
        """Take note of what another process has added; return the number of the last change."""
        with self._lock:
            sequence = max(sequence for sequence, _ in self.partitions.marks())
            totals = self.reader.totals(sequence)
            cast(RemoteAdjacency, self._adjacency).set(int(totals["arrived"]), int(totals["edges"]))
            self._removed = int(totals["removed"])
            if self._table is None and self.arrived:
                self._begin_table(self._meta())
            return sequence

    def _begin_table(self, meta: dict[str, str]) -> None:
        """Take width and kind of the first nodes, if there are some."""
        if "width" in meta:
            self._ids = RemoteIds(self, cast(Kind, meta["kind"]))
            self._table = self._new_table(int(meta["width"]), meta["sparse"] == "1")

    def _resume(self, totals: dict[str, Any]) -> None:
        parts = self.partitions
        parts.sequence, parts.last, parts.changed = totals["sequence"], totals["last"], totals["changed"]
        self.version, self._removed = totals["sequence"], totals["removed"]
        cast(RemoteAdjacency, self._adjacency).set(totals["arrived"], totals["edges"])
        if self._removed:
            self._gone = self._ids.every == (-1 if self._ids.kind == "integer" else "")
        parts.begin_writing()
        self._ask_meta("HSET", "state", "open")

    def close(self) -> None:
        """Close the store; it can be attached and changed again."""
        with self._lock:
            if self._failed is None:
                parts = self.partitions
                totals = {
                    "sequence": self.publish(), "last": parts.last, "changed": parts.changed, "arrived": self.arrived,
                    "edges": self.edges, "removed": self.removed,
                }  # fmt: skip
                self._ask_meta("HSET", "state", "closed", "totals", json.dumps(totals))
            self._release()

    def drop(self) -> None:
        """Delete the graph from the servers, and close the store."""
        with self._lock:
            sequence = self.refresh()
            self.partitions.drop(pages_of(self.arrived, sequence))
            self._ask_meta("DEL")
            self._release()

    def publish(self) -> int:
        """Let readers sample as of the last change; return its number."""
        with self._lock:
            return self.partitions.publish()

    def _release(self) -> None:
        self._failed = _CLOSED
        self.servers.close()
        self.partitions.close()

    def _ask_meta(self, command: str, *arguments: str) -> Any:
        name = self.address.name
        return self.servers.call([(slot_of(name), (command, f"{{{name}}}meta", *arguments))])[0]

    def _meta(self) -> dict[str, str]:
        flat = [text.decode() for text in self._ask_meta("HGETALL")]
        return dict(zip(flat[::2], flat[1::2], strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of the graph on the servers: features, neighbours, ids and times, without what Redis adds."""
        table = 0 if self._table is None else self._table.nbytes
        return table + self._adjacency.nbytes + 24 * self.arrived

    # Changing

    def _new_ids(self, ids: ArrayLike) -> tuple[AnyArray, Ids]:
        new, held = super()._new_ids(ids)
        return new, RemoteIds(self, kind_of(new)) if self.arrived == 0 else held

    def _reserved_table(self, rows: Rows, later: PositionArray, earlier: PositionArray) -> Table:
        if self._table is not None:
            return self._table
        return self._new_table(rows.shape[1], not isinstance(rows, np.ndarray))

    def _new_table(self, width: int, sparse: bool) -> Table:
        made = RemoteSparseTable if sparse else RemoteTable
        return made(self, width, self.address.cache)

    def _record(self, what: str, arrays: dict[str, AnyArray], rows: Rows | None = None) -> None:
        """Send a change to the partitions that it touches."""
        if self._failed is not None:
            raise StoreUnreachableError(f"{self.address.shown} cannot be changed: {self._failed}")
        writer = Writer(self.partitions.count)
        getattr(self, f"_write_{what}")(writer, arrays, rows)
        writer.pages("s", self.partitions.sequence + 1, self._totals_after(what, arrays))
        try:
            self.partitions.send(writer.operations, more=what != "add")
        except BaseException as error:
            self._failed = f"a change has failed halfway ({error})"
            raise

    def _totals_after(self, what: str, arrays: dict[str, AnyArray]) -> AnyArray:
        """Return the numbers of nodes that have arrived, of edges and of removed nodes after a change."""
        totals = np.zeros(1, TOTALS)
        more = {"add": 1, "add_edges": 1, "remove_edges": -1}.get(what, 0) * len(arrays.get("later", ()))
        totals["arrived"] = self.arrived + (len(arrays["ids"]) if what == "add" else 0)
        totals["edges"] = self.edges + more  # edges of removed nodes are counted already
        totals["removed"] = self.removed + (len(arrays["positions"]) if what == "remove" else 0)
        return totals

    def _write_add(self, writer: Writer, arrays: dict[str, AnyArray], rows: Rows | None) -> None:
        assert rows is not None
        first, kind = self.arrived, kind_of(arrays["ids"])
        if first == 0:
            sparse = not isinstance(rows, np.ndarray)
            self._ask_meta("HSET", "width", str(rows.shape[1]), "sparse", str(int(sparse)), "kind", kind)
        writer.ids(first, arrays["ids"], arrays["times"], kind)
        writer.features(np.arange(first, first + rows.shape[0]), rows)
        writer.edges(first, rows.shape[0], arrays["later"], arrays["earlier"])

    def _write_add_edges(self, writer: Writer, arrays: dict[str, AnyArray], rows: Rows | None) -> None:
        self._rewrite(writer, arrays["later"], arrays["earlier"], np.union1d)

    def _write_remove_edges(self, writer: Writer, arrays: dict[str, AnyArray], rows: Rows | None) -> None:
        self._rewrite(writer, arrays["later"], arrays["earlier"], np.setdiff1d)

    def _rewrite(self, writer: Writer, later: PositionArray, earlier: PositionArray, change: Any) -> None:
        """Write the rows of both ends of edges anew, from what they are and what changes."""
        ends: dict[int, list[int]] = defaultdict(list)
        for a, b in zip(later.tolist(), earlier.tolist(), strict=True):
            ends[a].append(b)
            ends[b].append(a)
        nodes = np.array(sorted(ends), np.int32)
        for node, row in zip(nodes.tolist(), self.reader.whole_rows(nodes), strict=True):
            writer.row(node, change(row, ends[node]))

    def _write_update(self, writer: Writer, arrays: dict[str, AnyArray], rows: Rows | None) -> None:
        assert rows is not None
        writer.features(arrays["positions"], rows)

    def _write_remove(self, writer: Writer, arrays: dict[str, AnyArray], rows: Rows | None) -> None:
        nodes = arrays["positions"]
        own = self.reader.whole_rows(nodes)
        around = np.setdiff1d(np.concatenate(own), nodes).astype(np.int32)
        for node, row in zip(around.tolist(), self.reader.whole_rows(around), strict=True):
            writer.row(node, np.setdiff1d(row, nodes))
        table = self.features
        writer.forget(nodes, self.ids_at(nodes), table.width, table.sparse, self._ids.kind)
        among = sum(int(np.isin(row, nodes).sum()) for row in own) // 2
        self._adjacency.edges -= sum(map(len, own)) - among

    # Asking

    @property
    def all_times(self) -> DoubleArray:
        """Arrival times by position of arrival, those of removed nodes included."""
        with self._lock:
            times: DoubleArray = self.reader.meta(np.arange(self.arrived, dtype=np.int32))["time"]
            return times

    @property
    def times(self) -> DoubleArray:
        """Arrival times of the nodes that are there, in order of arrival."""
        return self.all_times if self._gone is None else self.all_times[self._present]

    def sample(self, ids: ArrayLike, sampling: NeighborSampling, key: int, as_of: int | None = None) -> Neighborhood:
        """Sample the neighbourhood of distinct nodes; see `GraphStore.sample`.

        A sample of L hops takes L + 1 round trips after ids are resolved, one for each hop and one for features, and
        one more for each hop that meets rows of more than 128 entries. A reader asks first whether something that it
        remembers has changed: one more.

        Args:
            ids: ids of nodes that have arrived.
            sampling: hops, fan-outs and weights.
            key: key of the random draws.
            as_of: number of a change: the sample is that of the graph after it. Only for graphs in which nothing but
                nodes with their edges has arrived.
        """
        if self._failed == _CLOSED:
            raise StoreUnreachableError(f"{self.address.shown}: the store is closed")
        as_of = self.moment if as_of is None else as_of
        with self._lock:
            if not self.partitions.is_written:
                self.partitions.needed = as_of or 0
                self._forget_if_changed()
            try:
                return self._sample(ids, sampling, key, as_of)
            finally:
                self.partitions.needed = 0

    def _sample(self, ids: ArrayLike, sampling: NeighborSampling, key: int, as_of: int | None) -> Neighborhood:
        if as_of is not None and any(self.partitions.changed):
            raise GraphError("samples as of a moment need a graph without later edges, new features and removals")
        then = None if as_of is None else int(self.reader.totals(as_of)["arrived"])
        seeds = self.positions(ids)
        if len(seeds) == 0:
            raise EmptyBatchError("no node to sample; ids is empty")
        if len(np.unique(seeds)) != len(seeds):
            raise DuplicateNodeError("a node id occurs twice; sample each node once")
        if then is not None and seeds.max() >= then:
            raise UnknownNodeError(f"a node had not arrived at change {as_of}")
        nodes, sizes, indptr, indices = self.reader.sampled(seeds, sampling.fanouts, key, then)
        table = cast(RemoteTable | RemoteSparseTable, self.features)
        degrees = None
        if sampling.degrees == "store" and sampling.norm == "sym":
            degrees = table.fetch_with_degrees(nodes, then)
        else:
            table.fetch(nodes)
        weights = weigh(sampling, np.array(sizes), indptr, indices, degrees)
        cost = touched(table, nodes, indptr)
        return Neighborhood(tuple(sizes), indptr, indices, *weights, nodes, table, cost, sampling.norm, self.ids_at)

    def _forget_if_changed(self) -> None:
        """Forget what is remembered if another process has changed more than the ends of rows."""
        changed = [changed for _, changed in self.partitions.marks()]
        if changed != self.partitions.changed:
            self.partitions.changed = changed
            cast(RemoteTable | RemoteSparseTable, self.features).forget()
            cast(RemoteIds, self._ids).forget()

    def subgraph(self, position: int, budget: tuple[int, int], key: int) -> Sparsified:
        """Return a small random subgraph around a node; see `GraphStore.subgraph`."""
        with self._lock:
            return self.reader.subgraph(position, budget, key)
