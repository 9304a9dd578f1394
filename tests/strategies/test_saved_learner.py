"""A saved learner goes on as if it had never stopped: every strategy, in a new process, wherever its graph is."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ocgl import GraphStore, Learner, errors
from ocgl.strategies import make_strategy, names
from ocgl.strategies._core.saved import FACTS, STATE
from ocgl.streams import Stream, class_stream
from ocgl.testing import small_graph
from ocgl.testing.strategies import changing
from ocgl.types import IntArray

GO_ON = """
import sys
import torch
from threadpoolctl import threadpool_limits
from tests.strategies.test_saved_learner import go_on
torch.set_num_threads(1)
threadpool_limits(1)
for folder in sys.argv[1:]:
    go_on(folder)
"""
HALF = 9
VARIANTS: dict[str, dict[str, Any]] = {"ridge": {"revisit": 3, "buffer_size": 20}}


def stream_of_tests() -> Stream:
    return class_stream(changing(small_graph()))


def play(learner: Learner, begin: int, end: int) -> None:
    """Play steps of the stream with ids and classes of text, and labels that wait for batches of seven."""
    for index in range(begin, end):
        step = stream_of_tests().step(index)
        arrival, changes, labels = step.arrival, step.changes, step.labels
        learner.add(text(arrival.ids), arrival.rows, text(arrival.edges), arrival.times)
        if changes is not None:
            if changes.later_edges.size:
                learner.add_edges(text(changes.later_edges))
            if len(changes.removed):
                learner.remove(text(changes.removed))
        if labels is not None:
            learner.learn(text(labels.ids), [f"class {label}" for label in labels.labels.tolist()])


def text(ids: IntArray) -> Any:
    return [text(row) for row in ids] if np.ndim(ids) == 2 else [f"n{id}" for id in ids.tolist()]


def summary(learner: Learner) -> dict[str, object]:
    answer = learner.answer(learner.store.ids[:40])
    return {
        "state": learner.state().checksum(),
        "labels": answer.labels.tolist(),
        "scores": answer.scores.tobytes().hex(),
        "classes": answer.classes.tolist(),
        "waiting": learner.waiting,
        "nodes": len(learner.store),
        "edges": learner.store.edges,
    }


def go_on(folder: str) -> None:
    learner = Learner.load(folder)
    play(learner, HALF, len(stream_of_tests()))
    (Path(folder) / "after.json").write_text(json.dumps(summary(learner)))


def made(name: str, store: GraphStore | None = None) -> Learner:
    return Learner(make_strategy(name, seed=3, **VARIANTS.get(name, {})), store=store, batch_size=7)


@pytest.mark.slow
def test_every_strategy_goes_on_bit_equal_in_a_new_process(tmp_path: Path) -> None:
    whole, folders = {}, {}
    for name in names():
        straight = made(name)
        play(straight, 0, len(stream_of_tests()))
        whole[name] = summary(straight)
        for where in ("memory", "disk"):
            folder = tmp_path / f"{name}-{where}"
            store = GraphStore.open(folder / "graph") if where == "disk" else None
            learner = made(name, store)
            play(learner, 0, HALF)
            learner.save(folder)
            if store is not None:
                store.close()
            folders[name, where] = folder
    program = tmp_path / "go_on.py"
    program.write_text(GO_ON)
    command = [sys.executable, str(program), *map(str, folders.values())]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root)}
    ended = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment)
    assert ended.returncode == 0, ended.stderr
    for (name, where), folder in folders.items():
        assert json.loads((folder / "after.json").read_text()) == whole[name], (name, where)


def test_saving_again_replaces_the_last_save(tmp_path: Path) -> None:
    learner = made("slda")
    for index in range(1, 6):
        play(learner, index - 1, index)
        learner.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [FACTS, "save-5"]
    assert summary(Learner.load(tmp_path)) == summary(learner)


def test_a_graph_on_disk_is_not_written_again(tmp_path: Path) -> None:
    with GraphStore.open(tmp_path / "graph") as store:
        learner = made("slda", store)
        play(learner, 0, 4)
        learner.save(tmp_path)
        before = (tmp_path / "graph" / "journal-1").stat().st_size
        learner.save(tmp_path)
        assert (tmp_path / "graph" / "journal-1").stat().st_size == before
        assert not list(tmp_path.glob("save-*/graph"))
        saved = summary(learner)
        play(learner, 4, 6)  # flushed, but not saved: the saved learner does not know these nodes
        store.flush()
    with pytest.warns(
        errors.FileWarning, match="were flushed, but do not belong to what is opened; they were set aside"
    ):
        learner = Learner.load(tmp_path)
    assert summary(learner) == saved
    (aside,) = (tmp_path / "graph").glob("after-record-*")
    assert aside.stat().st_size > 0
    with pytest.raises(errors.StoreFolderError, match="was saved with this journal"):
        learner.store.compact()  # type: ignore[attr-defined]


def test_a_learner_whose_graph_is_gone_says_so(tmp_path: Path) -> None:
    with GraphStore.open(tmp_path / "graph") as store:
        learner = made("slda", store)
        play(learner, 0, 2)
        learner.save(tmp_path)
    (tmp_path / "graph").rename(tmp_path / "elsewhere")
    with pytest.raises(errors.DamagedFileError, match="it is missing: the learner was saved with its graph there"):
        Learner.load(tmp_path)
    assert not (tmp_path / "graph").exists()


def test_folders_that_are_no_saves_stay(tmp_path: Path) -> None:
    (tmp_path / "save-1").mkdir()
    (tmp_path / "save-1" / "thesis.txt").write_text("mine")
    learner = made("slda")
    play(learner, 0, 2)
    learner.save(tmp_path)
    learner.save(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("save-*")) == ["save-1", "save-3"]
    assert (tmp_path / "save-1" / "thesis.txt").exists()


def test_loading_while_another_thread_saves(tmp_path: Path) -> None:
    learner = made("slda")
    play(learner, 0, 3)
    learner.save(tmp_path)
    failed: list[BaseException] = []

    def work(act: Callable[[], object]) -> None:
        try:
            for _ in range(15):
                act()
        except BaseException as error:
            failed.append(error)

    acts = [lambda: learner.save(tmp_path), lambda: Learner.load(tmp_path), lambda: Learner.load(tmp_path)]
    threads = [threading.Thread(target=work, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_damaged_saves_are_refused_by_name(tmp_path: Path) -> None:
    learner = made("slda")
    play(learner, 0, 4)
    learner.save(tmp_path)
    files = [tmp_path / FACTS, tmp_path / "save-1" / STATE]
    files += [tmp_path / "save-1" / "graph" / name for name in ("store.json", "journal-1")]
    rng = np.random.default_rng(1)
    for path in files:
        whole = path.read_bytes()
        for place in rng.integers(0, len(whole) - 1, 15).tolist():
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            with pytest.raises(errors.DamagedFileError, match=path.name):
                Learner.load(tmp_path)
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(errors.DamagedFileError, match=path.name):
            Learner.load(tmp_path)
        path.write_bytes(whole)
    Learner.load(tmp_path)
    with pytest.raises(errors.DamagedFileError, match="no learner was saved"):
        Learner.load(tmp_path / "save-1")


def test_files_of_the_user_s_own_need_trust(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from typing import ClassVar\nfrom ocgl.strategies import Bare, strategy\n"
        "@strategy\nclass Mine(Bare):\n    name: ClassVar[str] = 'mine'\n"
    )
    learner = Learner(make_strategy(f"{tmp_path}/mine.py:Mine"))
    learner.add([0, 1], np.eye(2))
    learner.learn([0, 1], [0, 1])
    learner.save(tmp_path / "saved")
    with pytest.raises(errors.UntrustedError, match=r"executes .*mine\.py"):
        Learner.load(tmp_path / "saved")
    assert np.array_equal(Learner.load(tmp_path / "saved", trust=True).scores([0]), learner.scores([0]))


def test_labels_wait_for_a_batch() -> None:
    learner = made("ridge")
    learner.add([f"n{i}" for i in range(20)], np.eye(20))
    for i in range(6):
        assert learner.learn([f"n{i}"], [f"c{i % 2}"]) is None
    assert learner.waiting == 6 and learner.strategy.updates == 0
    learner.learn(["n0"], ["c1"])  # corrected before it was learned
    learner.remove(["n1"])
    batch = learner.learn([f"n{i}" for i in range(6, 15)], ["c0"] * 9)
    assert batch is not None and learner.strategy.updates == 2 and learner.waiting == 1
    assert learner.learn_waiting() is not None and learner.waiting == 0 and learner.learn_waiting() is None
    assert learner.predict(["n0", "n3", "n8"]).tolist() == ["c1", "c1", "c0"]


def test_an_answer_says_what_it_is() -> None:
    learner = made("ridge")
    learner.add(["a", "b"], np.eye(2), [["b"], ["a"]])
    empty = learner.answer(["a"])
    assert empty.labels.tolist() == [-1] and empty.scores.shape == (1, 0)
    learner.learn(["a", "b"], ["fine", "fraud"])
    learner.learn_waiting()
    answer = learner.answer(["b", "a", "b"])
    assert answer.labels.tolist() == learner.predict(["b", "a", "b"]).tolist() and not answer.calibrated
    assert answer.classes.tolist() == learner.classes.tolist() == ["fine", "fraud"]
    assert np.allclose(answer.probabilities.sum(1), 1) and np.array_equal(answer.scores[0], answer.scores[2])
    assert answer.bound is not None and answer.cost.within(answer.bound)
    assert np.array_equal(learner.predict_proba(["a"])[0], answer.probabilities[1])


@pytest.mark.parametrize("name", names())
def test_probabilities_rank_as_scores_do(name: str) -> None:
    learner = Learner(make_strategy(name))
    play_numbers = class_stream(small_graph())
    for index in range(8):
        step = play_numbers.step(index)
        step.apply(learner)
        learner.learn(step.labels)
    answer = learner.answer(learner.store.ids)
    assert np.allclose(answer.probabilities.sum(1), 1) and (answer.probabilities >= 0).all()
    best = answer.probabilities.max(1)
    assert (answer.probabilities[np.arange(len(best)), answer.scores.argmax(1)] == best).all()
    assert np.array_equal(answer.labels, learner.predict(learner.store.ids))


def test_wrong_labels_are_refused_by_name() -> None:
    learner = Learner("slda")
    learner.add(["a", "b"], np.eye(2))
    with pytest.raises(errors.ConfigError, match="give the class of each node"):
        learner.learn(["a"])
    with pytest.raises(errors.LabelError, match="but not both"):
        learner.learn(["a", "b"], np.array(["x", 3], object))
    learner.learn(["a"], ["x"])
    with pytest.raises(errors.LabelError, match="names of classes, like 'x'"):
        learner.learn(["b"], [1])
    numbers = Learner("slda")
    numbers.add([1, 2], np.eye(2))
    numbers.learn([1], [0])
    with pytest.raises(errors.LabelError, match="integers as labels"):
        numbers.learn([2], ["x"])
    for wrong in (0, 2.5, "3", True):
        with pytest.raises(errors.ConfigError, match="batch_size must be a positive whole number"):
            Learner("slda", batch_size=wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigError, match="store must be a GraphStore"):
        Learner("slda", store="x")  # type: ignore[arg-type]
    with pytest.raises(errors.LabelError, match="a list of classes for each node"):
        learner.predict(["a"], candidates=["x"])


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("wrong", [[1.9, 0.2], [-5, 0], [0], [0, 1, 2], ["x", 3]])
def test_refused_labels_leave_no_trace(wrong: list[Any], batch_size: int | None) -> None:
    learner = Learner("slda", batch_size=batch_size)
    learner.add(list("abcd"), np.eye(4))
    with pytest.raises(errors.OcglError):
        learner.learn(["a", "b"], wrong)
    assert learner.waiting == 0
    learner.learn(["a", "b", "c"], ["x", "y", None])  # the kind of labels is still open
    learner.learn_waiting()
    assert learner.classes.tolist() == ["x", "y"]


def test_missing_labels_are_unknown() -> None:
    learner = Learner("slda", batch_size=2)
    learner.add(list("abcd"), np.eye(4))
    learner.learn(["a"], [None])
    learner.learn(["a", "b", "c"], np.array(["x", float("nan"), "y"], object))
    assert learner.waiting == 0 and learner.classes.tolist() == ["x", "y"]
