import csv
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from ocgl.experiments import configure, run_config
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import Evaluation, RunResult, Statistics
from ocgl.experiments.sweep import Sweep
from ocgl.reporting import figures, plots
from ocgl.reporting.collect import Bench, collect
from ocgl.reporting.estimates import estimate_of, footnote, mark_of, sentence
from ocgl.reporting.page import write_report
from ocgl.reporting.run_page import write_run_page
from ocgl.reporting.tables import as_csv, latex, markdown, rows_of
from tests.helpers import options
from tests.reporting.conftest import QUICK, run_all_sweeps


def run(
    aap: float | None, interval: tuple[float, float] | None = None, kind: Literal["exact", "estimate"] = "estimate"
) -> RunResult:
    asked = Evaluation(anytime=kind, nodes=120, of=400, AAP_interval=interval, coverage=0.95)
    names = {"dataset": "digits", "stream": "class", "strategy": "linear", "profile": "paper"}
    more = {"seed": 0, "hyperparameters": {}, "AP": 1.0, "statistics": Statistics(tasks=5)}
    return RunResult(**names, **more, AAP=aap, evaluation=asked, config=configure("digits", "linear"))


def test_the_interval_of_a_cell_is_the_mean_of_both_ends() -> None:
    found = estimate_of([run(50.0, (45.0, 54.0)), run(52.0, (47.0, 58.0))])
    assert found is not None and found.interval == (46.0, 56.0) and found.nodes == 24
    assert mark_of(found) == " † (46.00 to 56.00)"
    mixed = estimate_of([run(50.0, (45.0, 54.0)), run(52.0, kind="exact")])
    assert mixed is not None and mixed.interval == (48.5, 53.0)


def test_an_estimate_without_an_interval_is_still_said_to_be_one() -> None:
    found = estimate_of([run(50.0, (45.0, 54.0)), run(52.0)])
    assert found is not None and found.interval is None and mark_of(found) == " † (no interval)"
    assert "estimate from 120 of 400 validation nodes, about 24 a task: no interval" in str(sentence(run(52.0)))


def test_exact_scores_and_methods_without_aap_are_not_marked() -> None:
    for other in (run(50.0, kind="exact"), run(None)):
        assert estimate_of([other]) is None and sentence(other) is None
    assert footnote([None]) is None and mark_of(None) == ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("estimated") / "digits"
    few = ("batch_size=120", "fanout=3", "eval_cap=1")
    sweeps = [
        Sweep("digits", ("linear",), out, seeds=2, buffers=("1%", "4%"), overrides=options(*few), **QUICK),
        Sweep("digits", ("joint",), out, seeds=1, overrides=options(*few, "epochs=1"), **QUICK),
    ]
    with ThreadPoolExecutor(1) as pool:
        run_all_sweeps(sweeps, pool)
    return out


def test_every_form_of_a_table_has_the_mark_the_interval_and_the_reason(bench: Bench) -> None:
    rows = {row.entry.strategy: row for row in rows_of(bench)}
    estimate = rows["linear"].cells["AAP"].estimate
    assert estimate is not None and estimate.interval is not None and estimate.nodes == 24
    assert "about 24 validation nodes a task" in rows["linear"].note and "estimate" not in rows["joint"].note
    assert rows["joint"].cells["AAP"].estimate is rows["linear"].cells["AP"].estimate is None
    for text, mark, percent in ((markdown(bench), " †", "95%"), (latex(bench), r"$^\dagger$", r"95\%")):
        assert f"{mark} ({estimate.ends})" in text
        assert f"{percent} bootstrap interval" in text and "about 24 validation nodes a task" in text
    lines = {(r["method"], r["metric"]): r for r in csv.DictReader(io.StringIO(as_csv(bench)))}
    line = lines["linear", "AAP"]
    assert line["kind"] == "estimate" and (float(line["interval_low"]), float(line["interval_high"])) == (
        pytest.approx(estimate.interval)
    )
    assert (lines["linear", "AP"]["kind"], lines["linear", "AP"]["interval_low"]) == ("exact", "")


def test_the_page_and_its_figures_say_estimate(bench: Bench, tmp_path: Path) -> None:
    write_report([bench], tmp_path / "report.html", {})
    page = (tmp_path / "report.html").read_text()
    body = page.rpartition("<body>")[2]
    for entry in (bench.entries[-1], bench.others[0]):
        assert entry.estimate is not None
        assert f"{entry.buffer}: {entry.estimate.note}" in body or body.count(entry.estimate.ends) >= 3
    for one in bench.entries[-1].runs:
        assert mark_of(estimate_of([one])) in body
    assert plots.anytime(bench).layout.yaxis.title.text == "AP_t, percent, estimate"
    assert plots.buffers(bench, "AAP").layout.yaxis.title.text == "AAP, percent, estimate"
    assert plots.buffers(bench, "AP").layout.yaxis.title.text == "AP, percent"
    assert plots.cost(bench, "touched").layout.yaxis.title.text == "AAP, percent, estimate"
    assert figures.cost(bench).axes[0].get_ylabel() == "AAP (%, estimate)"


def test_a_run_that_asked_all_nodes_is_exact_whatever_the_cap(folder: Path, tmp_path: Path) -> None:
    for result in ResultStore(folder).runs:
        whole = result.evaluation.model_copy(update={"anytime": "exact", "nodes": result.evaluation.of})
        ResultStore(tmp_path).put(result.model_copy(update={"evaluation": whole}))
    (bench,) = collect([tmp_path])
    assert bench.entries[-1].runs[0].config.eval_cap == 1
    assert not any("estimate" in write(bench) or "dagger" in write(bench) for write in (markdown, latex, as_csv))


def test_the_page_of_a_run_has_the_interval_beside_aap(tmp_path: Path) -> None:
    result = run_config(
        configure("digits", "linear", overrides=options("batch_size=120"), eval_cap=1), out=tmp_path / "r"
    )
    page = write_run_page(tmp_path / "r").read_text().rpartition("<body>")[2]
    low, high = result.AAP_interval or (0, 0)
    assert f"<b>{result.AAP:.2f}</b><span>AAP, estimate: {low:.2f} to {high:.2f}</span>" in page
    assert "AAP is an estimate from 120 of 359 validation nodes" in page and "(AP_t, percent, estimate)" in page


def test_a_method_without_updates_has_no_time_per_update_and_no_cost_figure(bench: Bench, tmp_path: Path) -> None:
    idle = [run.model_copy(update={"updates": 0}) for run in bench.entries[-1].runs]
    entry = type(bench.entries[-1])("linear", "4%", idle, bench.entries[-1].store)
    alone = Bench(bench.key, [entry])
    assert np.isnan(entry.milliseconds) and alone.costed == []
    write_report([alone], tmp_path / "report.html", {})
    assert "Cost against accuracy" not in (tmp_path / "report.html").read_text()
