"""A durable store: what was flushed is there, what is damaged is refused by name."""

import errno
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from ocgl import errors
from ocgl.graph import GraphStore, NeighborSampling
from ocgl.graph.durable import CONFIG
from tests.graph.durable_kills import act, fingerprint


def written(folder: Path, changes: int = 9) -> tuple[object, ...]:
    with GraphStore.open(folder) as store:
        for number in range(changes):
            act(store, number)
        return fingerprint(store)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["store", "learner"])
def test_twenty_kills_lose_nothing_that_was_flushed(kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.graph.durable_kills", kind, str(tmp_path), "20", "3"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 20


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_store_is_there_again(tmp_path: Path, in_memory: bool) -> None:
    before = written(tmp_path)
    with GraphStore.open(tmp_path, in_memory=in_memory) as store:
        assert fingerprint(store) == before and not store.recovery.dropped
        act(store, 9)
        after = fingerprint(store)
    with GraphStore.open(tmp_path) as store:
        assert fingerprint(store) == after and (store.folder is None) is False


def test_what_came_after_the_last_flush_is_dropped_and_said(tmp_path: Path) -> None:
    before = written(tmp_path)
    store = GraphStore.open(tmp_path)
    act(store, 9)
    act(store, 10)
    store._release()  # as a crash does
    torn = tmp_path / "journal-1"
    torn.write_bytes(torn.read_bytes() + b"half a record")
    with pytest.warns(errors.FileWarning, match="not flushed, and dropped: 2 add, 1 add_edges, 1 update"):
        store = GraphStore.open(tmp_path)
    assert store.recovery.torn_bytes == 13 and fingerprint(store) == before
    store.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.FileWarning)
        GraphStore.open(tmp_path).close()


def test_every_damage_is_refused_by_name(tmp_path: Path) -> None:
    written(tmp_path)
    rng = np.random.default_rng(0)
    for name in (CONFIG, "journal-1"):
        path = tmp_path / name
        whole = path.read_bytes()
        damaged = [whole[: len(whole) // 2], b"", b"{}", whole[:-1]]
        for place in rng.integers(0, len(whole), 60).tolist():
            damaged.append(whole[:place] + bytes([whole[place] ^ 1 << int(rng.integers(8))]) + whole[place + 1 :])
        for content in damaged:
            path.write_bytes(content)
            if name == CONFIG and content.strip() == whole.strip():
                continue
            with pytest.raises(errors.DamagedFileError, match=name):
                GraphStore.open(tmp_path)
        path.unlink()
        if name == "journal-1":
            with pytest.raises(errors.DamagedFileError, match="it is missing"):
                GraphStore.open(tmp_path)
        path.write_bytes(whole)
    GraphStore.open(tmp_path).close()


def test_records_of_another_graph_are_refused(tmp_path: Path) -> None:
    """Intact records that do not fit: nothing is guessed, and nothing crashes."""
    from ocgl.checked import sealed
    from ocgl.files import write_json
    from ocgl.graph.durable import KINDS, StoreConfig, _encoded
    from ocgl.graph.journal import Journal

    none, far = np.empty(0, np.int32), np.array([99], np.int32)
    rows = np.zeros((1, 2), np.float32)
    first = {"ids": np.array([1]), "times": np.zeros(1), "later": none, "earlier": none}
    wrong: list[tuple[str, dict[str, np.ndarray], object]] = [
        ("add", first | {"later": far, "earlier": np.array([0], np.int32)}, rows),
        ("add", first | {"times": np.zeros(3)}, rows),
        ("add_edges", {"later": far, "earlier": np.array([0], np.int32)}, None),
        ("update", {"positions": far}, rows),
        ("remove", {"positions": -far}, None),
        ("gap", {name: np.array([-5]) for name in ("count", "width", "sparse", "text")}, None),
    ]
    for number, (kind, arrays, x) in enumerate(wrong):
        folder = tmp_path / str(number)
        folder.mkdir()
        journal = Journal(folder / "journal-1", identity="x")
        journal.add(KINDS.index(kind), _encoded(arrays, x))
        config = StoreConfig(identity="x", bytes=journal.end, records=1, nodes=None, edges=None)
        write_json(folder / CONFIG, sealed(config.model_dump(mode="json")))
        journal.close()
        with pytest.raises(errors.DamagedFileError, match=r"journal-1.*the record at byte 0"):
            GraphStore.open(folder)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = GraphStore.open(tmp_path)
    with pytest.raises(errors.StoreFolderError, match="is open elsewhere"):
        GraphStore.open(tmp_path)
    store.close()
    with pytest.raises(errors.StoreFolderError, match="is closed"):
        store.add([1], np.zeros((1, 1)))
    GraphStore.open(tmp_path).close()


def test_a_shorter_journal_gives_the_same_store(tmp_path: Path) -> None:
    before = written(tmp_path, 40)
    long = (tmp_path / "journal-1").stat().st_size
    with GraphStore.open(tmp_path) as store:
        removed = store.removed
        for _ in range(20):
            store.update(store.ids[:50], np.ones((50, 16)))
        store.compact()
        act(store, 40)
        after = fingerprint(store)
    assert removed and [path.name for path in tmp_path.glob("journal-*")] == ["journal-2"]
    assert (tmp_path / "journal-2").stat().st_size < 2 * long
    with GraphStore.open(tmp_path) as store:
        assert fingerprint(store) == after != before and store.removed == removed


def test_removed_nodes_leave_no_trace_in_a_shorter_journal(tmp_path: Path) -> None:
    with GraphStore.open(tmp_path) as store:
        store.add(["secret-id", "b"], np.full((2, 4), 1234.5))
        store.remove(["secret-id"])
        store.flush()
        assert b"secret-id" in (tmp_path / "journal-1").read_bytes()
        store.compact()
    content = (tmp_path / "journal-2").read_bytes()
    assert b"secret-id" not in content and content.count(np.float32(1234.5).tobytes()) == 4


def test_sparse_or_dense_is_part_of_the_folder(tmp_path: Path) -> None:
    with GraphStore.open(tmp_path, sparse=True) as store:
        store.add([1, 2], np.eye(2), [[2], [1]])
        assert store.features.sparse
    with pytest.raises(errors.StoreFolderError, match="has sparse features, not dense"):
        GraphStore.open(tmp_path, sparse=False)
    with GraphStore.open(tmp_path) as store:
        assert store.features.sparse
        store.add([3], csr_array([[0.0, 5.0]]), [[3], [1]])
        store.update([2], np.array([[0.0, 7.0]]))
        store.remove([1])
        store.compact()
    with GraphStore.open(tmp_path) as store:
        assert store.sample([3, 2], NeighborSampling(1, 2), 0).rows().toarray().tolist() == [[0.0, 5.0], [0.0, 7.0]]


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with GraphStore.open(tmp_path) as store:
        act(store, 0)
        store.flush()
        before, size = fingerprint(store), (tmp_path / "journal-1").stat().st_size

        def half(descriptor: int, data: memoryview, at: int) -> int:
            if len(data) < 100:
                raise OSError(errno.ENOSPC, "no space left")
            return write(descriptor, data[: len(data) // 2], at)

        write = os.pwrite
        monkeypatch.setattr(os, "pwrite", half)
        for call in (
            lambda: store.add(["x"], np.zeros((1, 16))),
            lambda: store.add_edges([["n0-0"], ["n0-1"]]),
            lambda: store.update(["n0-0"], np.ones((1, 16))),
            lambda: store.remove(["n0-0"]),
        ):
            with pytest.raises(errors.DiskFullError, match="journal-1"):
                call()
            assert fingerprint(store) == before and (tmp_path / "journal-1").stat().st_size == size
        monkeypatch.undo()
        act(store, 1)
        now = fingerprint(store)
    with GraphStore.open(tmp_path) as store:
        assert fingerprint(store) == now


def test_a_flush_that_fails_is_said_and_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with GraphStore.open(tmp_path) as store:
        act(store, 0)
        monkeypatch.setattr(os, "fsync", failing)
        with pytest.raises(errors.WriteError, match="changes since the last flush are not durable"):
            store.flush()
        monkeypatch.undo()
        store.flush()
        now = fingerprint(store)
    with GraphStore.open(tmp_path) as store:
        assert fingerprint(store) == now


def test_an_empty_folder_is_an_empty_store(tmp_path: Path) -> None:
    GraphStore.open(tmp_path / "a" / "b").close()
    with GraphStore.open(tmp_path / "a" / "b") as store:
        assert len(store) == 0 and store.edges == 0
    (tmp_path / "file").write_text("x")
    with pytest.raises(errors.WriteError):
        GraphStore.open(tmp_path / "file")


def test_files_that_are_not_the_store_s_stay(tmp_path: Path) -> None:
    (tmp_path / "journal-notes.txt").write_text("mine")
    written(tmp_path)
    GraphStore.open(tmp_path).close()
    assert (tmp_path / "journal-notes.txt").read_text() == "mine"
    (tmp_path / CONFIG).unlink()
    with pytest.raises(errors.DamagedFileError, match=r"store\.json.*missing"):
        GraphStore.open(tmp_path)
    (tmp_path / CONFIG).mkdir()
    with pytest.raises(errors.DamagedFileError, match="no regular file"):
        GraphStore.open(tmp_path)


def test_a_forked_child_cannot_write(tmp_path: Path) -> None:
    store = GraphStore.open(tmp_path)
    store.add([1], np.zeros((1, 2)))
    pid = os.fork()
    if pid == 0:
        try:
            store.add([2], np.zeros((1, 2)))
        except errors.StoreFolderError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    store.close()
    with GraphStore.open(tmp_path) as again:
        assert again.ids.tolist() == [1]
