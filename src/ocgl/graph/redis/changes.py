"""Changes of a graph as operations on the keys of its partitions; `functions.lua` says which keys there are."""

import zlib
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ocgl.graph.ids import Kind
from ocgl.graph.redis._resp import PAGE, SHORT, appended, grouped
from ocgl.types import AnyArray, IntArray, PositionArray, Rows

BUCKETS = 4096
"""Buckets of ids in each partition."""
META = np.dtype([("id", "<i8"), ("time", "<f8")])
"""What a page holds of a node."""
TOTALS = np.dtype([("arrived", "<i8"), ("edges", "<i8"), ("removed", "<i8")])
"""What a page holds of a change."""


@dataclass(frozen=True)
class Part:
    """What a change does to one partition.

    Args:
        keys: keys of `operations`.
        operations: commands, packed.
        rows: rows that get entries (32-bit integers); a row can occur several times.
        counts: how many entries each of them gets (bytes).
        entries: the entries (32-bit integers).
        nodes: nodes that get features (32-bit integers).
        sizes: how many bytes each of them gets (32-bit integers).
        content: the features.
    """

    keys: list[str]
    operations: bytes
    rows: bytes = b""
    counts: bytes = b""
    entries: bytes = b""
    nodes: bytes = b""
    sizes: bytes = b""
    content: bytes = b""


Operations = dict[int, Part]
"""What a change does, by partition."""


def id_bytes(id: int | str) -> bytes:
    """Return an id as a field of its bucket."""
    return id.to_bytes(8, "little") if isinstance(id, int) else id.encode()


def place_of(id: bytes, partitions: int) -> tuple[int, int]:
    """Return partition and bucket of an id."""
    hashed = zlib.crc32(id)
    return hashed % partitions, hashed // partitions % BUCKETS


def partition_of(nodes: Any, partitions: int) -> Any:
    """Return the partition of nodes, given their positions of arrival."""
    return nodes // PAGE % partitions


def packed(operations: list[list[Any]]) -> tuple[list[str], bytes]:
    """Return the keys of operations, and the operations as msgpack with texts only: what the Lua of Redis reads.

    In place of its key, an operation has the number of the key, from 2: the first one is the mark.
    """
    keys: dict[str, int] = {}
    parts = [b"\xdd", len(operations).to_bytes(4, "big")]
    for kind, key, *rest in operations:
        parts.append(bytes([0x90 | 2 + len(rest)]))
        for part in (kind, keys.setdefault(key, 2 + len(keys)), *rest):
            text = part if isinstance(part, bytes) else str(part).encode()
            size = len(text)
            if size < 32:
                parts.append(bytes([0xA0 | size]))
            elif size < 1 << 16:
                parts += (b"\xda", size.to_bytes(2, "big"))
            else:
                parts += (b"\xdb", size.to_bytes(4, "big"))
            parts.append(text)
    return list(keys), b"".join(parts)


NOTHING = Part(*packed([]))
"""No operations."""


class Writer:
    """Collects the operations of one change.

    Args:
        partitions: number of partitions.
    """

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._single: dict[int, list[list[Any]]] = defaultdict(list)
        self._bulk: dict[int, dict[str, Any]] = defaultdict(lambda: defaultdict(bytes))

    @property
    def operations(self) -> Operations:
        """The operations of each partition that the change touches."""
        touched = sorted({*self._single, *self._bulk})
        return {p: Part(*packed(self._single[p]), **self._bulk[p]) for p in touched}

    def do(self, node: int, *operation: Any) -> None:
        """Add an operation on a key of the partition of a node."""
        self._single[int(partition_of(node, self._partitions))].append(list(operation))

    def pages(self, letter: str, first: int, rows: AnyArray) -> None:
        """Write rows of nodes that follow each other, from a position on."""
        content, size = np.ascontiguousarray(rows).tobytes(), rows.nbytes // len(rows)
        done = 0
        while done < len(rows):
            node = first + done
            page, place = divmod(node, PAGE)
            count = min(PAGE - place, len(rows) - done)
            part = content[done * size : (done + count) * size]
            self.do(node, "P", f"{letter}{page}", place * size, part, PAGE * size)
            done += count

    def features(self, nodes: PositionArray | IntArray, rows: Rows) -> None:
        """Write features of nodes: numbers, or columns and numbers if they are sparse."""
        order, begins = grouped(nodes.astype(np.int32), self._partitions)
        chosen = rows[order]
        if isinstance(chosen, np.ndarray):
            content = memoryview(np.ascontiguousarray(chosen, "<f4").tobytes())
            starts = 4 * chosen.shape[1] * np.arange(len(order) + 1)
        else:
            columns, values, at = chosen.indices.astype("<i4"), chosen.data.astype("<f4"), chosen.indptr.tolist()
            parts = [columns[a:b].tobytes() + values[a:b].tobytes() for a, b in pairwise(at)]
            content, starts = memoryview(b"".join(parts)), 8 * np.array(at)
        sizes = np.diff(starts)
        for p, (begin, end) in enumerate(pairwise(begins.tolist())):
            if begin < end:
                bulk = self._bulk[p]
                bulk["nodes"] += nodes[order[begin:end]].astype("<i4").tobytes()
                bulk["sizes"] += sizes[begin:end].astype("<i4").tobytes()
                bulk["content"] += content[starts[begin] : starts[end]]

    def ids(self, first: int, ids: AnyArray, times: AnyArray, kind: Kind) -> None:
        """Write ids and times of nodes from a position on."""
        meta = np.empty(len(ids), META)
        meta["id"], meta["time"] = (ids if kind == "integer" else 0), times
        self.pages("m", first, meta)
        for i, id in enumerate(ids.tolist()):
            name = id_bytes(id)
            partition, bucket = place_of(name, self._partitions)
            self._single[partition].append(["HSET", f"k{bucket}", name, first + i])
            if kind == "text":
                page, place = divmod(first + i, PAGE)
                self.do(first + i, "HSET", f"n{page}", place, name)

    def edges(self, first: int, count: int, later: PositionArray, earlier: PositionArray) -> None:
        """Begin the rows of nodes that arrive, and add their edges: at the end of the rows that they go to.

        Args:
            first: position of the first of them.
            count: number of nodes.
            later: end of each edge that has arrived later.
            earlier: the other end.
        """
        rows, entries = np.concatenate([later, earlier]), np.concatenate([earlier, later])
        with_edges = np.zeros(count, np.bool_)
        with_edges[rows[rows >= first] - first] = True
        bare = (first + np.nonzero(~with_edges)[0]).astype(np.int32)
        ends = np.sort(rows.astype(np.int64) << 32 | entries)
        begins, nodes, counts, firsts, entries = appended(ends, bare, self._partitions)
        places = zip(pairwise(begins.tolist()), pairwise(firsts.tolist()), strict=True)
        for p, ((begin, end), (from_entry, to_entry)) in enumerate(places):
            if begin < end:
                bulk = self._bulk[p]
                bulk["rows"] += nodes[begin:end].tobytes()
                bulk["counts"] += counts[begin:end].tobytes()
                bulk["entries"] += entries[from_entry:to_entry].tobytes()

    def row(self, node: int, entries: AnyArray) -> None:
        """Write the row of a node, whole."""
        first, rest = (part.astype("<i4").tobytes() for part in (entries[:SHORT], entries[SHORT:]))
        self.do(node, "SET", f"r{node}", first + (len(entries).to_bytes(4, "little") if rest else b""))
        if rest:
            self.do(node, "SET", f"o{node}", rest)
        else:  # it may have been longer
            self.do(node, "DEL", f"o{node}")

    def forget(self, nodes: PositionArray, ids: AnyArray, width: int, sparse: bool, kind: Kind) -> None:
        """Erase features, rows and ids of nodes."""
        for node, id in zip(nodes.tolist(), ids.tolist(), strict=True):
            name = id_bytes(id)
            partition, bucket = place_of(name, self._partitions)
            self._single[partition].append(["HDEL", f"k{bucket}", name])
            self.do(node, "SET", f"r{node}", b"")
            self.do(node, "DEL", f"o{node}")
            gone = np.zeros(1, META)
            gone["id"] = -1
            self.pages("m", node, gone)
            self.do(node, "SET", f"x{node}", b"" if sparse else bytes(4 * width))
            if kind == "text":
                page, place = divmod(node, PAGE)
                self.do(node, "HSET", f"n{page}", place, b"")
