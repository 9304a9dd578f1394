"""Graphs from tables: the user's ids, classes and times, and features that know nothing of the future."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

from ocgl import errors, evaluate, from_networkx, from_pandas, from_polars, load_dataset, make_stream
from ocgl.cli.common import app
from ocgl.datasets.encoding import FeatureEncoder
from ocgl.graph.changes import LATER_EDGE, REMOVAL

OPTIONS: dict[str, Any] = {"time": "time", "label_time": "known", "edge_time": "when", "removal_time": "closed"}


def tables(count: int = 200) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    days = np.sort(rng.integers(0, 60, count))
    time = pd.Timestamp("2026-01-01") + pd.to_timedelta(days, unit="D") + pd.to_timedelta(np.arange(count), unit="s")
    fraud = rng.random(count) < 0.4
    nodes = pd.DataFrame(
        {
            "id": [f"tx-{i}" for i in range(count)],
            "amount": rng.normal(size=count) + 3 * fraud,
            "country": rng.choice(["it", "ch", "fr"], count),
            "night": rng.random(count) < 0.5,
            "time": time,
            "label": np.where(fraud, "fraud", "fine"),
            "known": time + pd.Timedelta(days=14),
            "closed": [time[i] + pd.Timedelta(days=20) if i % 10 == 0 else pd.NaT for i in range(count)],
        }
    )
    later = rng.integers(1, count, 500)
    earlier = (rng.random(500) * later).astype(int)
    delay = pd.to_timedelta(rng.integers(0, 3, 500), unit="D")
    ids = nodes["id"].to_numpy()
    return nodes, pd.DataFrame({"source": ids[later], "target": ids[earlier], "when": time[later] + delay})


def test_a_table_becomes_a_graph() -> None:
    nodes, edges = tables()
    graph = from_pandas(nodes, edges, **OPTIONS)
    assert graph.ids is not None and graph.ids.tolist() == nodes["id"].tolist()
    assert graph.class_names == ("fine", "fraud") and graph.y.tolist() == (nodes["label"] == "fraud").tolist()
    assert graph.width == 1 + 4 + 1 and graph.label_time is not None and graph.time is not None
    assert (graph.label_time - graph.time == 14 * 86400).all()
    assert graph.changes is not None
    assert (graph.changes.kind == REMOVAL).sum() == 20 and (graph.changes.kind == LATER_EDGE).sum() > 200
    (note,) = graph.notes
    assert note.startswith("features scaled: amount, night; one feature per category: country (3 categories)")
    assert note.endswith("fitted on the first 40 of 200 nodes by time")
    stream = make_stream(graph, "time", time_tasks=4, straddle=True)
    assert len(stream.label_order) < len(stream.held_out(0))  # those of the last two weeks never come
    result = evaluate("ridge", stream, every=5)
    assert result.AP is not None and result.AP > 60
    assert "label_time" in result.protocol["labels"]


def test_nothing_of_the_future_enters_the_features() -> None:
    nodes, edges = tables()
    other = nodes.copy()
    other.loc[100:, "amount"] *= 1000
    other.loc[100:, "country"] = "atlantis"
    first, second = from_pandas(nodes, edges, **OPTIONS).x, from_pandas(other, edges, **OPTIONS).x
    assert first is not None and second is not None
    assert np.array_equal(first[:100], second[:100]) and not np.array_equal(first, second)
    shuffled = nodes.sample(frac=1, random_state=0)
    again = from_pandas(shuffled, edges, **OPTIONS).x
    assert again is not None
    assert np.allclose(again[np.argsort(shuffled.index)], first, atol=1e-6)  # by time, not by row


def test_pandas_and_polars_give_the_same_graph() -> None:
    nodes, edges = tables()
    for frame in (nodes, edges):
        for column in ("time", "known", "closed", "when"):
            if column in frame:
                frame[column] = frame[column].astype("datetime64[us]")
    other = [pl.DataFrame({c: [None if v is pd.NaT else v for v in f[c].tolist()] for c in f}) for f in (nodes, edges)]
    assert from_polars(*other, **OPTIONS).content_hash == from_pandas(nodes, edges, **OPTIONS).content_hash


def test_files_become_the_same_graph(tmp_path: Path) -> None:
    nodes, edges = tables()
    nodes.to_csv(tmp_path / "n.csv", index=False)
    edges.to_csv(tmp_path / "e.csv", index=False)
    named = ["--time", "time", "--label-time", "known", "--edge-time", "when", "--removal-time", "closed"]
    files = [str(tmp_path / name) for name in ("n.csv", "e.csv", "g.npz")]
    ended = CliRunner().invoke(app, ["convert", *files, *named])
    assert ended.exit_code == 0, ended.output
    assert "200 nodes" in ended.output and "fitted on the first 40" in ended.output.replace("\n", " ")
    graph, direct = load_dataset(tmp_path / "g.npz"), from_pandas(nodes, edges, **OPTIONS)
    assert graph.ids is not None and graph.ids.tolist() == nodes["id"].tolist()
    assert graph.class_names == direct.class_names and graph.notes == direct.notes
    assert graph.x is not None and direct.x is not None
    assert np.allclose(graph.x, direct.x, atol=1e-5) and np.array_equal(graph.indices, direct.indices)


def test_networkx() -> None:
    nodes, edges = tables()
    network = nx.MultiDiGraph()
    for row in nodes.to_dict("records"):
        network.add_node(row.pop("id"), **row)
    for row in edges.to_dict("records"):
        network.add_edge(row["source"], row["target"], when=row["when"])
    graph, other = from_networkx(network, **OPTIONS), from_pandas(nodes, edges, **OPTIONS)
    assert np.array_equal(graph.indices, other.indices) and np.array_equal(graph.y, other.y)
    assert graph.changes is not None and other.changes is not None and len(graph.changes) == len(other.changes)
    first, second = graph.x, other.x
    assert first is not None and second is not None
    assert np.array_equal(np.sort(first, axis=1), np.sort(second, axis=1))  # attributes are taken in order of name
    vectors = nx.Graph([(0, 1)])
    for node in vectors:
        vectors.nodes[node].update(x=[1.0, node], label=node)
    graph = from_networkx(vectors, features="x")
    assert graph.x is not None and graph.x.tolist() == [[1.0, 0.0], [1.0, 1.0]]
    with pytest.raises(errors.DatasetError, match="all text or all integers"):
        from_networkx(nx.Graph([("a", 1)]), label=None)


def test_missing_values_and_integer_labels() -> None:
    nodes = pd.DataFrame({"id": [5, 7, 9], "a": [1.0, np.nan, 3.0], "c": ["x", None, "y"], "label": [1.0, np.nan, 0.0]})
    graph = from_pandas(nodes, pd.DataFrame({"source": [5, 9, 9], "target": [9, 5, 9]}), fit=1.0)
    assert graph.y.tolist() == [1, -1, 0] and graph.class_names is None and graph.edges == 1
    assert graph.x is not None and graph.x[1].tolist() == [0.0, 0.0, 0.0, 1.0]


WRONG: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "no such column": (errors.DatasetError, {"time": "when?"}),
    "fit of nothing": (errors.DatasetError, {"fit": 0}),
    "fit of more than all": (errors.DatasetError, {"fit": 201}),
    "times that are words": (errors.DatasetError, {"time": "country"}),
    "times of edges alone": (errors.DatasetError, {"edge_time": "when"}),
    "fractional labels": (errors.DatasetError, {"label": "amount"}),
    "ids that repeat": (errors.DuplicateNodeError, {"id": "country"}),
    "unknown ends": (errors.UnknownNodeError, {"id": "number", "source": "n", "target": "n"}),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_tables_are_refused_by_name(case: str) -> None:
    nodes, edges = tables()
    nodes["number"], edges["n"] = range(200), 777
    error, options = WRONG[case]
    with pytest.raises(error):
        from_pandas(nodes, edges, **options)


def test_convert_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,a\n1,2\n")
    (tmp_path / "e.csv").write_text("source,target\n1,1\n")
    for arguments, text in (
        (["n.csv", "e.csv", "g.npz"], "no column 'label'"),
        (["n.csv", "missing.csv", "g.npz"], "there is no file"),
        (["n.csv", "e.csv", "g.txt"], ".npz file"),
    ):
        ended = CliRunner().invoke(app, ["convert", *[str(tmp_path / name) for name in arguments]])
        assert ended.exit_code != 0 and text in str(ended.exception)
        assert not (tmp_path / arguments[2]).exists()


def test_rare_categories_share_a_feature() -> None:
    table = {"c": np.array([f"c{i % 60}" for i in range(600)] + ["c7"] * 10)}
    encoder = FeatureEncoder.fit(table)
    assert encoder.width == 51 and encoder.transform(table).sum(1).tolist() == [1.0] * 610


def one(**columns: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of three nodes with further columns, and one edge."""
    nodes = pd.DataFrame({"id": ["a", "b", "c"], "v": [1.0, 2.0, 3.0], "label": [0, 1, 0]} | columns)
    return nodes, pd.DataFrame({"source": ["b"], "target": ["a"]})


def test_far_dates_stay_far() -> None:
    """In nanoseconds the year 9999 would be the year 1816, and every label would be known before its node."""
    nodes, edges = one(
        time=np.array(["2020-01-01"] * 3, "datetime64[s]"), known=np.array(["9999-12-31"] * 3, "datetime64[s]")
    )
    graph = from_pandas(nodes, edges, time="time", label_time="known", fit=1.0)
    assert graph.time is not None and graph.label_time is not None
    assert (graph.label_time - graph.time > 2.5e11).all()


def test_times_in_every_form_are_the_same_times() -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    seconds = [86400.0, 2 * 86400.0, 3 * 86400.0]
    forms: list[Any] = [
        seconds,
        [str(int(second)) for second in seconds],
        [Decimal(int(second)) for second in seconds],
        ["1970-01-02", "1970-01-03", "1970-01-04"],
        [date(1970, 1, day) for day in (2, 3, 4)],
        [datetime(1970, 1, day, tzinfo=UTC) for day in (2, 3, 4)],
        pd.to_datetime(["1970-01-02", "1970-01-03", "1970-01-04"]).tz_localize("UTC"),
        np.array(["1970-01-02", "1970-01-03", "1970-01-04"], "datetime64[D]").astype("datetime64[ms]"),
    ]
    for form in forms:
        graph = from_pandas(*one(time=form), time="time", fit=1.0)
        assert graph.time is not None and graph.time.tolist() == seconds, form


def test_missing_values_of_every_kind() -> None:
    columns = {
        "s": pd.array(["x", None, "y"], dtype="string"),
        "b": pd.array([True, None, False], dtype="boolean"),
        "i": pd.array([1, None, 3], dtype="Int64"),
        "c": pd.Categorical(["x", None, "y"]),
        "o": np.array(["x", pd.NA, "y"], object),
    }
    graph = from_pandas(*one(**columns), fit=1.0)
    assert graph.width == 1 + 3 + 1 + 1 + 3 + 3 and graph.x is not None and np.isfinite(graph.x).all()


REFUSED: dict[str, Any] = {
    "ragged vectors": lambda: from_pandas(*one(w=[[1.0], [1.0, 2.0], [1.0]]), features="w"),
    "vectors without features=": lambda: from_pandas(*one(w=[[1.0], [2.0], [3.0]])),
    "complex numbers": lambda: from_pandas(*one(w=[1j, 2j, 3j])),
    "fit that is no number": lambda: from_pandas(*one(), fit=float("nan")),
    "fit as text": lambda: from_pandas(*one(), fit="a"),  # type: ignore[arg-type]
    "the label as a feature": lambda: from_pandas(*one(), features=["v", "label"], fit=1.0),
    "label_time without time": lambda: from_pandas(*one(known=[1, 2, 3]), label_time="known", fit=1.0),
    "a missing id": lambda: from_pandas(pd.DataFrame({"id": ["a", None], "label": [0, 1]}), one()[1]),
    "a negative id": lambda: from_pandas(*one(n=[-1, 2, 3]), id="n"),
    "more sources than targets": lambda: from_pandas(one()[0], {"source": ["a", "b"], "target": ["c"]}),
    "a lazy frame": lambda: from_polars(pl.LazyFrame({"id": ["a"]}), one()[1]),
    "a list": lambda: from_pandas([1], one()[1]),
    "no graph": lambda: from_networkx([1]),
    "a label that no node has": lambda: from_networkx(nx.Graph([(0, 1)]), label="labl"),
    "nothing to encode": lambda: FeatureEncoder.fit({}, []),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(case: str) -> None:
    with pytest.raises(errors.OcglError):
        REFUSED[case]()


def test_networkx_nodes_of_numpy_and_an_attribute_called_id() -> None:
    network = nx.Graph([(np.int64(0), np.int64(1))])
    for node in network:
        network.nodes[node].update(id=7.0 + node, label=int(node))
    graph = from_networkx(network, fit=1.0)
    assert graph.ids is not None and graph.ids.tolist() == [0, 1] and graph.width == 1


def test_ids_in_a_csv_file_are_text(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,a,label\n007,1,0\n7,2,1\n")
    (tmp_path / "e.csv").write_text("source,target\n7,007\n")
    files = [str(tmp_path / name) for name in ("n.csv", "e.csv", "g.npz")]
    ended = CliRunner().invoke(app, ["convert", *files, "--fit", "1"])
    assert ended.exit_code == 0, ended.output
    ids = load_dataset(tmp_path / "g.npz").ids
    assert ids is not None and ids.tolist() == ["007", "7"]
