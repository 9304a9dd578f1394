"""Later edges, new features and removals in streams: by hand on a tiny graph, and everything that follows from them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ocgl import GraphStore, Learner, errors, evaluate, resume
from ocgl.datasets import load_dataset
from ocgl.evaluation import Evaluator
from ocgl.experiments.expansion import expansion
from ocgl.graph import Graph
from ocgl.graph.changes import LATER_EDGE, REMOVAL, REMOVED_EDGE, UPDATE, Changes
from ocgl.strategies import names
from ocgl.streams import Stream, class_stream, make_stream
from ocgl.streams.schedule import NEVER
from ocgl.types import IntArray
from tests.helpers import timeless

CHURN = "sbm:nodes=300,edges=1200,classes=6,width=8,churn=0.2"


def tiny(*changes: tuple[int, int, int, float], label_time: list[float] | None = None) -> Stream:
    """Return a path 0-1-2-3-4-5 whose nodes arrive in order, two per step, with changes by time."""
    columns = np.array(changes).reshape(-1, 4)
    kind, first, second = columns[:, :3].astype(np.int64).T
    rows = np.arange(2.0 * (kind == UPDATE).sum(), dtype=np.float32).reshape(-1, 2)
    happening = Changes(kind, first, second, columns[:, 3], "time", rows) if changes else None
    edges = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    known = None if label_time is None else np.array(label_time)
    graph = Graph.from_edges(
        "path", edges, np.array([0, 1] * 3), np.eye(6)[:, :2], np.arange(6.0), None, (), known, happening
    )
    return make_stream(graph, "time", time_tasks=1, batch_size=2, split=(1.0, 0.0, 0.0), straddle=True, batching="all")


def steps_of(stream: Stream) -> list[int | None]:
    assert stream.change_steps is not None
    return [None if step == NEVER else step for step in stream.change_steps.tolist()]


def edges_after(stream: Stream) -> list[list[tuple[int, int]]]:
    """Return the edges that are there after each step."""
    store, found = GraphStore(), []
    for step in stream:
        step.apply(store)
        pairs = {(min(u, v), max(u, v)) for u in store.ids.tolist() for v in store.neighbors(u).tolist()}
        found.append(sorted(pairs))
    return found


def test_a_later_edge_comes_at_its_time() -> None:
    stream = tiny((LATER_EDGE, 0, 1, 3.0))
    assert steps_of(stream) == [1]
    assert edges_after(stream) == [[], [(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]]


def test_a_removed_edge_and_a_removed_node() -> None:
    stream = tiny((REMOVED_EDGE, 1, 2, 4.0), (REMOVAL, 3, -1, 2.5))
    assert steps_of(stream) == [2, 1]
    assert edges_after(stream) == [[(0, 1)], [(0, 1), (1, 2)], [(0, 1), (4, 5)]]  # 4 finds 3 gone


def test_new_features() -> None:
    stream = tiny((UPDATE, 0, -1, 2.0), (UPDATE, 0, -1, 3.0), (UPDATE, 0, -1, 5.0))
    assert steps_of(stream) == [None, 1, 2]  # of two in one step the last counts
    store = GraphStore()
    found = []
    for step in stream:
        step.apply(store)
        found.append(np.asarray(store.features.take(np.array([0], np.int32))).tolist()[0])
    assert found == [[1.0, 0.0], [2.0, 3.0], [4.0, 5.0]]


def test_what_cannot_happen_does_not() -> None:
    stream = tiny(
        (LATER_EDGE, 0, 1, 3.0),  # comes in step 1
        (REMOVED_EDGE, 1, 0, 1.0),  # before the edge is there
        (REMOVED_EDGE, 4, 5, 0.0),  # happens as soon as its ends are there
        (REMOVED_EDGE, 4, 5, 5.0),  # a second time
        (REMOVAL, 2, -1, 2.0),
        (REMOVAL, 2, -1, 4.0),
        (UPDATE, 2, -1, 4.0),  # of a removed node
        (REMOVED_EDGE, 2, 3, 4.0),
        (UPDATE, 1, -1, 99.0),  # after the end
    )
    assert steps_of(stream) == [1, None, 2, None, 1, None, None, None, None]
    edges_after(stream)


def test_an_edge_that_the_graph_does_not_have_is_refused() -> None:
    with pytest.raises(errors.StreamError, match="edge 0-5, which the graph does not have"):
        tiny((LATER_EDGE, 0, 5, 3.0))


def test_changes_with_times_need_a_stream_by_time() -> None:
    with pytest.raises(errors.StreamError, match="need a stream by time"):
        class_stream(tiny((LATER_EDGE, 0, 1, 3.0)).graph)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": np.array([9])},
        {"first": np.array([77])},
        {"second": np.array([-1])},
        {"when": np.array([np.nan])},
        {"rows": np.zeros((1, 2), np.float32)},
        {"first": np.array([0, 1])},
    ],
)
def test_changes_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    graph = tiny((LATER_EDGE, 0, 1, 3.0)).graph
    assert graph.changes is not None
    with pytest.raises(errors.GraphError):
        replace(graph.changes, **wrong).check(graph.nodes, graph.width)


def test_labels_come_at_their_own_time() -> None:
    stream = tiny(label_time=[0.0, 3.0, 2.5, 9.0, np.inf, 5.0])
    found = []
    for index in range(len(stream)):
        labels = stream.labels_at(index)
        found.append([] if labels is None else labels.ids.tolist())
    assert found == [[0], [1, 2], [5]]


def test_the_label_of_a_removed_node_never_comes() -> None:
    stream = tiny((REMOVAL, 1, -1, 2.0), label_time=[0.0, 3.0, 2.5, 3.0, 4.0, 5.0])
    assert 1 not in stream.label_order and len(stream.label_order) == 5


def test_a_removed_node_is_not_scored() -> None:
    stream = class_stream(load_dataset(CHURN))
    assert stream.timeline is not None
    evaluator, store = Evaluator(stream), GraphStore()
    asked: set[int] = set()

    def predict(ids: IntArray, candidates: IntArray | None = None) -> IntArray:
        store.positions(ids)  # a removed node would raise
        asked.update(ids.tolist())
        return stream.graph.y[ids]

    for step in stream:
        step.apply(store)
        evaluator.after(step, predict)
    assert evaluator.result()["AP"] == 100 and asked
    assert store.removed == int((stream.timeline.removed_at < NEVER).sum()) > 0


@pytest.mark.parametrize("kind", ["class", "time", "blurry"])
def test_a_file_and_a_prefix_have_the_same_changes(kind: str, tmp_path: Path) -> None:
    stream = make_stream(load_dataset(CHURN), kind, straddle=kind == "time", classes_per_task=2)
    stream.save(tmp_path / "s.npz")
    again = Stream.load(tmp_path / "s.npz")
    assert again.content_hash == stream.content_hash and edges_after(again) == edges_after(stream)
    prefix = stream.prefix(2)
    prefix.save(tmp_path / "p.npz")
    assert Stream.load(tmp_path / "p.npz").content_hash == prefix.content_hash
    whole, part = GraphStore(), GraphStore()
    stream.replay(whole, len(prefix))
    prefix.replay(part, len(prefix))
    assert (len(whole), whole.edges, whole.removed) == (len(part), part.edges, part.removed)


def test_churn_leaves_the_graph_itself_as_it_is() -> None:
    still = load_dataset(CHURN.replace(",churn=0.2", ""))
    churning = load_dataset(CHURN)
    assert replace(churning, changes=None).content_hash == still.content_hash != churning.content_hash
    assert churning.changes is not None and set(churning.changes.kind.tolist()) == {0, 1, 2, 3}


def test_a_run_on_a_changing_graph_goes_on_bit_equal(tmp_path: Path) -> None:
    from ocgl.experiments.config import configure
    from ocgl.experiments.runner import make_experiment, stream_of

    config = configure(CHURN, "er", eval_every=3)
    whole = make_experiment(config, stream_of(config))
    part = make_experiment(config, stream_of(config))
    for _ in range(9):
        part.step()
    state = part.state()
    resumed = make_experiment(config, stream_of(config))
    resumed.load_state(state)
    assert timeless(whole.finish()) == timeless(resumed.finish())
    run = evaluate("er", CHURN, every=3, out=tmp_path / "run")
    assert any("the graph changes" in note for note in run.protocol["notes"])
    assert timeless(resume(tmp_path / "run")) == timeless(run)


def test_training_offline_knows_no_removed_node() -> None:
    assert evaluate("joint", CHURN, epochs=2).AP is not None


def test_the_expansion_of_a_changing_graph_is_refused() -> None:
    with pytest.raises(errors.StreamError, match="graphs that only grow"):
        expansion(class_stream(load_dataset(CHURN)))


def test_a_dataset_file_can_hold_changes(tmp_path: Path) -> None:
    from ocgl.datasets.frames import save_npz

    graph = load_dataset(CHURN)
    save_npz(graph, tmp_path / "g.npz")
    again = load_dataset(tmp_path / "g.npz")
    assert again.content_hash == graph.content_hash and again.notes == graph.notes


def test_a_strategy_that_keeps_stale_sums_is_caught() -> None:
    from ocgl.strategies import Ridge
    from ocgl.testing import ContractError, small_graph
    from ocgl.testing.strategies import follows_a_changing_graph

    class Stale(Ridge):
        """Answers from the features that it has first seen of a node."""

        def encode(self, neighborhood):  # type: ignore[no-untyped-def]
            rows = super().encode(neighborhood)
            kept = self.__dict__.setdefault("kept", {})
            for place, node in enumerate(neighborhood.nodes[: neighborhood.seeds].tolist()):
                rows[place] = kept.setdefault(node, rows[place].copy())
            return rows

    with pytest.raises(ContractError):
        follows_a_changing_graph(lambda: Stale(), small_graph())
    follows_a_changing_graph(lambda: Ridge(revisit=3, buffer_size=20), small_graph())


def test_a_learner_and_a_store_take_the_same_steps() -> None:
    stream = class_stream(load_dataset(CHURN))
    learner, store = Learner("slda"), GraphStore()
    stream.replay(learner, len(stream))
    for step in stream:
        step.apply(store)
    assert np.array_equal(learner.store.ids, store.ids) and learner.store.edges == store.edges


def test_every_fraction_has_its_step() -> None:
    """The whole of what is left is the last step; what arrives in the last step changes there."""
    edges = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    kind, first = np.full(4, UPDATE), np.array([0, 0, 5, 5])
    changes = Changes(
        kind, first, np.full(4, -1), np.array([0.0, 1.0, 0.3, 1.0]), "fraction", np.ones((4, 2), np.float32)
    )
    graph = Graph.from_edges("path", edges, np.array([0, 1] * 3), np.eye(6)[:, :2], np.arange(6.0), changes=changes)
    stream = make_stream(
        graph, "time", time_tasks=1, batch_size=2, split=(1.0, 0.0, 0.0), straddle=True, batching="all"
    )
    assert steps_of(stream) == [0, 2, None, 2]  # of two in one step the last counts


@pytest.mark.parametrize(
    "wrong",
    [
        {"change_kind": np.array([[1]])},
        {"change_kind": np.array([1.0])},
        {"change_unit": np.array([])},
        {"change_x": np.full((1, 2), np.nan)},
        {"change_kind": None},
    ],
)
def test_files_with_wrong_changes_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "edge_index": np.array([[0], [1]]), "y": np.array([0, 1]), "x": np.eye(2), "change_kind": np.array([1]),
        "change_first": np.array([0]), "change_second": np.array([-1]), "change_when": np.array([0.5]),
        "change_unit": np.array([0]), "change_x": np.ones((1, 2)),
    }  # fmt: skip
    np.savez(tmp_path / "right.npz", **columns)
    assert load_dataset(tmp_path / "right.npz").changes is not None
    np.savez(tmp_path / "g.npz", **{k: v for k, v in (columns | wrong).items() if v is not None})
    with pytest.raises(errors.DatasetCorruptError):
        load_dataset(tmp_path / "g.npz")


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_every_strategy_runs_on_a_churning_block_model(name: str) -> None:
    options: dict[str, Any] = {"epochs": 1} if name == "joint" else {}
    result = evaluate(name, CHURN, every=10, **options)
    assert result.AP is not None and result.store_bytes > 0
