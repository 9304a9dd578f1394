import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ocgl.errors import StreamError
from ocgl.graph import Graph
from ocgl.streams import Stream, class_stream
from ocgl.types import AnyArray

Arrays = dict[str, AnyArray]


def edited(graph: Graph, path: Path, change: Callable[[Arrays], Any]) -> Path:
    class_stream(graph).save(path)
    with np.load(path) as file:
        arrays = dict(file.items())
    change(arrays)
    np.savez(path, **arrays)
    return path


def with_facts(**changes: Any) -> Callable[[Arrays], Any]:
    def change(arrays: Arrays) -> None:
        facts = json.loads(str(arrays["facts"])) | changes
        arrays["facts"] = np.array(json.dumps({key: value for key, value in facts.items() if value is not None}))

    return change


@pytest.mark.parametrize(
    "change",
    [
        with_facts(name="another"),
        with_facts(notes=["measured by hand"]),
        lambda arrays: arrays.update(role=arrays["role"].astype(np.float64)),
        lambda arrays: arrays.update(task_classes=arrays["task_classes"].reshape(2, 3)),
        lambda arrays: arrays.update(more=np.zeros(2)),
    ],
)
def test_a_change_outside_the_content_hash_is_refused(
    graph: Graph, tmp_path: Path, change: Callable[[Arrays], Any]
) -> None:
    with pytest.raises(StreamError, match=r"was changed after it was written|holds no stream"):
        Stream.load(edited(graph, tmp_path / "s.npz", change))


def test_a_file_without_a_checksum_still_loads(graph: Graph, tmp_path: Path) -> None:
    path = edited(graph, tmp_path / "s.npz", lambda arrays: arrays.pop("checksum"))
    assert Stream.load(path).content_hash == class_stream(graph).content_hash


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda arrays: arrays.pop("facts"), "it has no facts"),
        (lambda arrays: arrays.pop("order"), "it has no order"),
        (lambda arrays: arrays.update(facts=np.array("[]")), "holds no stream"),
        (lambda arrays: arrays.update(facts=np.array("{")), "holds no stream"),
        (with_facts(base=None), "it has no base"),
        (with_facts(whole_tasks=None), "it has no whole_tasks"),
        (with_facts(hash=None), "it has no hash"),
        (lambda arrays: arrays.update(graph_y=arrays["graph_y"][:3]), "y has shape"),
        (lambda arrays: arrays.update(graph_x=np.array(1.0)), "holds no stream"),
        (lambda arrays: arrays.update(order=np.array(["a"])), "holds no stream"),
    ],
)
def test_what_is_no_stream_is_named(
    graph: Graph, tmp_path: Path, change: Callable[[Arrays], Any], problem: str
) -> None:
    def unchecked(arrays: Arrays) -> None:
        arrays.pop("checksum")
        change(arrays)

    with pytest.raises(StreamError, match=rf"s\.npz.*{problem}"):
        Stream.load(edited(graph, tmp_path / "s.npz", unchecked))


def test_a_single_array_is_no_stream(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.arange(3))
    with pytest.raises(StreamError, match=r"no \.npz archive"):
        Stream.load(tmp_path / "s.npy")
