"""The Past Information Store on Redis or Valkey: samples are those of the store in memory, to the bit."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from ocgl.errors import (
    ConfigError,
    DuplicateNodeError,
    EmptyBatchError,
    GraphError,
    StoreBehindError,
    StoreUnreachableError,
    UnknownNodeError,
)
from ocgl.graph._kernels.sparsify import Sparsified, _ordered
from ocgl.graph.features import Table
from ocgl.graph.ids import Ids, Kind, kind_of
from ocgl.graph.neighbor_sampling import NeighborSampling
from ocgl.graph.neighborhood import Neighborhood, touched, weigh
from ocgl.graph.redis._kernels import drawn, found_in, joined
from ocgl.graph.redis.address import Address, address_of
from ocgl.graph.redis.changes import (
    BUCKETS,
    META,
    NOTHING,
    PAGE,
    TOTALS,
    Writer,
    id_bytes,
    packed,
    partition_of,
    place_of,
)
from ocgl.graph.redis.parts import RemoteAdjacency, RemoteIds, RemoteSparseTable, RemoteTable
from ocgl.graph.redis.servers import LIBRARY, BehindError, Servers, slot_of, tags_of
from ocgl.graph.redis.spool import Change, Spool
from ocgl.graph.store import GraphStore
from ocgl.types import AnyArray, BoolArray, DoubleArray, FloatArray, IntArray, PositionArray, Rows

LAYOUT = 1
_ATTEMPTS = 8
FETCH = "MGET"
"""Reads rows or features of nodes, with the mark of their partition."""
_KEYS = (1 << 64) - 1
Call = tuple[int, tuple[Any, ...]]
"""A partition, and a function with its arguments."""


class RedisStore(GraphStore):
    """A graph on Redis or Valkey, single or as a cluster. It is used as `GraphStore` is.

    The graph is divided into partitions. Each has a mark: the number of the last change that it has. Every answer
    comes with the mark, and a partition that lacks a change, after a failover say, gets it again, before anything is
    answered from it. What was sent lies in a temporary file for that, until the store is closed.

    Args:
        address: `redis://HOST:PORT[,HOST:PORT...]/NAME`; any nodes of a cluster. There must be no graph of this name.
        sparse: whether features are stored as sparse rows; None for as the first ones are given.
    """

    def __init__(self, address: str | Address, sparse: bool | None = None) -> None:
        super().__init__(None, sparse)
        self._begin(address)
        created = self._ask_meta("HSETNX", "layout", str(LAYOUT))
        if not created:
            self.servers.close()
            raise ConfigError(f"there is a graph at {self.address.shown}; open it, drop it, or choose another name")
        self._ask_meta("HSET", "partitions", str(self.address.partitions), "state", "open")
        self._spool: Spool | None = Spool(self.address.partitions)

    def _begin(self, address: str | Address) -> None:
        self.address = address_of(address) if isinstance(address, str) else address
        self.servers = Servers(self.address)
        self.servers.load_functions()
        self._adjacency = cast(Any, RemoteAdjacency(self))
        self._times = cast(Any, _Nothing())
        self._lock = threading.RLock()
        self._sequence = 0
        self.moment: int | None = None
        """Change as of which to sample where a call does not say; None for the graph as it is."""
        self._needed = 0  # change that every partition must have, for a reader that samples as of it
        self._failed: str | None = None
        self._set_partitions(self.address.partitions)
        self._spool = None

    def _set_partitions(self, partitions: int) -> None:
        self._partitions = partitions
        tags = tags_of(self.address.name, partitions)
        self._slots, self._marks = [slot_of(tag) for tag in tags], [f"{{{tag}}}w" for tag in tags]
        self._last = [0] * partitions
        self._changed = [0] * partitions

    @classmethod
    def attach(cls, address: str | Address) -> "RedisStore":
        """Return the graph of an address.

        If its writer has closed it, it can be changed as well. Otherwise it can be read while it grows: see `as_of` of
        `sample`.
        """
        found = cls.__new__(cls)
        GraphStore.__init__(found)
        found._begin(address)
        meta = {k.decode(): v.decode() for k, v in _pairs(found._ask_meta("HGETALL"))}
        if meta.get("layout") != str(LAYOUT):
            found.servers.close()
            what = "no graph" if not meta else f"a graph of layout {meta.get('layout')}"
            raise ConfigError(f"there is {what} at {found.address.shown}")
        found._set_partitions(int(meta["partitions"]))
        found._begin_table()
        if meta["state"] == "closed":
            found._resume(json.loads(meta["totals"]))
        else:
            found._failed = "its writer has it open, or has not closed it; it can only be read"
            found.refresh()
        return found

    def refresh(self) -> int:
        """Take note of what another process has added; return the number of the last change."""
        with self._lock:
            sequence = max(int(mark.split()[0]) for mark in self._read_marks())
            totals = self._totals_at(sequence)
            adjacency = cast(RemoteAdjacency, self._adjacency)
            adjacency._arrived, adjacency.edges = int(totals["arrived"]), int(totals["edges"])
            self._removed = int(totals["removed"])
            if self._table is None and self.arrived:
                self._begin_table()
            return sequence

    def _begin_table(self) -> None:
        """Take width and kind of the first nodes."""
        meta = {k.decode(): v.decode() for k, v in _pairs(self._ask_meta("HGETALL"))}
        if "width" in meta:
            self._ids = RemoteIds(self, cast(Kind, meta["kind"]))
            self._table = self._new_table(int(meta["width"]), meta["sparse"] == "1")

    def _resume(self, totals: dict[str, Any]) -> None:
        self._sequence, self.version, self._removed = totals["sequence"], totals["sequence"], totals["removed"]
        self._last, self._changed = totals["last"], totals["changed"]
        adjacency = cast(RemoteAdjacency, self._adjacency)
        adjacency._arrived, adjacency.edges = totals["arrived"], totals["edges"]
        if self._removed:
            meta = self._meta(np.arange(self.arrived, dtype=np.int32))
            self._gone = meta["id"] < 0 if self._ids.kind == "integer" else self._ids.every == ""
        self._spool = Spool(self._partitions)
        self._ask_meta("HSET", "state", "open")

    # Beginning and ending

    def close(self) -> None:
        """Close the store; it can be attached and changed again."""
        with self._lock:
            if self._failed is None:
                self.publish()
                totals = {
                    "sequence": self._sequence, "last": self._last, "changed": self._changed, "arrived": self.arrived,
                    "edges": self.edges, "removed": self.removed,
                }  # fmt: skip
                self._ask_meta("HSET", "state", "closed", "totals", json.dumps(totals))
            self._release()

    def drop(self) -> None:
        """Delete the graph from the servers, and close the store."""
        with self._lock:
            sequence = max(int(mark.split()[0]) for mark in self._read_marks())
            pages = 1 + max(int(self._totals_at(sequence)["arrived"]), sequence) // PAGE
            for begin in range(0, pages, 64 * self._partitions):
                end = min(begin + 64 * self._partitions, pages) - 1
                self._drop([(begin + p, end) for p in range(self._partitions)], (1, 0), False)
            for begin in range(0, BUCKETS, 512):
                last = begin + 512 >= BUCKETS
                self._drop([(1, 0)] * self._partitions, (begin, begin + 511), last)
            self._ask_meta("DEL")
            self._release()

    def _drop(self, pages: list[tuple[int, int]], buckets: tuple[int, int], end: bool) -> None:
        rest = (str(self._partitions), str(buckets[0]), str(buckets[1]), str(int(end)))
        calls = [
            (p, ("FCALL", f"{LIBRARY}_drop", 1, self._marks[p], str(first), str(last), *rest))
            for p, (first, last) in enumerate(pages)
        ]
        self.servers.call([(self._slots[p], command) for p, command in calls])

    def _release(self) -> None:
        self._failed = "it is closed"
        self.servers.close()
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _ask_meta(self, command: str, *arguments: str) -> Any:
        name = self.address.name
        return self.servers.call([(slot_of(name), (command, f"{{{name}}}meta", *arguments))])[0]

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
        writer = Writer(self._partitions)
        getattr(self, f"_write_{what}")(writer, arrays, rows)
        sequence = self._sequence + 1
        writer.pages("s", sequence, self._totals_after(what, arrays))
        assert self._spool is not None
        touched_partitions = sorted(writer.operations)
        for p in touched_partitions:
            self._spool.append(p, Change(sequence, self._last[p], what != "add", *packed(writer.operations[p])))
        before = self._sequence, list(self._last)
        self._sequence = sequence
        for p in touched_partitions:
            self._last[p] = sequence
            if what != "add":
                self._changed[p] = sequence
        try:
            self._apply([(p, change) for p in touched_partitions for change in self._spool.after(p, before[1][p])])
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

    def publish(self) -> int:
        """Mark all partitions with the last change, so that readers can sample as of it; return its number.

        A partition that a change does not touch keeps its mark, and a reader cannot know whether it lacks something.
        """
        with self._lock:
            assert self._spool is not None
            behind = [p for p in range(self._partitions) if self._last[p] < self._sequence]
            changes = [(p, Change(self._sequence, self._last[p], False, [], NOTHING)) for p in behind]
            for p, change in changes:
                self._spool.append(p, change)
                self._last[p] = self._sequence
            if changes:
                self._apply(changes)
            return self._sequence

    def _apply(self, changes: list[tuple[int, Change]]) -> None:
        for _ in range(_ATTEMPTS):
            try:
                self._apply_once(changes)
                return
            except BehindError:
                for p in sorted({p for p, _ in changes}):
                    self._redo(p)
        raise StoreBehindError(f"{self.address.shown} loses changes again and again")

    def _redo(self, partition: int) -> None:
        """Bring a partition the changes that it has lost."""
        (mark,) = self._read_marks([partition])
        have = int(mark.split()[0])
        assert self._spool is not None
        missing = list(self._spool.after(partition, have))
        if have < self._last[partition] and (not missing or missing[0].before != have):
            raise StoreBehindError(
                f"partition {partition} of {self.address.shown} has gone back to change {have}, which is too far"
            )
        self.servers.traffic.redone += len(missing)
        for begin in range(0, len(missing), 64):
            try:
                self._apply_once([(partition, change) for change in missing[begin : begin + 64]])
            except BehindError:
                return  # it has gone back again; whoever asked looks again

    def _apply_once(self, changes: list[tuple[int, Change]]) -> None:
        calls = []
        for p, change in changes:
            numbers = str(change.sequence), str(change.before), str(int(change.more))
            tag = self._marks[p][:-1]
            keys = (self._marks[p], *(tag + key for key in change.keys))
            command = ("FCALL", f"{LIBRARY}_apply", len(keys), *keys, *numbers, change.operations)
            calls.append((self._slots[p], command))
        self.servers.call(calls)

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
        for node, row, version in zip(nodes.tolist(), *self._whole(nodes), strict=True):
            self._put_row(writer, node, change(row, ends[node]).astype("<i4"), version + 1)

    def _put_row(self, writer: Writer, node: int, row: PositionArray, version: int) -> None:
        writer.row(node, row.astype("<i4").tobytes(), version)

    def _write_update(self, writer: Writer, arrays: dict[str, AnyArray], rows: Rows | None) -> None:
        assert rows is not None
        writer.features(arrays["positions"], rows)

    def _write_remove(self, writer: Writer, arrays: dict[str, AnyArray], rows: Rows | None) -> None:
        nodes = arrays["positions"]
        own, _ = self._whole(nodes)
        around = np.setdiff1d(np.unique(np.concatenate([*own, np.empty(0, np.int32)])), nodes).astype(np.int32)
        for node, row, version in zip(around.tolist(), *self._whole(around), strict=True):
            self._put_row(writer, node, np.setdiff1d(row, nodes), version + 1)
        table = self.features
        writer.forget(nodes, self.ids_at(nodes), table.width, table.sparse, self._ids.kind)
        among = sum(int(np.isin(row, nodes).sum()) for row in own) // 2
        self._adjacency.edges -= sum(map(len, own)) - among

    # Asking

    def _read_marks(self, partitions: Iterable[int] | None = None) -> list[bytes]:
        wanted = range(self._partitions) if partitions is None else partitions
        found = self.servers.call([(self._slots[p], ("GET", self._marks[p])) for p in wanted])
        return [mark or b"0 0" for mark in found]

    def _gather(self, what: str, nodes: PositionArray, *columns: Any) -> list[tuple[IntArray, list[Any]]]:
        """Ask each partition about its nodes, all in one round trip; return which nodes, and the answers.

        Args:
            what: the function.
            nodes: positions of arrival.
            columns: arguments: an array has a value for each node, anything else is for all.
        """
        groups, calls = self._planned(what, nodes, *columns)
        return list(zip(groups, self._read(calls), strict=True))

    def _planned(self, what: str, nodes: PositionArray, *columns: Any) -> tuple[list[IntArray], list[Call]]:
        """Return which nodes lie together, and the call for each group."""
        parts = partition_of(np.asarray(nodes, np.int64), self._partitions)
        order = np.argsort(parts, kind="stable")
        begins = np.concatenate([[0], np.nonzero(np.diff(parts[order]))[0] + 1, [len(order)]])
        groups = [order[a:b] for a, b in pairwise(begins.tolist()) if a < b]
        calls: list[Call] = []
        for group in groups:
            if what == FETCH:
                tag = (self._marks[int(parts[group[0]])][:-1] + columns[0]).encode()
                calls.append((int(parts[group[0]]), (what, *(tag + b"%d" % node for node in nodes[group].tolist()))))
                continue
            given = [_bytes(column[group]) if isinstance(column, np.ndarray) else column for column in columns]
            calls.append((int(parts[group[0]]), (what, _bytes(nodes[group]), *given)))
        return groups, calls

    def _read(self, calls: list[Call]) -> list[Any]:
        """Call reading functions of partitions in one round trip; each answer is of a partition that lacks nothing."""
        if self._failed == "it is closed":
            raise StoreUnreachableError(f"{self.address.shown}: the store is closed")
        commands = [
            (
                self._slots[p],
                (FETCH, self._marks[p], *arguments)
                if what == FETCH
                else ("FCALL_RO", f"{LIBRARY}_{what}", *_with_keys(self._marks[p], arguments)),
            )
            for p, (what, *arguments) in calls
        ]
        for _ in range(_ATTEMPTS):
            needed = [max(self._last[p], self._needed) for p, _ in calls]
            try:
                answers = self.servers.call(commands, needed)
            except BehindError:
                behind = {p for p, _ in calls}
            else:
                behind = self._behind(calls, answers, needed)
                if not behind:
                    return answers
            if self._spool is None:
                raise StoreBehindError(
                    f"partition {min(behind)} of {self.address.shown} lacks changes, or they were not published"
                )
            for p in sorted(behind):
                self._redo(p)
        raise StoreBehindError(f"{self.address.shown} loses changes again and again")

    def _behind(self, calls: list[Call], answers: list[Any], needed: list[int]) -> set[int]:
        """Return the partitions whose marks say that they lack changes."""
        behind = set()
        for (p, _call), answer, least in zip(calls, answers, needed, strict=True):
            sequence, changed = map(int, (answer[0] or b"0 0").split())
            if sequence < least:
                behind.add(p)
            elif None in answer:
                raise StoreBehindError(f"keys of {self.address.shown} are missing: were they deleted, or evicted?")
            elif changed != self._changed[p]:
                self._notice_change(p, changed)
        return behind

    def _notice_change(self, partition: int, changed: int) -> None:
        """Another process has changed more than the end of rows: what is remembered may be old."""
        self._changed[partition] = changed
        if isinstance(self._table, RemoteTable):
            self._table.cache.clear()

    def _rows(self, nodes: PositionArray) -> "Beginnings":
        """Return degrees of rows, and their first entries."""
        sizes, values = np.empty(len(nodes), np.int64), [b""]
        begins, end = np.empty(len(nodes), np.int64), 0
        for group, (_, *found) in self._gather(FETCH, nodes, "r"):
            sizes[group] = np.fromiter(map(len, found), np.int64, len(found)) // 4
            begins[group] = end + np.cumsum(sizes[group]) - sizes[group]
            end += int(sizes[group].sum())
            values += found
        entries = np.frombuffer(b"".join(values), "<i4")
        return Beginnings(entries[begins], entries[begins + 1], begins + 2, sizes - 2, entries)

    def _completed(self, nodes: PositionArray, rows: "Beginnings") -> "Beginnings":
        """Return rows with all their entries."""
        hubs = np.nonzero(rows.degrees > rows.lengths)[0]
        if len(hubs) == 0:
            return rows
        firsts, lengths, parts = rows.firsts.copy(), rows.lengths.copy(), [rows.entries]
        end = len(rows.entries)
        for group, (_, *found) in self._gather(FETCH, nodes[hubs], "o"):
            for i, rest in zip(hubs[group].tolist(), found, strict=True):
                parts += rows.entries[firsts[i] : firsts[i] + lengths[i]], np.frombuffer(rest, "<i4")
                firsts[i], lengths[i] = end, rows.degrees[i]
                end += int(lengths[i])
        return Beginnings(rows.degrees, rows.versions, firsts, lengths, np.concatenate(parts))

    def _whole(self, nodes: PositionArray) -> tuple[list[PositionArray], list[int]]:
        """Return whole rows and their versions."""
        if len(nodes) == 0:
            return [], []
        rows = self._completed(nodes, self._rows(nodes))
        found = [rows.entries[a : a + n] for a, n in zip(rows.firsts, rows.lengths, strict=True)]
        return found, rows.versions.tolist()

    def whole_rows(self, nodes: PositionArray) -> list[PositionArray]:
        """Return the neighbours of nodes, whole."""
        with self._lock:
            return self._whole(nodes)[0]

    def heads(self, nodes: PositionArray) -> PositionArray:
        """Return the degrees of nodes."""
        with self._lock:
            return self._rows(nodes).degrees if len(nodes) else np.empty(0, np.int32)

    def searched(self, rows: PositionArray, entries: PositionArray) -> tuple[BoolArray, PositionArray]:
        """Return for each pair whether the row of the first has the second, and the entries read to find out."""
        found = np.zeros((len(rows), 2), np.int32)
        with self._lock:
            for group, (_, content) in self._gather("have", rows, np.asarray(entries)) if len(rows) else []:
                found[group] = np.frombuffer(content, "<i4").reshape(-1, 2)
        return found[:, 0] == 1, found[:, 1]

    def features_on_servers(self, nodes: PositionArray) -> FloatArray:
        """Return dense features from the servers."""
        groups, calls = self._planned(FETCH, nodes, "x")
        return self._features_of(nodes, groups, self._read(calls))

    def _features_of(self, nodes: PositionArray, groups: list[IntArray], answers: list[Any]) -> FloatArray:
        width = self.features.width
        rows = np.empty((len(nodes), width), np.float32)
        for group, (_, *found) in zip(groups, answers, strict=True):
            rows[group] = np.frombuffer(b"".join(found), "<f4").reshape(-1, width)
        return rows

    def sparse_on_servers(self, nodes: PositionArray) -> list[tuple[PositionArray, FloatArray]]:
        """Return columns and values of sparse features from the servers."""
        rows: list[Any] = [None] * len(nodes)
        for group, (_, *found) in self._gather(FETCH, nodes, "x"):
            for i, part in zip(group.tolist(), found, strict=True):
                half = len(part) // 2
                rows[i] = np.frombuffer(part[:half], "<i4"), np.frombuffer(part[half:], "<f4")
        return rows

    def positions_on_servers(self, ids: list[Any], kind: Kind) -> list[int]:
        """Return the positions of ids, -1 for none."""
        groups: dict[int, list[tuple[int, int, bytes]]] = defaultdict(list)
        for i, id in enumerate(ids):
            if kind == "integer" and id < 0:
                continue
            name = id_bytes(id)
            partition, bucket = place_of(name, self._partitions)
            groups[partition].append((i, bucket, name))
        found = [-1] * len(ids)
        calls = [
            (p, ("find", [f"k{bucket}" for _, bucket, _ in group], *(name for *_, name in group)))
            for p, group in groups.items()
        ]
        with self._lock:
            answers = self._read(calls) if calls else []
        for group, (_, content) in zip(groups.values(), answers, strict=True):
            for (i, _bucket, _name), place in zip(group, np.frombuffer(content, "<i4").tolist(), strict=True):
                found[i] = place
        return found

    def ids_on_servers(self, positions: list[int], kind: Kind) -> list[Any]:
        """Return the ids at positions; -1, or an empty text, for a removed node."""
        if not positions:
            return []
        nodes = np.array(positions, np.int32)
        with self._lock:
            if kind == "integer":
                return cast(list[Any], self._meta(nodes)["id"].tolist())
            found: list[Any] = [""] * len(nodes)
            for group, (_, *names) in self._gather("names", nodes):
                for i, name in zip(group.tolist(), names, strict=True):
                    found[i] = name.decode()
        return found

    def _meta(self, nodes: PositionArray) -> AnyArray:
        found = np.empty(len(nodes), META)
        for group, (_, content) in self._gather("pages", nodes, "m", str(META.itemsize)) if len(nodes) else []:
            found[group] = np.frombuffer(content, META)
        return found

    @property
    def all_times(self) -> DoubleArray:
        """Arrival times by position of arrival, those of removed nodes included."""
        with self._lock:
            times: DoubleArray = self._meta(np.arange(self.arrived, dtype=np.int32))["time"]
            return times

    @property
    def times(self) -> DoubleArray:
        """Arrival times of the nodes that are there, in order of arrival."""
        return self.all_times if self._gone is None else self.all_times[self._present]

    def _totals_at(self, sequence: int) -> AnyArray:
        """Return the numbers of nodes and edges after a change."""
        if sequence <= 0:
            return cast(AnyArray, np.zeros(1, TOTALS)[0])
        ((_, (_, content)),) = self._gather("pages", np.array([sequence], np.int32), "s", str(TOTALS.itemsize), "1")
        if len(content) < TOTALS.itemsize or not any(content):
            raise StoreBehindError(f"{self.address.shown} has not got to change {sequence}")
        totals: AnyArray = np.frombuffer(content, TOTALS)[0]
        return totals

    def sample(
        self, ids: ArrayLike, sampling: NeighborSampling, key: int, as_of: int | None = None
    ) -> Neighborhood:  # fmt: skip
        """Sample the neighbourhood of distinct nodes; see `GraphStore.sample`.

        A sample of L hops takes L + 1 round trips after ids are resolved, one for each hop and one for features, and
        one more for each hop that meets rows of more than 128 entries.

        Args:
            ids: ids of nodes that have arrived.
            sampling: hops, fan-outs and weights.
            key: key of the random draws.
            as_of: number of a change: the sample is that of the graph after it. Only for graphs in which nothing but
                nodes with their edges has arrived.
        """
        as_of = self.moment if as_of is None else as_of
        with self._lock:
            if as_of is None or self._spool is not None:
                return self._sample(ids, sampling, key, as_of)
            self._needed = as_of
            try:
                return self._sample(ids, sampling, key, as_of)
            finally:
                self._needed = 0

    def _sample(self, ids: ArrayLike, sampling: NeighborSampling, key: int, as_of: int | None) -> Neighborhood:
        then = None if as_of is None else int(self._totals_at(as_of)["arrived"])
        seeds = self.positions(ids)
        if len(seeds) == 0:
            raise EmptyBatchError("no node to sample; ids is empty")
        if len(np.unique(seeds)) != len(seeds):
            raise DuplicateNodeError("a node id occurs twice; sample each node once")
        if then is not None and seeds.max() >= then:
            raise UnknownNodeError(f"a node had not arrived at change {as_of}")
        nodes, sizes, indptr, indices = self._sampled(seeds, sampling, key, then)
        table = cast(RemoteTable | RemoteSparseTable, self.features)
        degrees = None
        if sampling.degrees == "store" and sampling.norm == "sym":
            degrees = self._fetched_with_degrees(table, nodes, then)
        else:
            table.fetch(nodes)
        if then is not None and any(self._changed):
            raise GraphError("samples as of a moment need a graph without later edges, new features and removals")
        weights = weigh(sampling, np.array(sizes), indptr, indices, degrees)
        cost = touched(table, nodes, indptr)
        return Neighborhood(tuple(sizes), indptr, indices, *weights, nodes, table, cost, sampling.norm, self.ids_at)

    def _fetched_with_degrees(
        self, table: RemoteTable | RemoteSparseTable, nodes: PositionArray, then: int | None
    ) -> PositionArray:
        """Bring the features of nodes here, and return their degrees, in one round trip."""
        groups, calls = self._planned(*((FETCH, nodes, "r") if then is None else ("degrees_at", nodes, str(then))))
        missing = table.cache.lacking(nodes) if isinstance(table, RemoteTable) else nodes[:0]
        more, fetches = self._planned(FETCH, missing, "x")
        answers = self._read(calls + fetches)
        degrees = np.empty(len(nodes), np.int32)
        for group, (_, *found) in zip(groups, answers, strict=False):
            heads = found[0] if then is not None else b"".join([row[:4] for row in found])
            degrees[group] = np.frombuffer(heads, "<i4")
        rows = self._features_of(missing, more, answers[len(groups) :])
        if isinstance(table, RemoteTable):
            table.cache.slots(nodes, lambda some: rows if len(some) == len(rows) else self.features_on_servers(some))
        else:
            table.fetch(nodes)
        return degrees

    def _sampled(
        self, seeds: PositionArray, sampling: NeighborSampling, key: int, then: int | None
    ) -> tuple[PositionArray, list[int], IntArray, PositionArray]:
        nodes, sizes = seeds, [len(seeds)]
        starts, indices = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        done = edges = 0
        for cap in sampling.fanouts:
            around = nodes[done : sizes[-1]]
            begin, entries = self._expanded(around, cap, key, then)
            done = sizes[-1]
            nodes, local = joined(nodes, entries)
            starts.append(begin[1:] + edges)
            indices.append(local)
            edges += len(local)
            sizes.append(len(nodes))
        return nodes, sizes, np.concatenate(starts), np.concatenate(indices)

    def _expanded(self, nodes: PositionArray, cap: int, key: int, then: int | None) -> tuple[IntArray, PositionArray]:
        """Return row starts and drawn neighbours of nodes."""
        if len(nodes) == 0:
            return np.zeros(1, np.int64), np.empty(0, np.int32)
        rows = self._rows(nodes)
        if cap < 0:
            rows = self._completed(nodes, rows)
        degrees, lengths = rows.degrees, rows.lengths
        if then is not None:
            degrees, lengths = self._at(nodes, rows, then)
        starts, places = drawn(nodes, degrees, cap, np.uint64(key))
        found, lacking = found_in(rows.firsts, lengths, rows.entries, starts, places)
        if lacking.any():
            self._fill(nodes, starts, places, found, lacking)
        return starts, found

    def _fill(
        self, nodes: PositionArray, starts: IntArray, places: PositionArray, found: PositionArray,
        lacking: PositionArray,
    ) -> None:  # fmt: skip
        """Fetch the chosen entries of long rows that did not come with their beginnings."""
        hubs = np.nonzero(lacking)[0]
        parts = partition_of(nodes[hubs].astype(np.int64), self._partitions)
        calls, wanted = [], []
        for p in np.unique(parts).tolist():
            group = hubs[parts == p]
            which = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in group])
            which = which[found[which] < 0]
            wanted.append(which)
            calls.append((p, ("entries", _bytes(nodes[group]), _bytes(lacking[group]), _bytes(places[which]))))
        for which, (_, content) in zip(wanted, self._read(calls), strict=True):
            found[which] = np.frombuffer(content, "<i4")

    def _at(self, nodes: PositionArray, rows: "Beginnings", then: int) -> tuple[PositionArray, IntArray]:
        """Return degrees and lengths of rows when `then` nodes had arrived."""
        pairs = zip(rows.firsts, rows.lengths, strict=True)
        early = np.array([np.searchsorted(rows.entries[a : a + n], then) for a, n in pairs], np.int64)
        now = early.astype(np.int32)
        long = (early == rows.lengths) & (rows.degrees > rows.lengths)
        if long.any():
            now[long] = self._degrees(nodes[long], then)
        return now, early

    def _degrees(self, nodes: PositionArray, then: int | None) -> PositionArray:
        if then is None:
            return self._rows(nodes).degrees
        found = np.empty(len(nodes), np.int32)
        for group, (_, content) in self._gather("degrees_at", nodes, str(then)):
            found[group] = np.frombuffer(content, "<i4")
        return found

    def subgraph(self, position: int, budget: tuple[int, int], key: int) -> Sparsified:
        """Return a small random subgraph around a node; see `GraphStore.subgraph`."""
        with self._lock:
            centre = np.array([position], np.int32)
            _, near = self._expanded(centre, budget[0], key, None)
            _, far = self._expanded(near, budget[1], (key + 1) & _KEYS, None)
            reads = len(near) + len(far)
            known = {position, *near.tolist()}
            second = [node for node in dict.fromkeys(far.tolist()) if node not in known]
            if len(second) > budget[1]:
                _, picks = drawn(centre, np.array([len(second)], np.int32), budget[1], np.uint64((key + 2) & _KEYS))
                second = [second[pick] for pick in picks.tolist()]
            nodes = np.array([position, *near.tolist(), *second], np.int32)
            degrees = self._rows(nodes).degrees
            later, earlier = np.tril_indices(len(nodes), -1)
            swapped = degrees[later] > degrees[earlier]
            rows = np.where(swapped, nodes[earlier], nodes[later]).astype(np.int32)
            wanted = np.where(swapped, nodes[later], nodes[earlier]).astype(np.int32)
            there, probes = self.searched(rows, wanted)
            adjacent = np.zeros((len(nodes), len(nodes)), np.bool_)
            adjacent[later, earlier] = adjacent[earlier, later] = there
            count = 1 + len(near) + len(nodes) * (len(nodes) - 1)
            return _ordered(nodes, adjacent, reads + int(probes.sum()), count)


@dataclass(frozen=True)
class Beginnings:
    """Rows of some nodes, as far as they are here.

    Args:
        degrees: their degrees.
        versions: their versions.
        firsts: where the entries of each begin.
        lengths: how many of them are here.
        entries: the entries.
    """

    degrees: PositionArray
    versions: PositionArray
    firsts: IntArray
    lengths: IntArray
    entries: PositionArray


class _Nothing:
    """Times are on the servers."""

    nbytes = 0

    def extend(self, times: Any) -> None:
        """They were written down."""


def _with_keys(mark: str, arguments: list[Any]) -> tuple[Any, ...]:
    """Return number of keys, keys and arguments of a function; keys beside the mark are given as a list."""
    if arguments and isinstance(arguments[0], list):
        keys = [mark[:-1] + key for key in arguments[0]]
        return 1 + len(keys), mark, *keys, *arguments[1:]
    return 1, mark, *arguments


def _bytes(numbers: AnyArray) -> bytes:
    return numbers.astype("<i4").tobytes()


def _pairs(flat: list[bytes]) -> Iterable[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)
