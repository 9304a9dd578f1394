import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ocgl.checked import sealed
from ocgl.cli.common import app
from ocgl.code import code_name
from ocgl.errors import ConfigError
from ocgl.experiments import configure
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.expansion import Expansion, expansions_of
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import same_code
from ocgl.experiments.sweep import Sweep, run_sweep
from ocgl.reporting.collect import Bench, Key, collect
from ocgl.reporting.export import write_export
from ocgl.reporting.methods import COLORED, color, title_of
from ocgl.reporting.page import rank_over, ranking, write_report
from ocgl.reporting.statistics import against_best, interval, mean_ranks
from ocgl.reporting.tables import Cell, as_csv, latex, markdown, rows_of
from ocgl.strategies import names
from tests.browser import open_page
from tests.helpers import options, scored
from tests.reporting.conftest import QUICK, run_all_sweeps

FAST = ("batch_size=120", "fanout=3", "hidden=16")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results") / "digits"
    few = ("batch_size=120", "fanout=3")
    sweeps = [
        Sweep("digits", ("linear",), out, seeds=2, buffers=("1%", "4%"), overrides=options(*few), **QUICK),
        Sweep("digits", ("er", "bare", "lwf"), out, seeds=2, overrides=options(*FAST), **QUICK),
        Sweep("digits", ("a-gem",), out, seeds=1, overrides=options(*FAST), **QUICK),
        Sweep("digits", ("joint",), out, seeds=2, overrides=options(*FAST, "epochs=3"), **QUICK),
    ]
    with LocalExecutor(1) as pool:
        run_all_sweeps(sweeps, pool)
    return out


def test_benches_are_put_in_order(bench: Bench, folder: Path) -> None:
    assert str(bench.key) == "digits, class stream, profile paper"
    assert bench.entries[0].strategy == "joint" and len(bench.entries) == 6
    scores = [entry.mean("AAP") for entry in bench.entries[1:]]
    assert scores == sorted(scores, reverse=True)
    assert [(e.strategy, e.buffer) for e in bench.others] == [("linear", "1%")]
    assert [e.buffer for e in bench.sizes()["linear"]] == ["1%", "4%"] and set(bench.sizes()) == {"linear"}
    assert bench.tuned == 2 and len(bench.boundaries) == 4
    assert [b.key for b in collect([folder, folder])] == [bench.key]  # the same twice is the same
    assert all(
        len(e.runs) == len(f.runs) for e, f in zip(collect([folder, folder])[0].entries, bench.entries, strict=True)
    )


def test_runs_that_differ_in_more_than_the_seed_are_not_averaged(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "mixed")
    more = Sweep(
        "digits", ("er",), tmp_path / "mixed", seeds=1, overrides=options("batch_size=150", *FAST[1:]), grids="coarse"
    )
    with LocalExecutor(1) as pool:
        assert not run_sweep(more, pool).failed
    (bench,) = collect([tmp_path / "mixed"])
    row = next(row for row in rows_of(bench) if row.entry.strategy == "er")
    assert {run.config.stream.batch_size for run in row.entry.runs} == {120}
    assert row.note == "1 runs with other settings or code left out"


def test_runs_of_other_code_are_not_averaged_with_the_present_ones(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "mixed")
    for path in sorted(folder.glob("*/result.json")):
        old = json.loads(path.read_text())
        if old["kind"] == "run" and old["strategy"] in ("er", "lwf"):
            for copy in range(3):  # old ones are more in number
                name = f"{copy}{old['id'][1:]}0"
                (tmp_path / "mixed" / name).mkdir()
                seed = old["seed"] + 10 * copy
                matrix = [*old["matrix"][:-1], [1.0] * 5]
                changed = old | {"id": name, "code": "old", "AP": 1.0, "AF": None, "AF_T": None, "matrix": matrix}
                changed |= {"seed": seed, "config": old["config"] | {"seed": seed}}
                (tmp_path / "mixed" / name / "result.json").write_text(json.dumps(sealed(changed)))
                shutil.copy(path.parent / "anytime.parquet", tmp_path / "mixed" / name)
    (bench,) = collect([tmp_path / "mixed"])
    runs = list(ResultStore(tmp_path / "mixed").runs)
    current = {name: code_name(name) for name in names()}
    for entry in bench.entries:
        assert 1.0 not in [run.AP for run in entry.runs]
        assert entry.left_out == (6 if entry.strategy in ("er", "lwf") else 0)
    assert len(runs) == len(same_code(runs, current)) + 12
    only_old = same_code([run for run in runs if run.code == "old"], current)
    assert len(only_old) == 12  # nothing newer: they are shown


def test_marks_leave_out_bare_bounds_and_single_seeds(bench: Bench) -> None:
    places = {row.entry.strategy: row.cells["AAP"].place for row in rows_of(bench)}
    assert places["bare"] == places["joint"] == places["a-gem"] == 0
    assert sorted(places[name] for name in ("linear", "er", "lwf")) == [1, 2, 3]
    assert {place.entry.strategy for place in ranking(bench)} == {"linear", "er", "lwf"}
    assert next(row.note for row in rows_of(bench) if row.entry.strategy == "a-gem") == "one seed"


def test_tables_say_the_same_in_every_form(bench: Bench) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(bench))))
    best = next(row for row in rows if row["metric"] == "AAP" and row["place"] == "1")
    text = f"{float(best['mean']):.2f}"
    values = [scored(run, "AAP") for e in bench.entries if e.strategy == best["method"] for run in e.runs]
    assert float(best["mean"]) == pytest.approx(np.mean(values))
    assert float(best["std_population"]) == pytest.approx(np.std(values))
    assert f"**{text} ±" in markdown(bench) and rf"\textbf{{{text}}}" in latex(bench)
    assert latex(bench).count(r"\\") == 1 + len(bench.entries)


def test_differences_from_the_paper_are_marked_when_they_are_large() -> None:
    near, far = Cell(84.0, 0.1, 1, (86.5, 0.2)), Cell(80.0, 0.1, 1, (86.5, 0.2))
    assert (near.gap, far.gap) == ("-2.50", "-6.50 (!)")
    assert not Cell(80.0, 0.1, 1, (86.5, 3.5)).far and Cell(None, 0.0, 0, (1.0, 1.0)).gap == "-"


def test_the_first_is_compared_with_all_others_over_seeds() -> None:
    values = {"a": np.array([90.0, 91, 92]), "b": np.array([80.0, 81, 82.5]), "c": np.array([90.0, 90.5, 93])}
    best, compared = against_best(values)
    assert best == "c" and [row.other for row in compared] == ["a", "b"]
    assert not compared[0].distinct and compared[1].distinct
    assert all(row.corrected >= row.p for row in compared)
    low, high = interval(values["a"]) or (0, 0)
    assert low >= 90 and high <= 92


def test_mean_ranks_join_what_cannot_be_told_apart() -> None:
    scores = np.tile([3.0, 2.0, 1.0, 0.0], (20, 1)) + np.random.default_rng(0).normal(0, 0.01, (20, 4))
    scores[::2, [0, 1]] = scores[::2, [1, 0]]
    found = mean_ranks(["a", "b", "c", "d"], scores)
    assert found is not None and found.ranks.tolist() == [1.5, 1.5, 3.0, 4.0]
    assert found.cliques()[0] == (0, 1) and found.p < 1e-6
    assert mean_ranks(["a", "b"], scores[:, :2]) is None and mean_ranks(list("abcd"), scores[:1]) is None


def elsewhere(bench: Bench, stream: str) -> Bench:
    return Bench(replace(bench.key, stream=stream), bench.entries)


def test_ranks_are_over_streams_and_take_methods_with_several_seeds_only(bench: Bench) -> None:
    assert rank_over([bench]) is None
    found = rank_over([bench, elsewhere(bench, "time")])
    assert found is not None and sorted(found.names) == ["ER", "LINEAR", "LwF"] and found.blocks == 2


def expansions(bench: Bench) -> dict[Key, Expansion]:
    return expansions_of({bench.key: bench.entries[0].runs[0].config}, ["digits"], None)[0]


def test_export_writes_tables_and_figures(bench: Bench, tmp_path: Path) -> None:
    written = write_export([bench, elsewhere(bench, "time")], tmp_path, expansions(bench))
    assert sorted(written) == sorted(tmp_path.iterdir())
    kinds = {path.stem.split("-")[0] for path in written}
    assert kinds == {"table", "anytime", "tasks", "cost", "buffers", "ranks", "expansion"}
    assert all(path.stat().st_size > 300 for path in written)


def test_data_that_is_not_there_is_told_and_the_page_is_written_without(tmp_path: Path) -> None:
    found, missing = expansions_of({"a": configure("corafull", "bare")}, ["corafull"], tmp_path)
    assert found == {} and "corafull" in missing[0]


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no finished run"):
        collect([tmp_path])
    with pytest.raises(ConfigError, match="no folder"):
        collect([tmp_path / "nothing"])


@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_opens_in_a_browser(bench: Bench, tmp_path: Path, width: int) -> None:
    page = tmp_path / "report.html"
    write_report([bench], page, expansions(bench))
    html = page.read_text()
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=[\"'](?!data:)", html)  # nothing is fetched
    opened = open_page(page, tmp_path, width)
    assert opened.console == []
    assert len(opened.figures) == 1 + 5 + 2 + 2 + 1 + 1  # anytime, tasks, buffers, costs, trials, expansion
    assert [name for name, (count, inside) in opened.figures.items() if count == 0 or not inside] == []
    assert opened.width <= width  # nothing sticks out
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_every_method_has_a_title_and_a_colour(bench: Bench) -> None:
    assert {entry.title for entry in bench.entries} == {"Joint", "LINEAR", "ER", "bare", "LwF", "A-GEM"}
    assert len({color(name) for name in COLORED}) == len(COLORED)
    assert all(re.fullmatch(r"#[0-9a-f]{6}", color(name)) for name in [*names(), "my_method.py:Mine"])
    assert title_of("nowhere/my_method.py:Mine") == "Mine"  # the file need not be there: it is not read


def test_the_browser_sees_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<div class="plotly-graph-div" id="empty"></div><div style="width: 900px">wide</div>'
        "<script>throw new Error('no figure')</script>"
    )
    opened = open_page(page, tmp_path, 390)
    assert opened.figures == {"empty": (0, False)} and opened.width >= 900
    assert "no figure" in opened.console[0]


def test_a_bench_in_which_everything_diverged_has_a_page(tmp_path: Path) -> None:
    out, page = tmp_path / "r", tmp_path / "report.html"
    options = ["--set", "lr=1e38", "--set", "passes=5", "--seeds", "1", "--tune-seeds", "1", "--workers", "0"]
    graph = "sbm:nodes=200,edges=600,classes=4,width=8"
    for arguments in (["bench", graph, "--strategies", "bare", "--out", str(out), *options], ["report", str(out)]):
        more = ["-o", str(page)] if arguments[0] == "report" else []
        ended = CliRunner().invoke(app, [*arguments, *more])
        assert ended.exit_code == 0, ended.output
    assert "none of which stayed finite" in page.read_text()
