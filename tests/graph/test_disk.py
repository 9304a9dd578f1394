import os
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from ocgl.benchmark import configure, run_of, stream_of
from ocgl.benchmark.keep import TIMINGS
from ocgl.benchmark.placing import folder_of, raw_bytes
from ocgl.errors import UnknownNameError
from ocgl.graph import Graph, Look, Store, store
from ocgl.graph.growable import Growable
from ocgl.streams import class_stream


def test_an_array_in_a_file_grows_and_leaves_nothing_behind(tmp_path: Path) -> None:
    numbers, expected = Growable(np.int32, 3, tmp_path), np.empty((0, 3), np.int32)
    views = []
    for size in (1, 500, 40_000):
        rows = np.arange(3 * size, dtype=np.int32).reshape(-1, 3)
        numbers.extend(rows)
        expected = np.concatenate([expected, rows])
        views.append((numbers.rows, expected))
        numbers.let_go()
    for view, then in views:
        assert np.array_equal(view, then)
    assert list(tmp_path.iterdir()) == []


def test_letting_go_of_an_array_in_memory_does_nothing() -> None:
    numbers = Growable(np.int32)
    numbers.extend(np.arange(9))
    numbers.let_go()
    assert numbers.rows.tolist() == list(range(9))


@pytest.mark.parametrize("sparse", [False, True])
def test_looks_into_both_stores_are_equal(
    graph: Graph, tmp_path: Path, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_LET_GO", 1000)
    stream, here, there = class_stream(graph), Store(), Store(tmp_path)
    for step in stream:
        arrival = step.arrival
        rows = csr_array(arrival.rows) if sparse else arrival.rows
        for place in (here, there):
            place.add(arrival.ids, rows, arrival.edges, arrival.times)
        asked = here.ids[-5:]
        first, second = (place.look(asked, Look(hops=2, fanout=3), key=step.index) for place in (here, there))
        assert np.array_equal(first.aggregated, second.aggregated)
        assert np.array_equal(first.indices, second.indices) and first.cost == second.cost
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("strategy", ["bare", "linear", "ssm-er", "joint"])
def test_a_run_on_disk_gives_the_same_bits(strategy: str) -> None:
    settings = ["batch_size=100", *(["epochs=2"] if strategy == "joint" else [])]
    config = configure("digits", strategy, settings=settings)
    stream = stream_of(config)
    results = [run_of(config, stream, store=where).finish() for where in ("memory", "disk")]
    assert [result.pop("store") for result in results] == ["memory", "disk"]
    for result in results:
        for key in TIMINGS:
            result.pop(key)
    assert results[0] == results[1]


def test_the_size_decides(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    assert raw_bytes(graph) == 4 * (120 * 5 + 2 * graph.edges)
    assert folder_of("auto", graph) is None
    pages = {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": 2 * raw_bytes(graph) - 1}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert folder_of("auto", graph) is not None and folder_of("memory", graph) is None
    with pytest.raises(UnknownNameError):
        folder_of("tape", graph)
