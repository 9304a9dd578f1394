"""Checks that every graph store must pass, whatever engine holds the graph.

A check takes a function that makes an empty store. It raises `ContractError` if the store fails. A history is a list
of events; an event is a kind and four small numbers, which choose among the ids that are there, so that any list of
numbers is a history. Some events are wrong on purpose: both stores must refuse them, and nothing may change.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import stats

from ocgl.errors import OcglError
from ocgl.graph import GraphStore, NeighborSampling
from ocgl.graph.features import dense
from ocgl.testing.reference_store import ReferenceStore, rows_at
from ocgl.testing.strategies import require
from ocgl.types import FloatArray

MakeStore = Callable[[], GraphStore]
Reopen = Callable[[Any], GraphStore]
Event = tuple[str, int, int, int, int]
KINDS = ("add", "add", "add", "edges", "edges", "update", "remove", "remove_edges", "wrong")
WIDTH = 3
SAMPLINGS = (
    NeighborSampling(2, 2),
    NeighborSampling(1, None, "mean"),
    NeighborSampling(2, (3, 1), "sym"),
    NeighborSampling(2, 2, "sym", "store"),
    NeighborSampling(0, 5),
)


class Pair:
    """A store and the reference, which get the same events.

    Args:
        make: makes an empty store.
        text: whether ids are text instead of integers.
        reopen: closes a store and opens it again, at events of the kind `reopen`; None for a store that does not last.
    """

    def __init__(self, make: MakeStore, text: bool = False, reopen: Reopen | None = None) -> None:
        self.store, self.slow = make(), ReferenceStore()
        self._text, self._reopen = text, reopen
        self._next = 0
        self._rows = np.random.default_rng(0)

    def apply(self, event: Event) -> None:
        """Apply an event to both; they must agree on whether it is wrong, and by which name."""
        if event[0] == "reopen":
            self.store = self.store if self._reopen is None else self._reopen(self.store)
            return
        act = self._act(*event)
        found: list[Any] = []
        for target in (self.slow, self.store):
            try:
                found.append(act(target))
            except OcglError as error:
                found.append(type(error))
        require(found[0] == found[1], f"{event}: the reference says {found[0]}, the store {found[1]}")

    def compare(self, key: int, count: int = 4) -> None:
        """Compare samples around some nodes, with several weights, to the bit."""
        there = list(self.slow.position)
        require(len(self.store) == len(there), f"the store has {len(self.store)} nodes, not {len(there)}")
        edges = sum(len(row) for row in self.slow.rows if row is not None) // 2
        require(self.store.edges == edges, f"the store has {self.store.edges} edges, not {edges}")
        require(list(self.store.ids) == sorted(there, key=self.slow.position.__getitem__), "ids differ, or their order")
        if not there:
            return
        chosen = [there[(key + 7 * i) % len(there)] for i in range(min(count, len(there)))]
        chosen = list(dict.fromkeys(chosen))
        for sampling in SAMPLINGS[key % 2 :: 2]:  # all of them within two calls
            self._compare(chosen, sampling, key)

    def _compare(self, ids: list[Any], sampling: NeighborSampling, key: int) -> None:
        nodes, sizes, lists = self.slow.sample(ids, sampling, key)
        found = self.store.sample(ids, sampling, key)
        where = f"a sample of {ids} with {sampling}"
        require(found.nodes.tolist() == nodes and list(found.sizes) == sizes, f"{where} has other nodes")
        starts = np.cumsum([0, *map(len, lists)]).tolist()
        require(found.indptr.tolist() == starts, f"{where} has other degrees")
        require(found.indices.tolist() == [i for row in lists for i in row], f"{where} has other edges")
        require(np.array_equal(dense(found.rows()), rows_at(self.slow, nodes)), f"{where} has other features")
        if sampling.hops:
            require(np.array_equal(found.aggregated, found.detached().aggregated), f"{where} has other sums")
        if sampling.bounded:
            bound = sampling.bound(len(ids), self.store.features.row_bound)
            require(found.cost.within(bound), f"{where} reads more than its bound")
        if sampling.norm == "mean" and len(found.self_weight):
            weights = [np.float32(1.0 / (1 + len(row))) for row in lists]
            require(found.self_weight.tolist() == weights, f"{where} has other weights")

    def _act(self, kind: str, a: int, b: int, c: int, d: int) -> Callable[[Any], Any]:
        there = list(self.slow.position)
        if kind == "add" or not there:
            ids = [self._fresh() for _ in range(1 + a % 3)]
            if d % 5 == 0 and a % 2:
                ids[0] = self._returning(b)
            known = [*there, *ids]
            pairs = [(ids[i % len(ids)], known[(b + i * c) % len(known)]) for i in range(b % 4)]
            edges = [(u, v) for u, v in pairs if u != v]
            rows = self._features(len(ids))
            return lambda s: s.add(ids, rows, edges if s is self.slow else _columns(edges))
        first, second = there[a % len(there)], there[b % len(there)]
        if kind == "edges":
            pairs = [(first, second), (there[c % len(there)], there[d % len(there)])]
            edges = [(u, v) for u, v in pairs if u != v] * (1 + a % 2)
            return lambda s: s.add_edges(edges if s is self.slow else _columns(edges))
        if kind == "remove_edges":
            row = self.slow.rows[self.slow.position[first]] or []
            by_place = {place: id for id, place in self.slow.position.items()}
            edges = [(first, by_place[row[c % len(row)]])] if row and d % 4 else [(first, second)]
            return lambda s: s.remove_edges(edges if s is self.slow else _columns(edges))
        if kind == "update":
            chosen = list(dict.fromkeys((first, second)))
            rows = self._features(len(chosen))
            return lambda s: s.update(chosen, rows)
        if kind == "remove":
            return lambda s: s.remove([first] if c % 2 or first == second else [first, second])
        wrong: list[Callable[[Any], Any]] = [
            lambda s: s.remove([first, first]),
            lambda s: s.remove([self._id(self._next + 1000)]),
            lambda s: s.update([self._id(self._next + 1000)], self._features(1)),
            lambda s: s.add_edges([(first, first)] if s is self.slow else [[first], [first]]),
            lambda s: s.remove([]),
            lambda s: s.add([first], self._features(1), [] if s is self.slow else ((), ())),
        ]
        return wrong[a % len(wrong)]

    def _id(self, number: int) -> Any:
        return f"node {number}" if self._text else number * 3

    def _fresh(self) -> Any:
        self._next += 1
        return self._id(self._next)

    def _returning(self, b: int) -> Any:
        """Return an id that may have been there before."""
        gone = [self._id(i) for i in range(1, self._next) if self._id(i) not in self.slow.position]
        return gone[b % len(gone)] if gone else self._fresh()

    def _features(self, count: int) -> FloatArray:
        return self._rows.integers(-3, 4, (count, WIDTH)).astype(np.float32)  # sums of small numbers are exact


def _columns(edges: list[tuple[Any, Any]]) -> Any:
    return [[u for u, _ in edges], [v for _, v in edges]] if edges else ((), ())


def follows_the_reference(
    make: MakeStore, history: Iterable[Event], text: bool = False, reopen: Reopen | None = None
) -> None:
    """Check that a store and the slow reference agree on every event, and on samples after every second one.

    Args:
        make: makes an empty store.
        history: the events.
        text: whether ids are text instead of integers.
        reopen: closes a store and opens it again, at events of the kind `reopen`.
    """
    pair = Pair(make, text, reopen)
    number = 0
    for number, event in enumerate(history, start=1):
        pair.apply(event)
        if number % 2 == 0:
            pair.compare(key=0x9E37 * number + number // 2 % 2)
    pair.compare(key=number)


def wrong_calls_change_nothing(make: MakeStore) -> None:
    """Check that a call that is refused in the middle leaves everything as it was."""
    pair = Pair(make)
    for event in (("add", 2, 3, 1, 1), ("add", 1, 2, 1, 1), ("edges", 0, 2, 1, 3)):
        pair.apply(event)
    store, there = pair.store, list(pair.slow.position)
    row = np.zeros((1, WIDTH), np.float32)
    calls: list[Callable[[], Any]] = [
        lambda: store.add_edges([[there[0], there[1]], [there[1], 999_999]]),
        lambda: store.remove_edges([[there[0], there[0]], [there[1], there[2]]]),
        lambda: store.remove([there[0], 999_999]),
        lambda: store.update([there[0]], np.full((1, WIDTH), np.nan)),
        lambda: store.update([there[0]], np.zeros((1, WIDTH + 1))),
        lambda: store.update(there[:2], row),
        lambda: store.add([1], row, [[1], [999_999]]),
    ]
    for number, call in enumerate(calls):
        before = store.version
        try:
            call()
        except OcglError:
            require(store.version == before, f"call {number} was refused, but changed the version")
        pair.compare(key=number)


def neighbours_are_drawn_uniformly_after_removals(make: MakeStore) -> None:
    """Check by a chi-square test that every neighbour left is drawn equally often, after later edges and removals."""
    store = make()
    leaves = list(range(1, 41))
    store.add([0, *leaves], np.zeros((41, 1)), [[0] * 20, leaves[:20]])
    store.add_edges([[0] * 20, leaves[20:]])
    store.remove(leaves[::4])
    store.remove_edges([[0] * 5, leaves[1:21:4]])
    left = sorted(store.neighbors(0).tolist())
    counts = dict.fromkeys(left, 0)
    draws = 4000
    for key in range(draws):
        found = store.sample([0], NeighborSampling(1, 5), key)
        for id in store.ids_at(found.nodes[1:]).tolist():
            require(id in counts, f"{id} was removed, and sampled")
            counts[id] += 1
    require(sum(counts.values()) == 5 * draws, "a sample has fewer neighbours than it could")
    p = float(stats.chisquare(list(counts.values())).pvalue)
    require(p > 1e-4, f"neighbours are not drawn uniformly: p = {p:.2g}")


def one_writer_and_several_readers(make: MakeStore) -> None:
    """Check that samples are whole while another thread changes the graph: every feature is of one moment."""
    store = make()
    width, nodes = 64, 60
    store.add(list(range(nodes)), np.zeros((nodes, width)), [list(range(1, nodes)), [0] * (nodes - 1)])
    stop, failures = threading.Event(), []

    def read(seed: int) -> None:
        key = seed
        while not stop.is_set():
            key += 1
            try:
                with store.reading():
                    rows = dense(store.sample([0, 1 + key % 9], NeighborSampling(2, 8), key).rows())
                if not (rows == rows[:, :1]).all():
                    failures.append("a row is of two moments")
            except Exception as error:
                failures.append(repr(error))
                return

    readers = [threading.Thread(target=read, args=(1000 * i,), daemon=True) for i in range(3)]
    for reader in readers:
        reader.start()
    try:
        _write(store, nodes, width)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    require(not failures, f"a reading thread failed: {failures[:1]}")


def _write(store: GraphStore, nodes: int, width: int) -> None:
    rng = np.random.default_rng(0)
    for turn in range(1, 400):
        kind = turn % 4
        new = nodes + turn
        if kind == 0:
            store.add([new], np.full((1, width), turn), [[new, new], [0, int(rng.integers(1, 10))]])
        elif kind == 1:
            store.update(list(range(10)), np.full((10, width), turn))
        elif kind == 2:
            store.add_edges([[int(rng.integers(1, 10))], [int(rng.integers(10, nodes))]])
        elif new - 3 in store.ids:
            store.remove([new - 3])


STORE_CHECKS: list[Callable[[MakeStore], None]] = [
    wrong_calls_change_nothing,
    neighbours_are_drawn_uniformly_after_removals,
    one_writer_and_several_readers,
]
"""Checks of one run each; `follows_the_reference` takes a history besides."""
