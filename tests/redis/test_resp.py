"""Commands and answers as bytes equal those of hiredis, and what is added to rows in bulk equals a plain loop."""

from collections import defaultdict
from typing import Any, cast

import hiredis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import redis
from ocgl.errors import StoreUnreachableError
from ocgl.graph import GraphStore
from ocgl.graph.redis import RedisStore, remote_ids
from ocgl.graph.redis._resp import (
    DONE,
    MORE,
    OTHER,
    SHORT,
    appended,
    arranged,
    gathered,
    grouped,
    mget,
    packed_keys,
    places_of,
    rows_in,
    scanned,
)
from ocgl.graph.redis.cache import LastRows
from ocgl.graph.redis.changes import BUCKETS, Part, id_bytes, partition_of, place_of
from ocgl.graph.redis.reading import _CRC
from ocgl.graph.redis.remote_ids import KnownIntegers, KnownTexts
from ocgl.graph.redis.spool import Change, Spool
from tests.redis.failures import move
from tests.redis.servers import Cluster, Server

NODES = st.lists(st.integers(0, 2**31 - 1), max_size=40)
VALUES = st.lists(st.lists(st.binary(max_size=600), min_size=2, max_size=6), min_size=1, max_size=4)


def packed(answers: list[list[bytes | None]]) -> bytes:
    """Return answers as a server writes them."""
    parts = []
    for answer in answers:
        parts.append(b"*%d\r\n" % len(answer))
        parts += [b"$-1\r\n" if value is None else b"$%d\r\n%b\r\n" % (len(value), value) for value in answer]
    return b"".join(parts)


def scan(content: bytes, counts: list[int], cuts: list[int]) -> tuple[int, list[bytes]]:
    """Read answers that come in pieces; return what was found, and the values."""
    data = np.zeros(len(content) + 8, np.uint8)
    firsts = np.cumsum([0, *counts])
    places, sizes = np.zeros(firsts[-1], np.int64), np.zeros(firsts[-1], np.int64)
    state, begin = np.array([0, 0, -1]), 0
    found = MORE
    for end in sorted({*(cut % (len(content) + 1) for cut in cuts), len(content)}):
        data[begin:end] = np.frombuffer(content[begin:end], np.uint8)
        begin = end
        found = scanned(data, end, state, np.arange(len(counts)), firsts, places, sizes)
        if found != MORE:
            break
    values = [data[a : a + n].tobytes() for a, n in zip(places, sizes, strict=True)]
    return (found, values) if begin == len(content) else (OTHER, [])


@given(NODES, st.integers(1, 9), st.sampled_from("rx"))
def test_commands_are_those_of_hiredis(nodes: list[int], partitions: int, letter: str) -> None:
    tags = [f"{{graph:{p}:{p * 37 % 11}}}" for p in range(partitions)]
    lengths = np.array([len(tag) for tag in tags])
    prefixes = np.zeros((partitions, lengths.max()), np.uint8)
    for row, tag in zip(prefixes, tags, strict=True):
        row[: len(tag)] = np.frombuffer(tag.encode(), np.uint8)
    wanted = np.array(nodes, np.int32)
    order, begins = grouped(wanted, partitions)
    text, ends, asked = mget(wanted, order, begins, prefixes, lengths, ord(letter))
    for p, tag in enumerate(tags):
        own = [i for i, node in enumerate(nodes) if partition_of(node, partitions) == p]
        assert order[begins[p] : begins[p + 1]].tolist() == own
        keys = [f"{tag}{letter}{nodes[i]}" for i in own]
        command = cast(Any, hiredis).pack_command(("MGET", f"{tag}w", *keys)) if own else b""
        assert text[ends[p] : ends[p + 1]].tobytes() == command and asked[p] == (len(own) + 1 if own else 0)
        arguments = packed_keys(wanted[own], prefixes[p, : lengths[p]], ord(letter)).tobytes()
        assert command.endswith(arguments)


@given(VALUES, st.lists(st.integers(0, 10**6), max_size=12))
def test_answers_are_read_however_they_come(answers: list[list[bytes]], cuts: list[int]) -> None:
    content, counts = packed(cast(Any, answers)), [len(answer) for answer in answers]
    wanted = [value for answer in answers for value in answer]
    assert scan(content, counts, cuts) == (DONE, wanted)
    assert scan(content[:-1], counts, cuts)[0] == MORE
    assert scan(content + b"+", counts, cuts)[0] == OTHER


@given(VALUES, st.lists(st.integers(0, 10**6), max_size=12), st.integers(0, 10**6), st.sampled_from(range(6)))
def test_what_is_not_expected_is_left_to_hiredis(
    answers: list[list[bytes | None]], cuts: list[int], which: int, kind: int
) -> None:
    counts = [len(answer) for answer in answers]
    chosen = answers[which % len(answers)]
    if kind == 0:
        chosen[which % len(chosen)] = None
    elif kind == 1:
        chosen.append(b"")
    elif kind == 2:
        chosen.pop()
    content = packed(answers)
    if kind >= 3:
        error = (b"-MOVED 5 h:1\r\n", b"-ASK 5 h:1\r\n", b"-ERR OCGLLACKING 3\r\n")[kind - 3]
        number = which % len(answers)
        content = packed(answers[:number]) + error + packed(answers[number + 1 :])
    assert scan(content, counts, cuts)[0] == OTHER
    reader: Any = hiredis.Reader()
    reader.feed(content)
    found = [reader.gets() for _ in answers]
    assert len(found) == len(answers) and reader.gets() is False


@given(NODES.filter(bool), st.integers(1, 5), st.integers(0, 30))
def test_values_are_put_in_order_and_a_mark_behind_is_seen(nodes: list[int], partitions: int, mark: int) -> None:
    wanted = np.array(nodes, np.int32)
    order, begins = grouped(wanted, partitions)
    answers: list[list[bytes | None]] = []
    for p in range(partitions):
        own = order[begins[p] : begins[p + 1]]
        if len(own):
            answers.append([b"%d %d" % (mark, mark // 2), *(b"%d" % nodes[i] for i in own)])
    content = packed(answers)
    asked = np.diff(begins) + (np.diff(begins) > 0)
    firsts = np.cumsum([0, *asked])
    data = np.frombuffer(content, np.uint8).copy()
    places, sizes = np.zeros(firsts[-1], np.int64), np.zeros(firsts[-1], np.int64)
    group, state = np.arange(partitions), np.array([0, 0, -1])
    assert scanned(data, len(data), state, group, firsts, places, sizes) == DONE
    changed = mark // 2
    for needed, most, good in ((mark, changed, True), (mark + 1, changed, False), (mark, changed - 1, False)):
        least = np.full(partitions, needed)
        fresh, where, long = arranged(data, places, sizes, firsts, 0, order, begins, least, most)
        assert fresh is good
    least = np.zeros(partitions, np.int64)
    fresh, where, long = arranged(data, places, sizes, firsts, 0, order, begins, least, changed)
    assert [int(data[a : a + n].tobytes()) for a, n in zip(where, long, strict=True)] == nodes


@given(st.lists(st.integers(0, 300), min_size=1, max_size=6))
def test_rows_and_features_are_taken_out_of_bytes(degrees: list[int]) -> None:
    rows = [np.arange(degree, dtype="<i4") * 7 for degree in degrees]
    texts = [row[:SHORT].tobytes() + (len(row).to_bytes(4, "little") if len(row) > SHORT else b"") for row in rows]
    data = np.frombuffer(b"?" + b"".join(texts) + b"behind", np.uint8).copy()
    sizes = np.array([len(text) for text in texts])
    places = 1 + np.cumsum(sizes) - sizes
    found, firsts, lengths, entries = rows_in(data, places, sizes)
    assert found.tolist() == degrees
    for row, first, length in zip(rows, firsts, lengths, strict=True):
        assert np.array_equal(entries.view("<i4")[first : first + length], row[:SHORT])
    out = np.empty((len(data) - 4, 3), np.uint8)
    gathered(data, np.arange(len(out)), out)
    assert np.array_equal(out, np.stack([data[: len(out)], data[1:-3], data[2:-2]], 1))


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 2**31 - 1)), max_size=300), st.integers(1, 7))
def test_what_is_added_to_rows_equals_a_plain_loop(pairs: list[tuple[int, int]], partitions: int) -> None:
    pairs = [(row % 3 if row > 40 else row, entry) for row, entry in pairs]
    ends = np.sort(np.array([row << 32 | entry for row, entry in pairs], np.int64))
    bare = np.array([401, 777], np.int32)
    begins, rows, counts, firsts, entries = appended(ends, bare, partitions)
    wanted: dict[int, list[int]] = defaultdict(list)
    for row, entry in sorted(pairs):
        wanted[row].append(entry)
    found: dict[int, list[int]] = defaultdict(list)
    for p in range(partitions):
        at = int(firsts[p])
        for row, number in zip(
            rows[begins[p] : begins[p + 1]].tolist(), counts[begins[p] : begins[p + 1]], strict=True
        ):
            assert partition_of(row, partitions) == p and number <= SHORT
            found[row] += entries[at : at + int(number)].tolist()
            at += int(number)
        assert at == firsts[p + 1]
    assert found == wanted | {401: [], 777: []}


@given(st.lists(st.integers(0, 2**63 - 1), max_size=30), st.integers(1, 20))
def test_integers_lie_where_their_bytes_do(ids: list[int], partitions: int) -> None:
    found = places_of(np.array(ids, np.int64), _CRC, partitions, BUCKETS)
    assert list(zip(*(part.tolist() for part in found), strict=True)) == [
        place_of(id_bytes(id), partitions) for id in ids
    ]


@pytest.mark.parametrize("text", [False, True])
def test_known_ids_are_right_or_forgotten(text: bool) -> None:
    known: Any = KnownTexts(50) if text else KnownIntegers(50)
    rng = np.random.default_rng(0)
    truth: dict[int, int] = {}
    for number in range(200):
        new = np.unique(rng.integers(0, 10**6, rng.integers(1, 80)))
        new = new[[int(id) not in truth for id in new]]
        ids = np.array([str(id) for id in new], object) if text else new
        places = np.arange(len(new), dtype=np.int32) + 1000 * number
        known.put(ids, places)
        truth |= zip(new.tolist(), places.tolist(), strict=True)
        old = rng.choice(new, min(len(new), 3), replace=False)
        known.forget(np.array([str(id) for id in old], object) if text else old)
        for id in old.tolist():
            truth[id] = -1
        asked = list(truth)
        found = known.find(np.array([str(id) for id in asked], object) if text else np.array(asked))
        assert all(place in (-1, truth[id]) for id, place in zip(asked, found.tolist(), strict=True))
        assert (found >= 0).any() or len(new) <= 3


@pytest.mark.parametrize("text", [False, True])
def test_ids_that_are_forgotten_on_the_way_are_found_again(
    single: Server, monkeypatch: pytest.MonkeyPatch, text: bool
) -> None:
    monkeypatch.setattr(remote_ids, "_KNOWN", 20)
    store = RedisStore(f"redis://127.0.0.1:{single.port}/forgetful-{text}")
    rng = np.random.default_rng(0)
    name = str if text else int
    for begin in range(0, 600, 30):
        ids = np.arange(begin, begin + 30)
        edges = np.stack([ids, rng.integers(0, begin + 30, 30)])
        edges = edges[:, edges[0] != edges[1]]
        store.add([name(id) for id in ids], np.zeros((30, 2)), [[name(id) for id in end] for end in edges])
        asked = rng.integers(0, begin + 30, 100)
        assert store.positions([name(id) for id in asked]).tolist() == asked.tolist()
        assert store.ids_at(asked.astype(np.int32)).tolist() == [name(id) for id in asked]
    store.drop()


def test_rows_grow_over_both_their_keys(single: Server) -> None:
    memory, remote = GraphStore(), RedisStore(f"redis://127.0.0.1:{single.port}/growing?partitions=3")
    rng, next_id = np.random.default_rng(0), 1
    for store in (memory, remote):
        store.add([0], np.zeros((1, 2)))
    for size in (127, 1, 1, 1, 5, 128, 129, 300, 1, 2):
        ids = np.arange(next_id, next_id + size)
        next_id += size
        hub = np.stack([ids, np.zeros(size, np.int64)])
        more = np.stack([np.repeat(ids, 2), rng.integers(0, ids[0], 2 * size)])
        for store in (memory, remote):
            store.add(ids, np.ones((size, 2)), np.concatenate([hub, more], 1))
    nodes = np.arange(next_id, dtype=np.int32)
    assert remote.reader.degrees(nodes).tolist() == memory._adjacency.degrees(nodes).tolist()
    for node, row in enumerate(remote.reader.whole_rows(nodes)):
        assert row.tolist() == memory._adjacency.neighbors(node).tolist()
    remote.drop()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_change_of_a_slot_that_moves_writes_nothing(cluster: Cluster, side: str) -> None:
    store = RedisStore(cluster.address(f"moving-{side}", "partitions=1&patience=0.5"))
    slot, key = store.partitions._slots[0], store.partitions.key
    holder = store.servers._owner(slot)[1]
    source = next(server for server in cluster.masters if server.port == holder)
    target = next(server for server in cluster.masters if server is not source)
    store.add(np.arange(200), np.zeros((200, 2)), [np.arange(1, 200), np.zeros(199, np.int64)])
    # An entry for a long row: the keys that are declared are on one side, its second key may be on the other.
    change = Change(2, 1, False, Part([], b"\xdd\0\0\0\0", rows=b"\0\0\0\0", counts=b"\1", entries=b"\1\1\1\1"))
    command = store.partitions._command(0, change)
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.ask("CLUSTER", "MYID"))
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ask("CLUSTER", "MYID"))
    try:
        if side == "source":
            with pytest.raises(StoreUnreachableError, match="moving"):
                store.servers.call([(slot, command)])
        else:
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", key(0, "w"), key(0, "r0"))
            reader: Any = hiredis.Reader()
            reader.feed(command)
            with redis.Redis("127.0.0.1", target.port, single_connection_client=True) as client:
                client.execute_command("ASKING")
                with pytest.raises(redis.exceptions.ResponseError, match="non local key"):
                    client.execute_command(*reader.gets())
                client.execute_command("ASKING")
                assert client.execute_command("STRLEN", key(0, "r0")) == 4 * SHORT + 4
    finally:
        move(source, target, slot, cluster.masters, 0)
        move(target, source, slot, cluster.masters, 0)
    assert store.partitions.marks() == [(1, 0)] and store.reader.degrees(np.zeros(1, np.int32)).tolist() == [199]
    store.add([200], np.zeros((1, 2)), [[200], [0]])
    assert store.reader.whole_rows(np.zeros(1, np.int32))[0].tolist() == list(range(1, 201))
    store.drop()


def test_a_client_that_remembers_nothing_has_the_last_rows_only() -> None:
    rows, calls = LastRows(2), []

    def fetch(nodes: Any) -> Any:
        calls.append(nodes.tolist())
        return np.stack([nodes, -nodes], 1).astype(np.float32)

    for asked in ([5, 3, 9], [5, 3, 9], [5, 3], [3], [3, 3]):
        nodes = np.array(asked, np.int32)
        assert len(rows.lacking(nodes)) in (0, len(nodes))
        found = rows.slots(nodes, fetch)
        assert np.array_equal(rows.rows[found][:, 0], nodes)
    rows.forget(np.array([1], np.int32))
    assert len(rows.lacking(np.array([3], np.int32))) == 1
    assert calls == [[5, 3, 9], [3], [3, 3]] and (rows.hits, rows.misses) == (5, 6)


def test_the_spool_returns_what_was_sent() -> None:
    spool = Spool(2)
    part = Part(["m0", "k7"], b"\0\xff", b"rows", b"\1", b"\n\n", b"nodes", b"", b"content")
    changes = [Change(number, number - 1, number % 3 == 0, part) for number in range(1, 9)]
    for change in changes:
        spool.append(1, change)
    assert list(spool.after(1, 5)) == changes[5:] and list(spool.after(0, 0)) == [] and spool.nbytes > 0
    spool.close()
