"""Reading a graph on servers: rows, features, ids, and the steps of a sample."""

import zlib
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np

from ocgl.errors import StoreBehindError
from ocgl.graph._kernels.sparsify import Sparsified, _ordered
from ocgl.graph.ids import Kind
from ocgl.graph.redis._kernels import drawn, found_in, joined
from ocgl.graph.redis._resp import gathered, places_of, rows_in
from ocgl.graph.redis.changes import BUCKETS, META, TOTALS, id_bytes, place_of
from ocgl.graph.redis.partitions import Partitions, as_bytes, joined_values
from ocgl.graph.redis.servers import Values
from ocgl.types import AnyArray, BoolArray, FloatArray, IntArray, PositionArray

_KEYS = (1 << 64) - 1
_CRC = np.array([zlib.crc32(bytes([255 - byte])) ^ 0xFF000000 for byte in range(256)], np.uint32)
"""The table of CRC-32; what zlib does before and after a single byte is taken off."""


@dataclass(frozen=True)
class Beginnings:
    """Rows of some nodes, as far as they are here.

    Args:
        degrees: their degrees.
        firsts: where the entries of each begin.
        lengths: how many of them are here.
        entries: the entries.
    """

    degrees: PositionArray
    firsts: IntArray
    lengths: IntArray
    entries: PositionArray


class Reader:
    """Reads a graph from its partitions.

    Args:
        partitions: the partitions.
    """

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    # Rows

    def rows(self, nodes: PositionArray) -> Beginnings:
        """Return the rows of nodes, as far as they lie with their degrees."""
        (values,) = self._partitions.values(("r", nodes))
        return _rows_of(values)

    def completed(self, nodes: PositionArray, rows: Beginnings) -> Beginnings:
        """Return rows with all their entries."""
        hubs = np.nonzero(rows.degrees > rows.lengths)[0]
        firsts, lengths, parts = rows.firsts.copy(), rows.lengths.copy(), [rows.entries]
        end = len(rows.entries)
        for group, found in self._partitions.ask(self._partitions.fetches("o", nodes[hubs])):
            for i, rest in zip(hubs[group].tolist(), found, strict=True):
                parts += rows.entries[firsts[i] : firsts[i] + lengths[i]], np.frombuffer(rest, "<i4")
                firsts[i], lengths[i] = end, rows.degrees[i]
                end += int(lengths[i])
        return Beginnings(rows.degrees, firsts, lengths, np.concatenate(parts))

    def whole_rows(self, nodes: PositionArray) -> list[PositionArray]:
        """Return whole rows."""
        rows = self.completed(nodes, self.rows(nodes))
        return [rows.entries[a : a + n] for a, n in zip(rows.firsts, rows.lengths, strict=True)]

    def degrees(self, nodes: PositionArray, then: int | None = None) -> PositionArray:
        """Return the degrees of nodes, now or when `then` nodes had arrived."""
        if then is None:
            return self.rows(nodes).degrees
        found = np.empty(len(nodes), np.int32)
        for group, (content,) in self._partitions.ask(self._partitions.functions("degrees_at", nodes, str(then))):
            found[group] = np.frombuffer(content, "<i4")
        return found

    def searched(self, rows: PositionArray, entries: PositionArray) -> tuple[BoolArray, PositionArray]:
        """Return for each pair whether the row of the first has the second, and the entries read to find out."""
        found = np.zeros((len(rows), 2), np.int32)
        for group, (content,) in self._partitions.ask(self._partitions.functions("have", rows, entries)):
            found[group] = np.frombuffer(content, "<i4").reshape(-1, 2)
        return found[:, 0] == 1, found[:, 1]

    # Features, ids and totals

    def features(self, nodes: PositionArray) -> Values:
        """Return features as they are stored, until the next call; see `dense` and `sparse`."""
        return self._partitions.values(("x", nodes))[0]

    def features_and_degrees(
        self, missing: PositionArray, nodes: PositionArray, then: int | None
    ) -> tuple[Values, PositionArray]:
        """Return features of some nodes and degrees of others, in one round trip."""
        if then is None:
            stored, rows = self._partitions.values(("x", missing), ("r", nodes))
            return stored, rows_in(rows.data, rows.places, rows.sizes)[0]
        more, fetches = self._partitions.fetches("x", missing)
        groups, calls = self._partitions.functions("degrees_at", nodes, str(then))
        answers = self._partitions.read(fetches + calls)
        degrees = np.empty(len(nodes), np.int32)
        for group, (content,) in zip(groups, answers[len(more) :], strict=True):
            degrees[group] = np.frombuffer(content, "<i4")
        return joined_values(len(missing), list(zip(more, answers, strict=False))), degrees

    def positions(self, ids: AnyArray) -> PositionArray:
        """Return the positions of ids, -1 for none."""
        return self._positions_of_texts(ids.tolist()) if ids.dtype == object else self._positions_of_integers(ids)

    def _positions_of_integers(self, ids: IntArray) -> PositionArray:
        found, asked = np.full(len(ids), -1, np.int32), np.nonzero(ids >= 0)[0]
        parts, buckets = places_of(ids[asked], _CRC, self._partitions.count, BUCKETS)
        order = np.argsort(parts, kind="stable")
        begins = np.searchsorted(parts[order], np.arange(self._partitions.count + 1)).tolist()
        groups = [(p, order[a:b]) for p, (a, b) in enumerate(pairwise(begins)) if a < b]
        calls = [self._partitions.finding(p, ids[asked[group]], buckets[group]) for p, group in groups]
        for (_, group), (content,) in zip(groups, self._partitions.read(calls) if calls else [], strict=True):
            found[asked[group]] = np.frombuffer(content, "<i4")
        return found

    def _positions_of_texts(self, ids: list[str]) -> PositionArray:
        groups: dict[int, list[tuple[int, str, bytes]]] = defaultdict(list)
        for i, id in enumerate(ids):
            name = id_bytes(id)
            partition, bucket = place_of(name, self._partitions.count)
            groups[partition].append((i, f"k{bucket}", name))
        found, calls = np.full(len(ids), -1, np.int32), []
        for p, group in groups.items():
            _, buckets, names = zip(*group, strict=True)
            calls.append(self._partitions.function(p, "find", *names, keys=buckets))
        for group, (content,) in zip(groups.values(), self._partitions.read(calls) if calls else [], strict=True):
            found[[i for i, _, _ in group]] = np.frombuffer(content, "<i4")
        return found

    def ids(self, nodes: PositionArray, kind: Kind) -> list[Any]:
        """Return the ids at positions; -1, or an empty text, for a removed node."""
        if kind == "integer":
            return cast(list[Any], self.meta(nodes)["id"].tolist())
        found: list[Any] = [""] * len(nodes)
        for group, names in self._partitions.ask(self._partitions.functions("names", nodes)):
            for i, name in zip(group.tolist(), names, strict=True):
                found[i] = name.decode()
        return found

    def meta(self, nodes: PositionArray) -> AnyArray:
        """Return ids that are integers, and times of arrival."""
        found = np.empty(len(nodes), META)
        planned = self._partitions.functions("pages", nodes, "m", str(META.itemsize))
        for group, (content,) in self._partitions.ask(planned):
            found[group] = np.frombuffer(content, META)
        return found

    def totals(self, sequence: int) -> AnyArray:
        """Return the numbers of nodes and edges after a change."""
        if sequence <= 0:
            return cast(AnyArray, np.zeros(1, TOTALS)[0])
        change = np.array([sequence], np.int32)
        planned = self._partitions.functions("pages", change, "s", str(TOTALS.itemsize), "1")
        ((_, (content,)),) = self._partitions.ask(planned)
        if not any(content):
            raise StoreBehindError(f"{self._partitions.shown} has not got to change {sequence}")
        return cast(AnyArray, np.frombuffer(content, TOTALS)[0])

    # Samples

    def sampled(
        self, seeds: PositionArray, fanouts: tuple[int, ...], key: int, then: int | None
    ) -> tuple[PositionArray, list[int], IntArray, PositionArray]:
        """Sample around seeds; return what the kernel `sample` returns, a list of sizes among it.

        Args:
            seeds: positions of distinct nodes.
            fanouts: most neighbours of a node at each hop, -1 for all.
            key: key of the random draws.
            then: nodes that had arrived at the moment that is sampled; None for now.
        """
        nodes, sizes = seeds, [len(seeds)]
        starts, indices = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        done = edges = 0
        for cap in fanouts:
            begin, entries = self._expanded(nodes[done : sizes[-1]], cap, key, then)
            done = sizes[-1]
            nodes, local = joined(nodes, entries)
            starts.append(begin[1:] + edges)
            indices.append(local)
            edges += len(local)
            sizes.append(len(nodes))
        return nodes, sizes, np.concatenate(starts), np.concatenate(indices)

    def _expanded(self, nodes: PositionArray, cap: int, key: int, then: int | None) -> tuple[IntArray, PositionArray]:
        """Return row starts and drawn neighbours of nodes."""
        rows = self.rows(nodes)
        if cap < 0:
            rows = self.completed(nodes, rows)
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
        calls, wanted = [], []
        for p, group in self._partitions.grouped(nodes[hubs]):
            chosen = hubs[group]
            which = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in chosen])
            which = which[found[which] < 0]
            wanted.append(which)
            parts = as_bytes(nodes[chosen]), as_bytes(lacking[chosen]), as_bytes(places[which])
            calls.append(self._partitions.function(p, "entries", *parts))
        for which, (content,) in zip(wanted, self._partitions.read(calls), strict=True):
            found[which] = np.frombuffer(content, "<i4")

    def _at(self, nodes: PositionArray, rows: Beginnings, then: int) -> tuple[PositionArray, IntArray]:
        """Return degrees and lengths of rows when `then` nodes had arrived."""
        pairs = zip(rows.firsts, rows.lengths, strict=True)
        early = np.array([np.searchsorted(rows.entries[a : a + n], then) for a, n in pairs], np.int64)
        now = early.astype(np.int32)
        long = (early == rows.lengths) & (rows.degrees > rows.lengths)
        if long.any():
            now[long] = self.degrees(nodes[long], then)
        return now, early

    def subgraph(self, position: int, budget: tuple[int, int], key: int) -> Sparsified:
        """Return what the kernel `sparsify` returns."""
        centre = np.array([position], np.int32)
        _, near = self._expanded(centre, budget[0], key, None)
        _, far = self._expanded(near, budget[1], (key + 1) & _KEYS, None)
        known = {position, *near.tolist()}
        second = [node for node in dict.fromkeys(far.tolist()) if node not in known]
        if len(second) > budget[1]:
            _, picks = drawn(centre, np.array([len(second)], np.int32), budget[1], np.uint64((key + 2) & _KEYS))
            second = [second[pick] for pick in picks.tolist()]
        nodes = np.array([position, *near.tolist(), *second], np.int32)
        degrees = self.degrees(nodes)
        later, earlier = np.tril_indices(len(nodes), -1)
        swapped = degrees[later] > degrees[earlier]
        rows = np.where(swapped, nodes[earlier], nodes[later]).astype(np.int32)
        wanted = np.where(swapped, nodes[later], nodes[earlier]).astype(np.int32)
        there, probes = self.searched(rows, wanted)
        adjacent = np.zeros((len(nodes), len(nodes)), np.bool_)
        adjacent[later, earlier] = adjacent[earlier, later] = there
        count = 1 + len(near) + len(nodes) * (len(nodes) - 1)
        return _ordered(nodes, adjacent, len(near) + len(far) + int(probes.sum()), count)


def _rows_of(values: Values) -> Beginnings:
    degrees, firsts, lengths, entries = rows_in(values.data, values.places, values.sizes)
    return Beginnings(degrees, firsts, lengths, entries.view("<i4"))


def dense(stored: Values, width: int) -> FloatArray:
    """Return dense features, as an array."""
    rows = np.empty((len(stored.places), width), np.float32)
    if (stored.sizes != 4 * width).any():
        raise StoreBehindError("features have a size that is not theirs: were they written by something else?")
    gathered(stored.data, stored.places, rows.view(np.uint8))
    return rows


def sparse(stored: Values) -> list[tuple[PositionArray, FloatArray]]:
    """Return columns and values of sparse features."""
    rows = []
    for place, size in zip(stored.places.tolist(), stored.sizes.tolist(), strict=True):
        part = stored.data[place : place + size].tobytes()
        rows.append((np.frombuffer(part[: size // 2], "<i4"), np.frombuffer(part[size // 2 :], "<f4")))
    return rows
