"""The Past Information Store on Redis or Valkey: samples are those of the store in memory, to the bit."""

import json
import uuid
from collections import defaultdict
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from ocgl.errors import (
    ConfigError,
    DuplicateNodeError,
    EmptyBatchError,
    StoreChangedError,
    StoreRefusedError,
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
from ocgl.graph.redis.partitions import NOT_GROWN, Partitions, pages_of
from ocgl.graph.redis.parts import RemoteAdjacency, RemoteSparseTable, RemoteTable, RemoteTimes
from ocgl.graph.redis.reading import Reader
from ocgl.graph.redis.remote_ids import RemoteIds
from ocgl.graph.redis.servers import Servers, slot_of
from ocgl.graph.store import GraphStore
from ocgl.types import AnyArray, DoubleArray, Json, PositionArray, Rows

LAYOUT = 2
_CLOSED = "it is closed"
FOREIGN = "the graph at {} belongs to somebody else; choose another name"


class RedisStore(GraphStore):
    """A graph on Redis or Valkey, single or as a cluster. It is used as `GraphStore` is.

    The graph is divided into partitions. Each has a mark: the number of the last change that it has. Every answer
    comes with the mark. A partition that lacks a change, after a failover say, gets it again before anything is
    answered from it. For that, what was sent lies in a temporary file until the store is closed.

    Args:
        address: `redis://HOST:PORT[,HOST:PORT...]/NAME`; any nodes of a cluster. There must be no graph of this name.
        sparse: whether features are stored as sparse rows; None for as the first ones are given.
        owner: who may change the graph, if it is not whoever attaches it: see `at`.
    """

    def __init__(self, address: str | Address, sparse: bool | None = None, owner: str = "") -> None:
        super().__init__(None, sparse)
        self._connect(address)
        if not self._ask_meta("HSETNX", "layout", str(LAYOUT)):
            self.servers.close()
            raise ConfigError(f"there is a graph at {self.address.shown}; attach it, drop it, or choose another name")
        self._owned = bool(owner)
        self._divide(self.address.partitions)
        if any(sequence for sequence, _ in self.partitions.marks()):
            self._ask_meta("DEL")
            self.servers.close()
            raise ConfigError(f"there are parts of a graph at {self.address.shown}; choose another name")
        self._note({"partitions": str(self.address.partitions), "state": "open", "owner": owner})
        self.partitions.begin_writing()

    def _connect(self, address: str | Address) -> None:
        self.address = address_of(address) if isinstance(address, str) else address
        self.servers = Servers(self.address)
        self._adjacency = cast(Any, RemoteAdjacency(self))
        self._times = cast(Any, RemoteTimes())
        self._failed: str | None = None
        self._owned = False
        self._noted = {"layout": str(LAYOUT)}
        self._writer = uuid.uuid4().hex
        self._replays = False  # changes are made again that the servers may have, and more
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
        found, meta = cls._found(address)
        if meta["state"] == "closed" and not meta.get("owner"):
            found._resume(json.loads(meta["totals"]))
            found.partitions.begin_writing()
            found._ask_meta("HSET", "state", "open")
        else:
            found._failed = "its writer has it open, or has not closed it; it can only be read"
            found.refresh()
        return found

    @classmethod
    def _found(cls, address: str | Address) -> tuple["RedisStore", dict[str, str]]:
        """Return the graph that is at an address, and what is noted about it."""
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
        return found, meta

    @classmethod
    def at(cls, address: str | Address, mark: Json | None, owner: str, sends: bool = True) -> "RedisStore":
        """Return a graph as it was after a change, to which the changes that followed are made again.

        The servers may have these changes already, and others after them: what they have is passed by, and samples
        are those of the graph after the last change of this process. For that, only nodes with their edges may have
        arrived since; otherwise reading raises `StoreChangedError`.

        Args:
            address: where the graph is.
            mark: `mark` of a moment; None for the beginning.
            owner: the owner that the graph was begun with.
            sends: whether changes are sent. Without, this process follows another one that sends them; with, it
                calls `settle` when it has made all changes again.
        """
        found, meta = cls._found(address)
        if meta.get("owner") != owner:
            found.servers.close()
            raise ConfigError(FOREIGN.format(found.address.shown))
        found._owned = found._replays = True
        if mark is not None:
            found._resume(mark)
        if sends:
            found.partitions.begin_writing()
            found._note({name: value for name, value in meta.items() if name != "writer"})
        found.partitions.grown_since = found.partitions.sequence
        return found

    def settle(self) -> None:
        """End making changes again. What the servers lack is sent to them.

        Raises `GraphError` if they have changes that this process does not know.
        """
        with self._lock:
            self.partitions.heal()
            self._replays, self.partitions.grown_since = False, None

    def heal(self) -> None:
        """Send the servers what they have lost, without waiting for somebody who needs it.

        Raises `StoreRefusedError` if another process has begun to write to this graph.
        """
        with self._lock, self.servers.impatient():
            if self._failed is None:
                writer = self._meta().get("writer")
                if writer is not None and writer != self._writer:
                    raise StoreRefusedError(f"another process writes to {self.address.shown}")
                if writer is None:
                    self._note({})
                self.partitions.heal()

    def _note(self, facts: dict[str, str]) -> None:
        """Write down facts about the graph, with those of before: the servers may have lost them."""
        self._noted |= facts | {"writer": self._writer}
        self._ask_meta("HSET", *(text for pair in self._noted.items() for text in pair))

    @property
    def fullness(self) -> float:
        """Share of their memory that the fullest server uses, 0 where it has no limit."""
        with self._lock, self.servers.impatient():
            return self.servers.fullness()

    def forget(self, mark: Json) -> None:
        """Forget what was sent before a moment, given by its `mark`.

        Without this, all that was sent lies in a temporary file as long as the store is open.
        """
        with self._lock:
            self.partitions.forget(mark["last"])

    @property
    def mark(self) -> Json:
        """This moment, as `at` takes it."""
        parts = self.partitions
        return {
            "sequence": parts.sequence, "last": list(parts.last), "changed": list(parts.changed),
            "arrived": self.arrived, "edges": self.edges, "removed": self.removed,
        }  # fmt: skip

    @property
    def then(self) -> int | None:
        """Number of nodes that had arrived, where the servers may have more; None for as the graph is."""
        return self.arrived if self._replays else None

    @classmethod
    def discard(cls, address: str | Address, owner: str) -> None:
        """Delete the graph of an owner from the servers, whatever is left of it; nothing happens if there is none."""
        where = address_of(address) if isinstance(address, str) else address
        servers = Servers(where)
        try:
            flat = servers.call([(slot_of(where.name), ("HMGET", f"{{{where.name}}}meta", "owner", "partitions"))])[0]
            if flat[1] is not None and flat[0] != owner.encode():
                raise ConfigError(FOREIGN.format(where.shown))
            Partitions(servers, where.name, int(flat[1] or where.partitions)).discard()
            servers.call([(slot_of(where.name), ("DEL", f"{{{where.name}}}meta"))])
        finally:
            servers.close()

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

    def close(self) -> None:
        """Close the store; it can be attached and changed again."""
        with self._lock:
            if self._failed is None and not self._owned:
                self.publish()
                self._ask_meta("HSET", "state", "closed", "totals", json.dumps(self.mark))
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
        more = what != "add"
        try:
            if self.partitions.is_written:
                self.partitions.send(writer.operations, more)
            else:
                self.partitions.note(writer.operations, more)
        except BaseException as error:
            self._failed = f"a change has failed halfway ({error})"
            raise
        if self._replays:
            self.partitions.grown_since = self.partitions.sequence

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
            if self.partitions.is_written:
                self._note({"width": str(rows.shape[1]), "sparse": str(int(sparse)), "kind": kind})
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

    def time_at(self, position: int) -> float:
        """Return when the node at a position arrived."""
        with self._lock:
            return float(self.reader.meta(np.array([position], np.int32))["time"][0])

    def rows_at(self, positions: PositionArray) -> list[PositionArray]:
        """Return the neighbours of nodes, by positions of arrival."""
        with self._lock:
            rows = self.reader.whole_rows(positions)
        return rows if self.then is None else [row[: np.searchsorted(row, self.then)] for row in rows]

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
        with self._lock:
            if as_of is None:
                as_of = self.partitions.sequence if self._replays else self.moment
            if not self.partitions.is_written and not self._replays:
                self.partitions.needed = as_of or 0
                self._forget_if_changed()
            try:
                return self._sample(ids, sampling, key, as_of)
            finally:
                self.partitions.needed = 0

    def _sample(self, ids: ArrayLike, sampling: NeighborSampling, key: int, as_of: int | None) -> Neighborhood:
        if as_of is not None and max(self.partitions.changed) > as_of:
            raise StoreChangedError(NOT_GROWN)
        then = None if as_of is None else self.then
        if then is None and as_of is not None:
            then = int(self.reader.totals(as_of)["arrived"])
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
        if self._replays:
            raise StoreChangedError("subgraphs are of the graph as it is; this process looks at an earlier one")
        with self._lock:
            return self.reader.subgraph(position, budget, key)
