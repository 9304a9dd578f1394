"""Faults that users met in 0.1.0, one test each; every test was seen failing on that code."""

import errno
import io
import multiprocessing
import os
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from ocgl.benchmark import config as configuration
from ocgl.benchmark import configure, run_of, stream_of
from ocgl.benchmark.executors import LocalExecutor
from ocgl.benchmark.identity import code_hash, run_id
from ocgl.benchmark.results import Results, stamp
from ocgl.benchmark.sweep import Sweep, Tally, carry_out, name_of
from ocgl.report.collect import Bench, collect
from ocgl.report.page import measure_expansions, rank_over, write_report
from ocgl.report.tables import as_csv, latex, markdown
from ocgl.report.terminal import bench_table, standing_table

ROOT = Path(__file__).parents[1]
FAST = ("batch_size=120", "fanout=3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the results of three methods with two seeds."""
    out = tmp_path_factory.mktemp("faults") / "digits"
    with ThreadPoolExecutor(1) as pool:
        for name, more in (("linear", ()), ("er", ("hidden=8",)), ("slda", ())):
            assert not carry_out(Sweep("digits", (name,), out, seeds=2, overrides=(*FAST, *more), grids="coarse"), pool).failed
    return out


@pytest.fixture
def bench(folder: Path) -> Bench:
    (found,) = collect([folder])
    return found


def run_result() -> Any:
    config = configure("digits", "linear", settings=list(FAST))
    run = run_of(config, stream_of(config))
    return stamp(run.finish(), "a", "run", "main", config)


def test_a_result_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Results.put` took every OSError of the rename for "somebody else was first" and dropped the result."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    result = run_result()
    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space"):
        Results(tmp_path).put("a", result)
    monkeypatch.undo()
    Results(tmp_path).put("a", result)
    Results(tmp_path).put("a", result)  # somebody else was first: that one stays
    assert len(list(Results(tmp_path))) == 1


def test_the_live_table_of_a_sweep_marks_estimates(tmp_path: Path) -> None:
    """The live table got AAP and AP of a run and not how AAP was estimated."""
    shown: list[str] = []

    def watch(tally: Tally) -> None:
        out = io.StringIO()
        Console(file=out, width=200).print(standing_table(tally, 1.0))
        shown.append(out.getvalue())

    sweep = Sweep("digits", ("slda",), tmp_path, seeds=1, overrides=(*FAST, "eval_cap=1"), grids="coarse")
    with ThreadPoolExecutor(1) as pool:
        carry_out(sweep, pool, watch)
    assert "†" in shown[-1]


def test_a_report_downloads_nothing(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ocgl report` fetched the dataset for the neighbourhood expansion."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a report asked the network")

    monkeypatch.setattr("urllib.request.urlopen", refused)
    monkeypatch.setattr(bench, "key", replace(bench.key, dataset="corafull"))
    found, missing = measure_expansions([bench], tmp_path)
    assert not found and "corafull" in missing[0]


def test_blocks_of_the_friedman_test_are_streams(bench: Bench) -> None:
    """Seeds of one stream were blocks: many seeds made any difference significant."""
    assert rank_over([bench]) is None
    others = [bench, *(type(bench)(replace(bench.key, stream=kind), bench.entries) for kind in ("time", "iid"))]
    found = rank_over(others)
    assert found is not None and found.blocks == 3


def test_the_page_of_one_stream_says_that_there_is_no_such_test(bench: Bench, tmp_path: Path) -> None:
    """The page showed a Friedman test over seeds."""
    write_report([bench], tmp_path / "r.html", {})
    text = " ".join((tmp_path / "r.html").read_text().rpartition("<body>")[2].split())
    assert "Friedman p" not in text
    assert "No rank test: it compares methods over several streams, and there is one" in text


def test_every_table_says_which_standard_deviation_it_shows(bench: Bench) -> None:
    """Standard deviations were the population's, and only one of five tables said so."""
    out = io.StringIO()
    runs = [run for entry in bench.entries for run in entry.runs]
    Console(file=out, width=200).print(bench_table(runs))
    assert "population std" in out.getvalue()
    assert "population std" in markdown(bench) and "population std" in latex(bench)
    assert "std_population" in as_csv(bench).splitlines()[0]


def idle() -> None:
    time.sleep(60)


def test_stopping_a_pool_leaves_the_caller_s_other_processes_alone() -> None:
    """`stop()` ended every child process of the caller."""
    mine = multiprocessing.get_context("spawn").Process(target=idle)
    mine.start()
    try:
        pool = LocalExecutor(1)
        job = pool.submit(os.getpid)
        theirs = job.result()
        pool.stop()
        for _ in range(200):
            if not Path(f"/proc/{theirs}").exists() or "Z" in Path(f"/proc/{theirs}/stat").read_text().split(")")[1][:3]:
                break
            time.sleep(0.05)
        else:
            raise AssertionError("the pool's own process goes on")
        assert mine.is_alive()
    finally:
        mine.kill()
        mine.join()


def test_make_clean_keeps_the_user_s_runs(tmp_path: Path) -> None:
    """`make clean` deleted runs/, where the quickstart puts results."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    kept = tmp_path / "runs" / "mine" / "result.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    (tmp_path / "build").mkdir()
    subprocess.run(["make", "-C", str(tmp_path), "clean"], check=True, capture_output=True)
    assert kept.exists() and not (tmp_path / "build").exists()


def solves(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[int, Any]:
    """Count how often `ridge` solves for its weights in a run."""
    from ocgl.strategies.ridge import Ridge

    count = 0
    solve = Ridge.solve

    def counted(self: Ridge, moments: Any) -> Any:
        nonlocal count
        count += 1
        return solve(self, moments)

    with monkeypatch.context() as patch:
        patch.setattr(Ridge, "solve", counted)
        config = configure("digits", "ridge", settings=["batch_size=20"], **options)
        result = run_of(config, stream_of(config)).finish()
    return count, result


def test_the_prequential_question_shares_the_solve_of_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed forms were solved before every batch, however rarely the run was evaluated."""
    few, result = solves(monkeypatch, eval_every=10)
    evaluated = -(-result["updates"] // 10) + 5
    assert few <= evaluated + 1, f"{few} solves for about {evaluated} evaluations"
    many, always = solves(monkeypatch, eval_every=10, prequential="every")
    assert many >= result["updates"] - 1
    assert 0 < result["evaluation"]["prequential_labels"] < always["evaluation"]["prequential_labels"]
    assert always["evaluation"]["prequential_labels"] == always["statistics"]["labels"]
    assert result["AAP"] == always["AAP"] and result["matrix"] == always["matrix"]


def test_a_changed_profile_changes_the_name_of_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """`PROFILES` was no part of a result's identity: a change there reused stale results."""
    config = configure("digits", "bare")
    before = name_of(config, None, None)
    monkeypatch.setitem(configuration.PROFILES, "paper", {"norm": "mean"})
    assert name_of(config, None, None) != before


@pytest.mark.parametrize(
    ("file", "old", "new", "moves"),
    [
        ("benchmark/tuning.py", "diverged = ", "diverged = False and ", True),
        ("graph/sampling.py", '"""Sample around distinct seeds', '"""Sample around the distinct seeds', False),
        ("graph/sampling.py", "    hops = len(fanouts)\n", "    # how many hops there are\n    hops = len(fanouts)\n", False),
        ("graph/sampling.py", "    hops = len(fanouts)\n", "    hops = 0 + len(fanouts)\n", True),
    ],
)
def test_the_identity_of_code_is_what_it_does(tmp_path: Path, file: str, old: str, new: str, moves: bool) -> None:
    """Tuning code was no part of a result's identity, and a changed docstring renamed everything."""
    import ocgl

    shutil.copytree(Path(ocgl.__file__).parent, tmp_path / "ocgl", ignore=shutil.ignore_patterns("__pycache__"))
    command = ["python", "-c", "from ocgl.benchmark.identity import code_hash; print(code_hash('bare'))"]
    command[0] = shutil.which("python") or "python"

    def named() -> str:
        import sys

        done = subprocess.run(
            [sys.executable, *command[1:]],
            capture_output=True, text=True, check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        return done.stdout.strip()

    before = named()
    path = tmp_path / "ocgl" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    assert (named() != before) == moves


def test_the_python_in_the_pages_runs_as_a_script_does() -> None:
    """The example of sharded learning stood under `if __name__ == "__main__"`, which the test of pages never entered."""
    source = (ROOT / "tests" / "test_package.py").read_text()
    assert '"__name__": "__main__"' in source


def test_golden_scores_are_tight() -> None:
    """Golden tolerances were up to 20 points wide."""
    source = (ROOT / "tests" / "benchmark" / "test_golden.py").read_text()
    wide = [float(value) for value in re.findall(r"abs=([\d.]+)", source)]
    assert wide and max(wide) <= 1
    assert not (ROOT / "benchmarks" / "golden.json").exists()
    assert np.isfinite(wide).all() and code_hash("bare") and run_id(configure("digits", "bare"), "s")
