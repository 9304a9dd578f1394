"""Changes of a graph as operations on the keys of its partitions; `functions.lua` says which keys there are."""

import struct
import zlib
from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np

from ocgl.graph.ids import Kind
from ocgl.types import AnyArray, IntArray, PositionArray, Rows

PAGE = 64
"""Nodes of a page."""
EMPTY_ROW = bytes(8)
SHORT = 128
"""Entries of a row that lie with its degree; the others lie in a key of their own."""
BUCKETS = 4096
"""Buckets of ids in each partition."""
META = np.dtype([("id", "<i8"), ("time", "<f8")])
"""What a page holds of a node."""
TOTALS = np.dtype([("arrived", "<i8"), ("edges", "<i8"), ("removed", "<i8")])
"""What a page holds of a change."""

Operations = dict[int, list[list[Any]]]


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


class Key(str):
    """A key beside the first one of an operation."""


def packed(operations: list[list[Any]]) -> tuple[list[str], bytes]:
    """Return the keys of operations, and the operations as msgpack with texts only: what the Lua of Redis reads.

    In place of its key, an operation has the number of the key, from 2: the first one is the mark.
    """
    keys: dict[str, int] = {}
    parts = [b"\xdd", len(operations).to_bytes(4, "big")]
    for kind, key, *rest in operations:
        parts.append(bytes([0x90 | 2 + len(rest)]))
        for part in (kind, Key(key), *rest):
            if isinstance(part, Key):
                part = keys.setdefault(part, 2 + len(keys))
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


NOTHING = packed([])[1]
"""No operations."""


class Writer:
    """Collects the operations of one change.

    Args:
        partitions: number of partitions.
    """

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self.operations: Operations = defaultdict(list)

    def do(self, node: int, *operation: Any) -> None:
        """Add an operation on a key of the partition of a node."""
        self.operations[int(partition_of(node, self._partitions))].append(list(operation))

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
        if isinstance(rows, np.ndarray):
            parts = [row.tobytes() for row in rows.astype("<f4")]
        else:
            columns, values, at = rows.indices.astype("<i4"), rows.data.astype("<f4"), rows.indptr.tolist()
            parts = [columns[a:b].tobytes() + values[a:b].tobytes() for a, b in pairwise(at)]
        for node, part in zip(nodes.tolist(), parts, strict=True):
            self.do(node, "SET", f"x{node}", part)

    def ids(self, first: int, ids: AnyArray, times: AnyArray, kind: Kind) -> None:
        """Write ids and times of nodes from a position on."""
        meta = np.empty(len(ids), META)
        meta["id"], meta["time"] = (ids if kind == "integer" else 0), times
        self.pages("m", first, meta)
        for i, id in enumerate(ids.tolist()):
            name = id_bytes(id)
            partition, bucket = place_of(name, self._partitions)
            self.operations[partition].append(["HSET", f"k{bucket}", name, first + i])
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
        bare = np.setdiff1d(np.arange(first, first + count), np.concatenate([later, earlier]))
        for node in bare.tolist():
            self.do(node, "SET", f"r{node}", EMPTY_ROW)
        if len(later) == 0:
            return
        rows, entries = np.concatenate([later, earlier]), np.concatenate([earlier, later])
        order = np.lexsort((entries, rows))
        rows, ends = rows[order], entries[order].astype("<i4")
        content = ends.tobytes()
        begins = np.concatenate([[0], np.nonzero(np.diff(rows))[0] + 1, [len(rows)]]).tolist()
        for row, begin, end in zip(rows[begins[:-1]].tolist(), begins, begins[1:], strict=False):
            part = content[4 * begin : 4 * end]
            if row < first:
                self.do(row, "+", f"r{row}", part, Key(f"o{row}"))
            else:
                self.row(row, ends[begin:end], end - begin)

    def row(self, node: int, entries: AnyArray, version: int) -> None:
        """Write the row of a node, whole."""
        first, rest = (part.astype("<i4").tobytes() for part in (entries[:SHORT], entries[SHORT:]))
        self.do(node, "SET", f"r{node}", struct.pack("<ii", len(entries), version) + first)
        if rest:
            self.do(node, "SET", f"o{node}", rest)
        elif version > len(entries):  # it may have been longer
            self.do(node, "DEL", f"o{node}")

    def forget(self, nodes: PositionArray, ids: AnyArray, width: int, sparse: bool, kind: Kind) -> None:
        """Erase features, rows and ids of nodes."""
        for node, id in zip(nodes.tolist(), ids.tolist(), strict=True):
            name = id_bytes(id)
            partition, bucket = place_of(name, self._partitions)
            self.operations[partition].append(["HDEL", f"k{bucket}", name])
            self.do(node, "SET", f"r{node}", EMPTY_ROW)
            self.do(node, "DEL", f"o{node}")
            gone = np.zeros(1, META)
            gone["id"] = -1
            self.pages("m", node, gone)
            self.do(node, "SET", f"x{node}", b"" if sparse else bytes(4 * width))
            if kind == "text":
                page, place = divmod(node, PAGE)
                self.do(node, "HSET", f"n{page}", place, b"")
