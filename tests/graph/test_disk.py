import os
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from ocgl.errors import DiskFullError, UnknownNameError
from ocgl.experiments import configure, make_experiment, stream_of
from ocgl.experiments.storage import raw_bytes, storage_folder
from ocgl.graph import Graph, GraphStore, NeighborSampling, store
from ocgl.graph.growable import Growable
from ocgl.streams import class_stream
from tests.helpers import options, timeless


def test_an_array_in_a_file_grows_and_leaves_nothing_behind(tmp_path: Path) -> None:
    numbers, expected = Growable(np.int32, 3, tmp_path), np.empty((0, 3), np.int32)
    views = []
    for size in (1, 500, 40_000):
        rows = np.arange(3 * size, dtype=np.int32).reshape(-1, 3)
        numbers.extend(rows)
        expected = np.concatenate([expected, rows])
        views.append((numbers.rows, expected))
        numbers.release_pages()
    for view, then in views:
        assert np.array_equal(view, then)
    assert list(tmp_path.iterdir()) == []


def test_letting_go_of_an_array_in_memory_does_nothing() -> None:
    numbers = Growable(np.int32)
    numbers.extend(np.arange(9))
    numbers.release_pages()
    assert numbers.rows.tolist() == list(range(9))


@pytest.mark.parametrize("sparse", [False, True])
def test_samples_of_both_stores_are_equal(
    graph: Graph, tmp_path: Path, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_RELEASE_AFTER", 1000)
    stream, here, there = class_stream(graph), GraphStore(), GraphStore(tmp_path)
    for step in stream:
        arrival = step.arrival
        rows = csr_array(arrival.rows) if sparse else arrival.rows
        for place in (here, there):
            place.add(arrival.ids, rows, arrival.edges, arrival.times)
        asked = here.ids[-5:]
        first, second = (
            place.sample(asked, NeighborSampling(hops=2, fanout=3), key=step.index) for place in (here, there)
        )
        assert np.array_equal(first.aggregated, second.aggregated)
        assert np.array_equal(first.indices, second.indices) and first.cost == second.cost
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sparse", [False, True])
def test_a_full_disk_has_a_name_and_leaves_the_store_as_it_was(
    graph: Graph, tmp_path: Path, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, there = class_stream(graph), GraphStore(tmp_path)
    arrival = stream.arrival(stream.order)
    rows = csr_array(arrival.rows) if sparse else arrival.rows
    first = there_is_room = os.posix_fallocate

    def full(file: int, start: int, size: int) -> None:
        if size > 4096 * full.pages:  # type: ignore[attr-defined]
            raise OSError(28, "No space left on device")
        there_is_room(file, start, size)

    monkeypatch.setattr(os, "posix_fallocate", full)
    edges = arrival.edges
    half = np.isin(edges, stream.order[:60]).all(0)
    full.pages = 1000  # type: ignore[attr-defined]
    there.add(stream.order[:60], rows[:60], edges[:, half])
    before = there.sample(stream.order[:20], NeighborSampling(hops=2), key=0)
    for pages in (0, 1):
        full.pages = pages  # type: ignore[attr-defined]
        many = np.arange(10_000, 40_000)
        wide = rows[np.zeros(30_000, int)]
        pairs = np.stack([many, np.full(30_000, stream.order[0])])
        with pytest.raises(DiskFullError, match="no room"):
            there.add(many, wide, pairs)
        again = there.sample(stream.order[:20], NeighborSampling(hops=2), key=0)
        assert len(there) == 60 and np.array_equal(before.aggregated, again.aggregated)
    monkeypatch.setattr(os, "posix_fallocate", first)
    there.add(many, wide, pairs)
    assert len(there) == 30_060 and there.degrees([stream.order[0]])[0] >= 30_000


@pytest.mark.parametrize("strategy", ["bare", "linear", "ssm-er", "joint"])
def test_a_run_on_disk_gives_the_same_bits(strategy: str) -> None:
    settings = ["batch_size=100", *(["epochs=2"] if strategy == "joint" else [])]
    config = configure("digits", strategy, overrides=options(*settings))
    stream = stream_of(config)
    results = [make_experiment(config, stream, store=where).finish() for where in ("memory", "disk")]
    assert [result.store for result in results] == ["memory", "disk"]
    assert timeless(results[0]) == timeless(results[1])


def test_the_size_decides(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    assert raw_bytes(graph) == 4 * (120 * 5 + 2 * graph.edges)
    assert storage_folder("auto", graph) is None
    pages = {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": 2 * raw_bytes(graph) - 1}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert storage_folder("auto", graph) is not None and storage_folder("memory", graph) is None
    with pytest.raises(UnknownNameError):
        storage_folder("tape", graph)
