"""Faults that users met in 0.1.0, one test each; every test was neighborhood failing on that code."""

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

import pytest
from rich.console import Console

from ocgl.experiments import config as configuration
from ocgl.experiments import configure, make_experiment, stream_of
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.expansion import expansions_of
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import RunResult
from ocgl.experiments.sweep import Sweep, SweepStatus, run_sweep
from ocgl.experiments.trials import name_of
from ocgl.reporting.collect import Bench, collect
from ocgl.reporting.page import rank_over, write_report
from ocgl.reporting.tables import as_csv, latex, markdown
from ocgl.reporting.terminal import bench_table, status_table
from tests.helpers import options

ROOT = Path(__file__).parents[1]
FAST = ("batch_size=120", "fanout=3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the results of three methods with two seeds."""
    out = tmp_path_factory.mktemp("faults") / "digits"
    with ThreadPoolExecutor(1) as pool:
        for name, more in (("linear", ()), ("er", ("hidden=8",)), ("slda", ())):
            sweep = Sweep(
                "digits", (name,), out, seeds=2, overrides=options(*FAST, *more), grids="coarse", tune_seeds=1
            )
            assert not run_sweep(sweep, pool).failed
    return out


@pytest.fixture
def bench(folder: Path) -> Bench:
    (found,) = collect([folder])
    return found


def run_result() -> RunResult:
    config = configure("digits", "linear", overrides=options(*FAST))
    return make_experiment(config, stream_of(config)).finish().model_copy(update={"id": "a"})


def test_a_result_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ResultStore.put` took every OSError of the rename for "somebody else was first" and dropped the result."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    result = run_result()
    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space"):
        ResultStore(tmp_path).put(result)
    monkeypatch.undo()
    ResultStore(tmp_path).put(result)
    ResultStore(tmp_path).put(result)  # somebody else was first: that one stays
    assert len(list(ResultStore(tmp_path))) == 1


def test_the_live_table_of_a_sweep_marks_estimates(tmp_path: Path) -> None:
    """The live table got AAP and AP of a run and not how AAP was estimated."""
    shown: list[str] = []

    def watch(status: SweepStatus) -> None:
        out = io.StringIO()
        Console(file=out, width=200).print(status_table(status, 1.0))
        shown.append(out.getvalue())

    sweep = Sweep(
        "digits", ("slda",), tmp_path, seeds=1, overrides=options(*FAST, "eval_cap=1"), grids="coarse", tune_seeds=1
    )
    with ThreadPoolExecutor(1) as pool:
        run_sweep(sweep, pool, watch)
    assert "†" in shown[-1]


def test_a_report_downloads_nothing(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ocgl report` fetched the dataset for the neighbourhood expansion."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a report asked the network")

    monkeypatch.setattr("urllib.request.urlopen", refused)
    found, missing = expansions_of({bench.key: configure("corafull", "bare")}, ["corafull"], tmp_path)
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
    assert "No rank test: it needs at least two streams." in text


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


def gone(pid: int) -> bool:
    """Wait until a process has ended (a zombie has)."""
    for _ in range(200):
        status = Path(f"/proc/{pid}/status")
        if not status.exists() or "State:\tZ" in status.read_text():
            return True
        time.sleep(0.05)
    return False


def test_stopping_a_pool_leaves_the_caller_s_other_processes_alone() -> None:
    """`stop()` ended every child process of the caller."""
    mine = multiprocessing.get_context("spawn").Process(target=idle)
    mine.start()
    try:
        pool = LocalExecutor(1)
        job = pool.submit(os.getpid)
        theirs = job.result()
        pool.stop()
        assert gone(theirs), "the pool's own process goes on"
        mine.join(3)
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


def solves(monkeypatch: pytest.MonkeyPatch, **more: Any) -> tuple[int, RunResult]:
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
        config = configure("digits", "ridge", overrides={"batch_size": 20}, **more)
        result = make_experiment(config, stream_of(config)).finish()
    return count, result


def test_the_prequential_question_shares_the_solve_of_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed forms were solved before every batch, however rarely the run was evaluated."""
    few, result = solves(monkeypatch, eval_every=10)
    evaluated = -(-result.updates // 10) + 5
    assert few <= evaluated + 1, f"{few} solves for about {evaluated} evaluations"
    many, always = solves(monkeypatch, eval_every=10, prequential="every")
    assert many >= result.updates - 1
    asked, all_asked = (run.evaluation.prequential_labels or 0 for run in (result, always))
    assert 0 < asked < all_asked
    assert always.evaluation.prequential_labels == always.statistics.labels
    assert result.AAP == always.AAP and result.matrix == always.matrix


def test_a_changed_profile_changes_the_name_of_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """`PROFILES` was no part of a result's identity: a change there reused stale results."""
    config = configure("digits", "bare")
    before = name_of(config, None, None)
    monkeypatch.setitem(configuration.PROFILES, "paper", {"norm": "mean"})
    assert name_of(config, None, None) != before


@pytest.mark.parametrize(
    ("file", "old", "new", "moves"),
    [
        ("experiments/tuning.py", "diverged = ", "diverged = False and ", True),
        ("graph/_kernels/sampling.py", '"""Sample ', '"""Sample once ', False),
        (
            "graph/_kernels/sampling.py",
            "    hops = len(fanouts)\n",
            "    # how many hops there are\n    hops = len(fanouts)\n",
            False,
        ),
        ("graph/_kernels/sampling.py", "    hops = len(fanouts)\n", "    hops = 0 + len(fanouts)\n", True),
    ],
)
def test_the_identity_of_code_is_what_it_does(tmp_path: Path, file: str, old: str, new: str, moves: bool) -> None:
    """Tuning code was no part of a result's identity, and a changed docstring renamed everything."""
    import ocgl

    shutil.copytree(Path(ocgl.__file__).parent, tmp_path / "ocgl", ignore=shutil.ignore_patterns("__pycache__"))
    command = ["python", "-c", "from ocgl.code import code_hash; print(code_hash('bare'))"]
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
    """An example stood under `if __name__ == "__main__"`, which the test of the pages never entered."""
    source = (ROOT / "tests" / "test_package.py").read_text()
    assert '"__name__": "__main__"' in source


def test_golden_scores_are_tight() -> None:
    """Golden tolerances were up to 20 points wide."""
    source = (ROOT / "tests" / "experiments" / "test_golden.py").read_text()
    (tolerance,) = re.findall(r"^TOLERANCE = ([\de.-]+)$", source, re.MULTILINE)
    assert float(tolerance) <= 1e-3  # relative
    assert 'for metric in golden["scores"]} == golden["scores"]' in source  # and to the bit on the recording machine
    assert not (ROOT / "benchmarks" / "golden.json").exists()
