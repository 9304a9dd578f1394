from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocgl.datasets import load_dataset
from ocgl.errors import BeyondPrefixError, ConfigError, StreamError, UnknownNameError
from ocgl.graph import Graph
from ocgl.streams import NONE, TEST, TRAIN, VALIDATION, Stream, class_stream, make_stream
from tests.conftest import random_graph

KINDS = ["class", "time", "domain", "task", "blurry", "iid"]


def arrivals(stream: Stream) -> list[int]:
    return [int(v) for step in stream for v in step.ids]


def taught(stream: Stream) -> list[int]:
    return [int(v) for step in stream if (labels := step.labels) is not None for v in labels.ids]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batching", ["train", "all"])
def test_every_node_arrives_once_and_every_training_node_is_taught_once(graph: Graph, kind: str, batching: str) -> None:
    stream = make_stream(graph, kind, batch_size=4, batching=batching)
    assert len(arrivals(stream)) == len(set(arrivals(stream))) == len(stream.order)
    assert sorted(taught(stream)) == sorted(stream.held_out(TRAIN).tolist())
    neighborhood: set[int] = set()
    for step in stream:
        neighborhood |= set(step.ids.tolist())
        if step.labels is not None:
            assert set(step.labels.ids.tolist()) <= set(step.ids.tolist())  # labels come with their node
            assert (step.labels.labels >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_full_but_for_the_last_of_a_task_and_never_mix_tasks(graph: Graph, kind: str) -> None:
    stream = make_stream(graph, kind, batch_size=4)
    for step in stream:
        count = 0 if step.labels is None else len(step.labels.ids)
        last = step.index == len(stream) - 1 or stream.step_task[step.index + 1] != step.task
        assert count == 4 or (last and count <= 4)
    assert (np.diff(stream.step_task) >= 0).all()
    assert stream.ends.tolist() == [int(np.nonzero(stream.step_task == j)[0][-1]) for j in range(stream.tasks)]


def test_classes_of_a_batch_are_its_task_s(graph: Graph) -> None:
    stream = class_stream(graph, batch_size=4)
    for step in stream:
        labels = set(graph.y[step.ids].tolist()) - {-1}
        assert labels <= {2 * step.task, 2 * step.task + 1}


@pytest.mark.parametrize("kind", KINDS)
def test_visible_neighbours_are_those_that_have_arrived(graph: Graph, kind: str) -> None:
    from ocgl.graph import GraphStore

    stream, store = make_stream(graph, kind, batch_size=7), GraphStore()
    for step in stream:
        store.arrive(step.arrival)
        for v in store.ids.tolist():
            neighbors = set(graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist())
            assert set(store.neighbors(v).tolist()) == neighbors & set(store.ids.tolist())


@given(st.integers(0, 9999), st.integers(1, 4), st.integers(1, 30))
def test_split_is_stratified_inside_each_cell(seed: int, classes: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), np.arange(classes), rng.integers(classes, size=size)])
    graph = Graph.from_edges("g", np.empty((2, 0), int), y)
    stream = class_stream(graph, classes_per_task=1, stream_seed=seed)
    for label in range(classes):
        count = int((y == label).sum())
        roles = stream.role[y == label]
        held = round(0.2 * count) if count > 2 else 0
        assert (roles == VALIDATION).sum() == held
        assert (roles == TEST).sum() == (held if count > 2 else 1)
        assert (roles == TRAIN).sum() == count - (roles != TRAIN).sum()


def test_unlabelled_nodes_arrive_and_have_no_role(graph: Graph) -> None:
    stream = class_stream(graph)
    unlabelled = np.nonzero(graph.y < 0)[0]
    assert set(unlabelled.tolist()) <= set(arrivals(stream))
    assert (stream.role[unlabelled] == NONE).all() and (stream.scored[unlabelled] == -1).all()


def test_classes_with_one_member_and_odd_ones_are_dropped() -> None:
    graph = Graph.from_edges("g", np.array([[0], [6]]), np.array([0, 0, 1, 1, 2, 2, 3]))
    stream = class_stream(graph)
    assert stream.tasks == 1 and sorted(arrivals(stream)) == [0, 1, 2, 3]
    assert stream.base == {"all": 4, "labelled": 4, "train": int((stream.role == TRAIN).sum())}


def test_class_orders(graph: Graph) -> None:
    given_order = class_stream(graph, class_order=(5, 4, 3, 2, 1, 0), classes_per_task=3)
    assert given_order.task_classes.tolist() == [[5, 4, 3], [2, 1, 0]]
    drawn = [class_stream(graph, class_order="random", stream_seed=s).task_classes.ravel().tolist() for s in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and sorted(drawn[0]) == list(range(6))
    with pytest.raises(StreamError):
        class_stream(graph, class_order=(0, 9))


def test_time_streams_follow_time_in_equal_parts(graph: Graph) -> None:
    assert graph.time is not None
    stream = make_stream(graph, "time", time_tasks=4)
    assert (np.diff(graph.time[stream.order]) >= 0).all()
    assert np.bincount(stream.scored[stream.scored >= 0], minlength=4).min() > 0
    sizes = [sum(len(step.ids) for step in stream if step.task == j) for j in range(4)]
    assert sizes == [30, 30, 30, 30]
    spans = make_stream(graph, "time", time_tasks=4, ti_bins="equal_timestamps")
    assert spans.tasks == 4
    first = graph.time[[v for step in spans if step.task == 0 for v in step.ids]]
    assert first.max() < 19 / 4 + 1e-9


def test_domain_streams_need_and_follow_the_domain(graph: Graph) -> None:
    assert graph.domain is not None
    stream = make_stream(graph, "domain")
    assert (np.diff(graph.domain[stream.order]) >= 0).all() and stream.tasks == 3
    without = Graph.from_edges("g", np.array([[0], [1]]), np.array([0, 1]))
    with pytest.raises(StreamError, match="domain"):
        make_stream(without, "domain")


def test_task_streams_tell_the_candidates(graph: Graph) -> None:
    for step in make_stream(graph, "task"):
        if step.labels is not None:
            assert step.labels.candidates is not None
            assert (step.labels.candidates == step.labels.labels[:, None]).any(1).all()
    assert class_stream(graph).candidates(np.array([0])) is None


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_blurry_streams_move_the_given_share_of_each_class(share: float) -> None:
    graph = random_graph(3, nodes=600)
    stream = make_stream(graph, "blurry", blurry_share=share)
    arrived_with = np.full(graph.nodes, -1)
    for step in stream:
        arrived_with[step.ids] = step.task
    for label in range(6):
        members = graph.y == label
        assert (arrived_with[members] != label // 2).sum() == round(share * members.sum())


def test_iid_streams_open_all_tasks_at_once(graph: Graph) -> None:
    stream = make_stream(graph, "iid")
    assert stream.starts.tolist() == [0, 0, 0]
    assert len({int(t) for t in stream.scored[stream.step(0).ids]} - {-1}) > 1


def test_straddling_batches_cross_boundaries(graph: Graph) -> None:
    stream = class_stream(graph, batch_size=7, straddle=True)
    counts = [len(step.labels.ids) for step in stream if step.labels is not None]
    assert set(counts[:-1]) == {7}
    position = {v: step.index for step in stream for v in step.ids.tolist()}
    last = [max(position[v] for v in np.nonzero(stream.scored == j)[0].tolist()) for j in range(stream.tasks)]
    assert (stream.ends >= last).all()


def test_labels_come_late_in_order_and_never_too_many_at_once(graph: Graph) -> None:
    plain = class_stream(graph, batch_size=4)
    for delay in (3, (0, 6)):
        late = class_stream(graph, batch_size=4, label_delay=delay)
        arrived = {v: step.index for step in plain for v in step.ids.tolist()}
        came = {v: s.index for s in late if s.labels is not None for v in s.labels.ids.tolist()}
        least = delay if isinstance(delay, int) else delay[0]
        assert all(came[v] >= arrived[v] + least for v in came)
        assert max(len(s.labels.ids) for s in late if s.labels is not None) <= 4
        assert len(came) < len(taught(plain))  # what is due after the end never comes
        assert arrivals(late) == arrivals(plain)


def test_missing_labels_never_come(graph: Graph) -> None:
    kept = taught(class_stream(graph, missing_labels=0.5))
    assert 0 < len(kept) < len(taught(class_stream(graph))) and set(kept) <= set(taught(class_stream(graph)))
    assert taught(class_stream(graph, missing_labels=1.0)) == []


def test_the_stream_seed_fixes_everything(graph: Graph) -> None:
    first, again, other = (class_stream(graph, stream_seed=s) for s in (4, 4, 5))
    assert first.content_hash == again.content_hash != other.content_hash
    assert not np.array_equal(first.order, other.order) and not np.array_equal(first.role, other.role)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_gives_the_stream_back_bit_equal(graph: Graph, kind: str, tmp_path: Path) -> None:
    stream = make_stream(graph, kind, label_delay=(0, 2))
    stream.save(tmp_path / "s.npz")
    back = Stream.load(tmp_path / "s.npz")
    assert back.content_hash == stream.content_hash
    for ours, theirs in zip(stream, back, strict=True):
        assert np.array_equal(ours.arrival.rows, theirs.arrival.rows)
        assert np.array_equal(ours.arrival.edges, theirs.arrival.edges)


def test_a_damaged_file_is_refused(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    class_stream(graph).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(StreamError):
        Stream.load(path)
    path.write_bytes(data)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["role"][0] = (arrays["role"][0] + 1) % 3
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(StreamError, match="hash"):
        Stream.load(tmp_path / "t.npz")


def test_the_hash_covers_features_edges_labels_and_split(graph: Graph) -> None:
    from dataclasses import replace

    stream = class_stream(graph)
    assert graph.x is not None
    changed = graph.x.copy()
    changed[0, 0] += 1
    others = [
        replace(stream, graph=replace(graph, x=changed)),
        replace(stream, graph=replace(graph, y=np.roll(graph.y, 1))),
        replace(stream, role=np.roll(stream.role, 1)),
    ]
    assert len({stream.content_hash, *(s.content_hash for s in others)}) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_prefix_is_the_beginning_and_holds_nothing_else(graph: Graph, kind: str) -> None:
    stream = make_stream(graph, kind, batch_size=4)
    prefix = stream.prefix(tasks=2)
    assert prefix.tasks == 2 and prefix.base == stream.base and prefix.is_prefix
    assert len(prefix.order) == prefix.graph.nodes == stream.cuts[stream.ends[1]]
    for ours, theirs in zip(prefix, stream, strict=False):
        assert ours.task == theirs.task
        assert np.array_equal(ours.arrival.rows, theirs.arrival.rows)
        assert ours.arrival.edges.shape == theirs.arrival.edges.shape
    with pytest.raises(BeyondPrefixError):
        prefix.step(len(prefix))
    with pytest.raises(BeyondPrefixError):
        prefix.prefix(tasks=3)
    with pytest.raises(StreamError):
        stream.prefix(tasks=99)


def test_candidates_in_a_prefix_are_those_of_the_whole_stream(graph: Graph) -> None:
    stream = make_stream(graph, "task", batch_size=7, straddle=True)
    prefix = stream.prefix(tasks=1)
    for ours, theirs in zip(prefix, stream, strict=False):
        if ours.labels is not None and theirs.labels is not None:
            assert np.array_equal(ours.labels.candidates, theirs.labels.candidates)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"batchsize": 3}, UnknownNameError),
        ({"batch_size": 0}, ConfigError),
        ({"split": (0.5, 0.2, 0.2)}, ConfigError),
        ({"label_delay": (5, 2)}, ConfigError),
        ({"kind": "klass"}, ConfigError),
        ({"classes_per_task": 9}, StreamError),
    ],
)
def test_bad_options_have_names(graph: Graph, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        make_stream(graph, **options)


def test_a_graph_without_labels_or_features(graph: Graph) -> None:
    from dataclasses import replace

    for kind in KINDS:
        with pytest.raises(StreamError, match="no labelled node"):
            make_stream(replace(graph, y=np.full(graph.nodes, -1)), kind)
    bare = class_stream(replace(graph, x=None))
    with pytest.raises(StreamError, match="features"):
        _ = bare.step(0).arrival


def test_only_a_graph_is_streamed() -> None:
    with pytest.raises(StreamError, match=r"not a dict; from_pyg\(data\)"):
        class_stream({"edge_index": [], "y": []})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["class", "time", "task", "blurry", "iid"])
@pytest.mark.parametrize("step", [10**9, 10**18])
def test_labels_may_be_any_numbers(graph: Graph, kind: str, step: int) -> None:
    from dataclasses import replace

    small = make_stream(graph, kind)
    large = make_stream(replace(graph, y=np.where(graph.y < 0, -1, graph.y * step)), kind)
    for name in ("order", "cuts", "label_order", "role", "scored"):
        np.testing.assert_array_equal(getattr(small, name), getattr(large, name))


def test_time_tasks_must_be_few_enough_to_be_scored(graph: Graph) -> None:
    assert make_stream(graph, "time", time_tasks=5).tasks == 5
    for bins in ("equal_nodes", "equal_timestamps"):
        with pytest.raises(StreamError, match="120 nodes, too few for time_tasks=500; set fewer"):
            make_stream(graph, "time", time_tasks=500, ti_bins=bins)
    with pytest.raises(StreamError, match="of 60 tasks without a training or a test node; set fewer"):
        make_stream(graph, "time", time_tasks=60)


def test_spans_of_time_may_be_thin_but_not_most_of_them() -> None:
    y = np.zeros(32, np.int64)
    thin = Graph.from_edges("g", np.array([[0], [1]]), y, time=np.array([0.0, 10.0] + [20.0] * 15 + [30.0] * 15))
    assert make_stream(thin, "time", time_tasks=4, ti_bins="equal_timestamps").tasks == 4
    thinner = Graph.from_edges("g", np.array([[0], [1]]), y[:30], time=np.maximum(np.arange(30.0), 26))
    with pytest.raises(StreamError, match="3 of 4 tasks without"):
        make_stream(thinner, "time", time_tasks=4, ti_bins="equal_timestamps")


def test_without_a_test_share_no_test_nodes_are_needed(graph: Graph) -> None:
    stream = make_stream(graph, "time", time_tasks=5, split=(0.8, 0.2, 0.0))
    assert stream.tasks == 5 and len(stream.held_out(TEST)) == 0


@pytest.mark.parametrize(
    ("name", "kind", "tasks"),
    [
        ("corafull", "class", 35),
        ("arxiv", "class", 20),
        ("amazon-computer", "class", 5),
        ("arxiv", "time", 10),
        ("elliptic", "time", 10),
    ],
)
def test_task_counts_on_the_real_labels(data_root: Path, name: str, kind: str, tasks: int) -> None:
    stream = make_stream(load_dataset(name, data_root, structure_only=True), kind, batch_size=50)
    assert stream.tasks == tasks
    assert all((stream.scored[stream.held_out(role)] == j).any() for role in (VALIDATION, TEST) for j in range(tasks))


def test_years_without_a_test_node_stay_allowed(data_root: Path) -> None:
    graph = load_dataset("arxiv", data_root, structure_only=True)
    assert make_stream(graph, "time", ti_bins="equal_timestamps", batch_size=50).tasks == 8
