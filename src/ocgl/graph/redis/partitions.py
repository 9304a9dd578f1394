"""The partitions of a graph: changes go to them in order, and nothing is read from one that lacks a change."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ocgl.errors import GraphError, StoreBehindError, StoreChangedError
from ocgl.graph.redis._resp import PAGE, arranged, grouped, mget, packed_keys
from ocgl.graph.redis.changes import BUCKETS, NOTHING, Operations, Part, partition_of
from ocgl.graph.redis.servers import LIBRARY, BehindError, Command, Servers, Values, slot_of, tags_of
from ocgl.graph.redis.spool import Change, Spool
from ocgl.types import AnyArray, IntArray, PositionArray

_ATTEMPTS = 8
NOT_GROWN = "samples as of a moment need a graph without later edges, new features and removals since then"
Call = tuple[int, Command]
"""A partition, and a command for it."""


class Partitions:
    """Parts of a graph that lie whole on one server each.

    Each has a mark: the number of the last change that it has, and of the last one that was more than growth.

    Args:
        servers: where they are.
        name: name of the graph.
        count: number of partitions.

    Attributes:
        sequence: number of the last change.
        last: the last change of each partition.
        changed: the last change of each partition that was more than growth.
        needed: change that every partition must have, for a reader that samples as of it.
        grown_since: change after which partitions may only have grown, for a process that makes changes again; None
            for others.
    """

    def __init__(self, servers: Servers, name: str, count: int) -> None:
        self._servers, self.count = servers, count
        tags = tags_of(name, count)
        self._slots, self._tags = [slot_of(tag) for tag in tags], [f"{{{tag}}}" for tag in tags]
        self.sequence = self.needed = 0
        self.last, self.changed = [0] * count, [0] * count
        self.grown_since: int | None = None
        self._spool: Spool | None = None
        texts = [tag.encode() for tag in self._tags]
        self._lengths = np.array([len(text) for text in texts])
        self._prefixes = np.zeros((count, self._lengths.max()), np.uint8)
        for row, text in zip(self._prefixes, texts, strict=True):
            row[: len(text)] = np.frombuffer(text, np.uint8)

    @property
    def shown(self) -> str:
        """Where they are, for messages."""
        return self._servers.address.shown

    @property
    def is_written(self) -> bool:
        """Whether this process sends the changes."""
        return self._spool is not None

    def begin_writing(self) -> None:
        """Send changes from now on."""
        self._spool = Spool(self.count)

    def close(self) -> None:
        """Forget what was sent."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def key(self, partition: int, name: str) -> str:
        """Return a key of a partition."""
        return self._tags[partition] + name

    # Changing

    def send(self, operations: Operations, more: bool) -> None:
        """Send the next change to the partitions that it touches; return when all have it."""
        self.sequence += 1
        self._send(sorted(operations.items()), more)

    def note(self, operations: Operations, more: bool) -> None:
        """Take note of the next change, which another process sends."""
        self.sequence += 1
        for p in operations:
            self.last[p] = self.sequence
            if more:
                self.changed[p] = self.sequence

    def heal(self) -> None:
        """Send partitions what they have lost; raise `GraphError` if one has changes that were not sent from here."""
        for p, (have, changed) in enumerate(self.marks()):
            if have > self.last[p] or changed > self.changed[p]:
                raise GraphError(f"partition {p} of {self.shown} has change {have}, which this process does not know")
            if have < self.last[p]:
                self._redo(p)

    def forget(self, until: Sequence[int]) -> None:
        """Forget what was sent to each partition up to a change: if it loses that, the graph has to be built anew."""
        if self._spool is not None:
            self._spool.forget(until)

    def publish(self) -> int:
        """Mark all partitions with the last change; return its number.

        A partition that a change does not touch keeps its mark, and a reader cannot know whether it lacks something.
        """
        behind = [p for p in range(self.count) if self.last[p] < self.sequence]
        self._send([(p, NOTHING) for p in behind], False)
        return self.sequence

    def _send(self, parts: Iterable[tuple[int, Part]], more: bool) -> None:
        assert self._spool is not None
        changes = []
        for p, part in parts:
            changes.append((p, Change(self.sequence, self.last[p], more, part)))
            self._spool.append(*changes[-1])
            self.last[p] = self.sequence
            if more:
                self.changed[p] = self.sequence
        for _ in range(_ATTEMPTS):
            try:
                self._apply(changes)
                return
            except BehindError:
                for p, _change in changes:
                    self._redo(p)
        raise StoreBehindError(f"{self.shown} loses changes again and again")

    def _apply(self, changes: Iterable[tuple[int, Change]]) -> None:
        calls = [(self._slots[p], self._command(p, change)) for p, change in changes]
        if calls:
            self._servers.call(calls)

    def _command(self, partition: int, change: Change) -> bytes:
        """Return the call that applies a change, packed."""
        part, prefix = change.part, self._prefix(partition)
        named = [self.key(partition, name).encode() for name in ("w", *part.keys)]
        count = len(named) + (len(part.rows) + len(part.nodes)) // 4
        before = (b"FCALL", f"{LIBRARY}_apply".encode(), b"%d" % count, *named)
        numbers = (b"%d" % change.sequence, b"%d" % change.before, b"%d" % change.more)
        behind = (*numbers, part.operations, part.counts, part.entries, part.sizes, part.content)
        return b"".join((
            b"*%d\r\n" % (3 + count + len(behind)),
            *(b"$%d\r\n%b\r\n" % (len(text), text) for text in before),
            packed_keys(np.frombuffer(part.rows, "<i4"), prefix, ord("r")).tobytes(),
            packed_keys(np.frombuffer(part.nodes, "<i4"), prefix, ord("x")).tobytes(),
            *(b"$%d\r\n%b\r\n" % (len(text), text) for text in behind),
        ))  # fmt: skip

    def _prefix(self, partition: int) -> AnyArray:
        return self._prefixes[partition, : self._lengths[partition]]

    def _redo(self, partition: int) -> None:
        """Bring a partition the changes that it has lost."""
        assert self._spool is not None
        ((have, _),) = self.marks([partition])
        missing = list(self._spool.after(partition, have))
        if have < self.last[partition] and (not missing or missing[0].before != have):
            text = f"partition {partition} of {self.shown} has gone back to change {have}"
            raise StoreBehindError(f"{text}; what followed is not remembered any more: build the graph anew")
        self._servers.traffic.redone += len(missing)
        for begin in range(0, len(missing), 64):
            try:
                self._apply((partition, change) for change in missing[begin : begin + 64])
            except BehindError:
                return  # it has gone back again; whoever asked looks again

    def drop(self, pages: int) -> None:
        """Delete everything, given the number of pages."""
        step = 64 * self.count
        for begin in range(0, pages, step):
            self._drop([(begin + p, min(begin + step, pages) - 1) for p in range(self.count)], (1, 0), False)
        for begin in range(0, BUCKETS, 512):
            self._drop([(1, 0)] * self.count, (begin, begin + 511), begin + 512 >= BUCKETS)

    def _drop(self, pages: list[tuple[int, int]], buckets: tuple[int, int], end: bool) -> None:
        calls = []
        for p, chosen in enumerate(pages):
            numbers = (*chosen, self.count, *buckets, int(end))
            calls.append((self._slots[p], ("FCALL", f"{LIBRARY}_drop", 1, self.key(p, "w"), *map(str, numbers))))
        self._servers.call(calls)

    def discard(self) -> None:
        """Delete everything, whatever is left of it; the marks first, so that nothing is answered meanwhile."""
        self._servers.call([(slot, ("DEL", self.key(p, "w"))) for p, slot in enumerate(self._slots)])
        for keys in self._servers.scan(f"{self._tags[0].partition(':')[0]}:*"):
            found: dict[str, list[bytes]] = defaultdict(list)
            for key in keys:
                found[key[1 : key.index(b"}")].decode()].append(key)
            self._servers.call([(slot_of(tag), ("UNLINK", *some)) for tag, some in found.items()])

    # Asking

    def marks(self, partitions: Iterable[int] | None = None) -> list[tuple[int, int]]:
        """Return the marks of partitions, of all if not given."""
        wanted = range(self.count) if partitions is None else partitions
        found = self._servers.call([(self._slots[p], ("GET", self.key(p, "w"))) for p in wanted])
        return [_mark(mark) for mark in found]

    def grouped(self, nodes: PositionArray | IntArray) -> list[tuple[int, IntArray]]:
        """Return the partitions of nodes, and which of the nodes lie there."""
        parts = partition_of(np.asarray(nodes, np.int64), self.count)
        order = np.argsort(parts, kind="stable")
        begins = [0, *(np.nonzero(np.diff(parts[order]))[0] + 1).tolist(), len(order)]
        return [(int(parts[order[a]]), order[a:b]) for a, b in pairwise(begins) if a < b]

    def function(self, partition: int, what: str, *arguments: Any, keys: Sequence[str] = ()) -> Call:
        """Return the call of a reading function; keys that may lack are declared."""
        declared = [self.key(partition, name) for name in ("w", *keys)]
        return partition, ("FCALL_RO", f"{LIBRARY}_{what}", len(declared), *declared, *arguments)

    def finding(self, partition: int, ids: IntArray, buckets: PositionArray) -> Call:
        """Return the call of the function that finds ids that are integers, packed."""
        mark, count = self.key(partition, "w").encode(), len(ids)
        before = (b"FCALL_RO", f"{LIBRARY}_find".encode(), b"%d" % (count + 1), mark)
        names = np.empty((count, 14), np.uint8)
        names[:, :4], names[:, 12:] = np.frombuffer(b"$8\r\n", np.uint8), np.frombuffer(b"\r\n", np.uint8)
        names[:, 4:12] = ids.astype("<i8").view(np.uint8).reshape(-1, 8)
        return partition, b"".join((
            b"*%d\r\n" % (2 * count + len(before)),
            *(b"$%d\r\n%b\r\n" % (len(text), text) for text in before),
            packed_keys(buckets, self._prefix(partition), ord("k")).tobytes(),
            names.tobytes(),
        ))  # fmt: skip

    def fetch(self, partition: int, letter: str, nodes: PositionArray) -> Call:
        """Return the call that reads one key of each node."""
        prefix = self.key(partition, letter).encode()
        keys = (prefix + b"%d" % node for node in nodes.tolist())
        return partition, ("MGET", self.key(partition, "w"), *keys)

    def values(self, *wanted: tuple[str, PositionArray]) -> list[Values]:
        """Read one key of each node, of several kinds, in one round trip; return the values in the order of the nodes.

        They are there until the next call.

        Args:
            wanted: letters of keys, and the nodes of each.
        """
        found = self._quickly(wanted) if sum(len(nodes) for _, nodes in wanted) else None
        if found is not None:
            return found
        planned = [self.fetches(letter, nodes) for letter, nodes in wanted]
        asked = [call for _, calls in planned for call in calls]
        answers = iter(self.read(asked) if asked else [])
        return [joined_values(len(nodes), [(group, next(answers)) for group in groups])
                for (_, nodes), (groups, _) in zip(wanted, planned, strict=True)]  # fmt: skip

    def _quickly(self, wanted: Sequence[tuple[str, PositionArray]]) -> list[Values] | None:
        """Return values if all goes as expected, None if not; nothing has changed then."""
        requests, asked, plans = [], [np.zeros(1, np.int64)], []
        for letter, nodes in wanted:
            order, begins = grouped(nodes, self.count)
            packed, ends, values = mget(nodes, order, begins, self._prefixes, self._lengths, ord(letter))
            requests.append((packed.data, ends))
            asked.append(values)
            plans.append((order, begins))
        firsts = np.cumsum(np.concatenate(asked))
        found = self._servers.fetch(self._slots, requests, firsts)
        if found is None:
            return None
        most = np.iinfo(np.int64).max if self.grown_since is None else self.grown_since
        needed, read = np.maximum(self.last, self.needed), []
        for number, (order, begins) in enumerate(plans):
            fresh, places, sizes = arranged(
                found.data, found.places, found.sizes, firsts, number * self.count, order, begins, needed, most
            )
            if not fresh:
                return None
            read.append(Values(found.data, places, sizes))
        return read

    def fetches(self, letter: str, nodes: PositionArray) -> tuple[list[IntArray], list[Call]]:
        """Return which nodes lie together, and the calls that read one key of each."""
        groups = self.grouped(nodes)
        return [group for _, group in groups], [self.fetch(p, letter, nodes[group]) for p, group in groups]

    def functions(self, what: str, nodes: PositionArray, *columns: Any) -> tuple[list[IntArray], list[Call]]:
        """Return which nodes lie together, and the calls of a function; an array has a value for each node."""
        groups, calls = self.grouped(nodes), []
        for p, group in groups:
            given = [as_bytes(one[group]) if isinstance(one, np.ndarray) else one for one in columns]
            calls.append(self.function(p, what, as_bytes(nodes[group]), *given))
        return [group for _, group in groups], calls

    def ask(self, planned: tuple[list[IntArray], list[Call]]) -> list[tuple[IntArray, list[Any]]]:
        """Read what was planned, in one round trip; return which nodes, and the answers without their marks."""
        groups, calls = planned
        return list(zip(groups, self.read(calls), strict=True)) if calls else []

    def read(self, calls: list[Call]) -> list[list[Any]]:
        """Read from partitions in one round trip, none of which lacks a change; return the answers without marks."""
        commands = [(self._slots[p], command) for p, command in calls]
        until = time.monotonic() + self._servers.address.patience
        attempts = 0
        while attempts < _ATTEMPTS:
            needed = [max(self.last[p], self.needed) for p, _ in calls]
            try:
                answers = self._servers.call(commands, needed)
            except BehindError:
                behind = {p for p, _ in calls}
            else:
                behind = self._behind(calls, answers, needed)
                if not behind:
                    return [answer[1:] for answer in answers]
            if self.grown_since is not None and not self.is_written and time.monotonic() < until:
                time.sleep(0.05)  # the process that sends the changes sends again what was lost
                continue
            attempts += 1
            if not self.is_written:
                text = f"partition {min(behind)} of {self.shown} lacks changes, or they were not published"
                raise StoreBehindError(text)
            for p in sorted(behind):
                self._redo(p)
        raise StoreBehindError(f"{self.shown} loses changes again and again")

    def _behind(self, calls: list[Call], answers: list[Any], needed: list[int]) -> set[int]:
        """Return the partitions whose marks say that they lack changes."""
        behind = set()
        for (p, _), answer, least in zip(calls, answers, needed, strict=True):
            have, changed = _mark(answer[0])
            if have < least:
                behind.add(p)
            elif self.grown_since is not None and changed > self.grown_since:
                raise StoreChangedError(NOT_GROWN)
            elif None in answer[1:]:
                raise StoreBehindError(f"keys of {self.shown} are missing: were they deleted, or evicted?")
        return behind


def joined_values(count: int, answers: list[tuple[IntArray, list[bytes]]]) -> Values:
    """Return values that are objects as values among bytes."""
    places, sizes, end = np.empty(count, np.int64), np.empty(count, np.int64), 0
    for group, values in answers:
        sizes[group] = np.fromiter(map(len, values), np.int64, len(values))
        places[group] = end + np.cumsum(sizes[group]) - sizes[group]
        end += int(sizes[group].sum())
    content = b"".join([value for _, values in answers for value in values])
    return Values(np.frombuffer(content, np.uint8).copy(), places, sizes)


def pages_of(arrived: int, sequence: int) -> int:
    """Return the number of pages of a graph, given its nodes and changes."""
    return 1 + max(arrived, sequence) // PAGE


def as_bytes(numbers: AnyArray) -> bytes:
    """Return whole numbers as functions take them."""
    return numbers.astype("<i4").tobytes()


def _mark(text: bytes | None) -> tuple[int, int]:
    sequence, changed = (text or b"0 0").split()
    return int(sequence), int(changed)
