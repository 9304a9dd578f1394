import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ocgl
from ocgl.code import code_hash, code_of, file_of_strategy
from ocgl.errors import ConfigError, ResultError, UnknownNameError
from ocgl.experiments import configure, make_experiment, stream_of
from ocgl.experiments.executors import LocalExecutor, cluster_executor
from ocgl.experiments.identity import run_id
from ocgl.experiments.parsing import parse_run
from ocgl.experiments.result_store import RESULT, ResultStore
from ocgl.experiments.results import ChoiceResult, RunResult, bit_equal
from ocgl.experiments.sweep import SETTINGS, Sweep, finished, run_sweep
from ocgl.strategies._core.registry import built_in
from ocgl.types import Json
from tests.helpers import options, scored, timeless

FAST = ("batch_size=60", "fanout=3")


def small(out: Path, **more: Any) -> Sweep:
    return Sweep("digits", ("linear",), out, seeds=2, overrides=options(*FAST), **{"tune_seeds": 1} | more)


def figures(sweep: Sweep) -> list[Json]:
    found = [timeless(run) | {"revision": None} for run in finished(sweep)]
    return sorted(found, key=lambda run: str(run["id"]))


def choice(sweep: Sweep) -> ChoiceResult:
    (found,) = [result for result in ResultStore(sweep.out) if isinstance(result, ChoiceResult)]
    return found


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    sweep = small(tmp_path_factory.mktemp("reference") / "r")
    with LocalExecutor(1) as pool:
        status = run_sweep(sweep, pool)
    assert status.done == status.planned == 24 + 2 and not status.failed
    return sweep


def test_tuning_selects_the_best_of_the_table_and_seeds_follow(reference: Sweep) -> None:
    chosen = choice(reference)
    score = chosen.selection.score
    assert score == max(row.mean for row in chosen.table if row.mean is not None)
    assert next(row.configuration for row in chosen.table if row.mean == score) == chosen.settings
    runs = finished(reference)
    assert sorted(run.seed for run in runs) == [0, 1]
    assert all(run.hyperparameters["lr"] == chosen.settings["lr"] for run in runs)
    assert not list(reference.out.glob(".*"))


def test_a_second_sweep_computes_nothing(reference: Sweep) -> None:
    with LocalExecutor(1) as pool:
        status = run_sweep(reference, pool)
        assert pool._pools == []
    assert status.reused == status.done == 26


def test_two_workers_give_the_same_bits(reference: Sweep, tmp_path: Path) -> None:
    sweep = small(tmp_path / "two")
    with LocalExecutor(2) as pool:
        run_sweep(sweep, pool)
    assert figures(sweep) == figures(reference)


def test_a_dask_cluster_gives_the_same_bits(reference: Sweep, tmp_path: Path) -> None:
    from distributed import LocalCluster

    sweep = small(tmp_path / "dask")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        cluster_executor(cluster.scheduler_address) as pool,
    ):
        status = run_sweep(sweep, pool)
    assert not status.failed
    assert figures(sweep) == figures(reference)


SWEEP = """
import sys
from pathlib import Path
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.sweep import Sweep, run_sweep
if __name__ == "__main__":
    fast = {"batch_size": 60, "fanout": 3}
    sweep = Sweep("digits", ("linear",), Path(sys.argv[1]), seeds=2, overrides=fast, tune_seeds=1)
    with LocalExecutor(2) as pool:
        run_sweep(sweep, pool)
"""


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid and b"spawn_main" in (entry / "cmdline").read_bytes():
            found.append(int(entry.name))
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def test_killed_parents_and_workers_lose_nothing(reference: Sweep, tmp_path: Path) -> None:
    script, out = tmp_path / "sweep.py", tmp_path / "out"
    script.write_text(SWEEP)
    rng = random.Random(1)
    before: dict[str, int] = {}

    def finished() -> list[Path]:
        """List results under their final names: a folder that is still being written has a dot in front."""
        return [path for path in out.glob("*/" + RESULT) if not path.parent.name.startswith(".")]

    for turn in range(4):
        process = subprocess.Popen([sys.executable, str(script), str(out)], stderr=subprocess.DEVNULL)
        begin, grown = time.monotonic(), len(finished())
        while process.poll() is None and len(finished()) < grown + 2:
            time.sleep(0.01)
            assert time.monotonic() - begin < 60
        time.sleep(rng.random() * 0.3)
        workers = children(process.pid)
        if turn % 2:  # a worker dies: the sweep goes on
            for worker in workers[:1]:
                kill(worker)
            process.wait(60)
        else:  # the parent dies, and its workers with it
            kill(process.pid)
            process.wait()
            for worker in workers:
                kill(worker)
        now = {path.parent.name: path.stat().st_mtime_ns for path in finished()}
        assert all(now[name] == stamp for name, stamp in before.items())  # nothing lost, nothing done twice
        before = now
    assert figures(small(out)) == figures(reference)


def test_identity_covers_config_hyperparameters_stream_and_code() -> None:
    config = configure("digits", "linear")
    other = configure("digits", "linear", overrides={"lr": 0.02})
    names = {run_id(config, {}, "s"), run_id(other, {}, "s"), run_id(config, {"norm": "sym"}, "s")}
    names |= {run_id(config, {}, "t"), run_id(config, {}, "s", 2), run_id(config, {}, "s", 2, 0.5)}
    assert len(names) == 6 and len(code_hash("linear")) == 64
    assert run_id(config, {}, "s") == run_id(configure("digits", "linear"), {}, "s")


def test_identity_tells_prequential_questions_apart_only_where_they_differ() -> None:
    def name(every: int, prequential: str) -> str:
        return run_id(configure("digits", "linear", eval_every=every, prequential=prequential), {}, "s")

    assert name(1, "every") == name(1, "evaluated") and name(5, "every") != name(5, "evaluated")


def test_identity_covers_what_the_strategy_imports_and_no_other_strategy() -> None:
    package = Path(ocgl.__file__).parent
    names = {name: {str(path.relative_to(package)) for path in code_of(name)} for name in ("linear", "mas", "ridge")}
    for found in names.values():
        assert {"graph/_kernels/sampling.py", "streams/split.py", "evaluation/evaluator.py", "kernels.py"} <= found
        assert {"experiments/tuning.py", "experiments/experiment.py", "strategies/_core/learner.py"} <= found
        assert not any(path.startswith(("reporting", "datasets", "cli", "testing")) for path in found)
    assert all((package / room).is_dir() for room in ("reporting", "datasets", "cli", "testing"))
    leaves = {name: {path for path in found if path.startswith("strategies/")} for name, found in names.items()}
    assert "strategies/_core/importance.py" in leaves["mas"] - leaves["linear"]
    assert "strategies/_core/closed_form.py" in leaves["ridge"] - leaves["mas"]
    assert "strategies/twp.py" not in set().union(*leaves.values())


def test_every_strategy_lies_in_the_file_of_its_name() -> None:
    for name in built_in():
        assert file_of_strategy(name).read_text().count(f'"{name}"')


def test_results_are_found_listed_and_compared(reference: Sweep) -> None:
    results = ResultStore(reference.out)
    rows = results.rows(strategy="linear", seed="1")
    assert len(rows) == 1 and results.rows(strategy="bare") == []
    stored = results.get(rows[0]["id"][:8])
    assert isinstance(stored, RunResult)
    config = reference.config(reference.groups()[0], choice(reference).settings, 1)
    again = make_experiment(config, stream_of(config)).finish()
    assert bit_equal(again, stored)
    assert not bit_equal(again.model_copy(update={"AP": scored(again, "AP") + 1e-9}), stored)
    with pytest.raises(ConfigError, match="0 results"):
        results.get("nothing")


def test_results_of_the_first_schema_are_read_and_compared(reference: Sweep) -> None:
    """Version 1 had no schema_version, no title, and (first) no evaluation; it predicted every batch."""
    stored = next(iter(ResultStore(reference.out).runs))
    new = {"schema_version", "title", "computed_by", "compared", "curve"}
    older = {key: value for key, value in stored.dump().items() if key not in new}
    older["config"] = {k: v for k, v in older["config"].items() if k not in ("eval_cap", "prequential")}
    older["evaluation"] = {k: v for k, v in older["evaluation"].items() if k != "prequential_labels"}
    first = {key: value for key, value in older.items() if key != "evaluation"}
    config = stored.config.model_copy(update={"profile": "first-reading"})  # what profile paper was then
    stored = stored.model_copy(update={"profile": "first-reading", "config": config})
    assert bit_equal(parse_run(older), stored) and parse_run(first).evaluation.anytime == "exact"
    assert parse_run(older).prequential == stored.prequential  # evaluated after every batch: the same question
    assert not bit_equal(parse_run(older | {"prequential": 1.0}), stored)
    rare = older | {"config": older["config"] | {"eval_every": 5}}
    assert parse_run(rare).prequential is None
    with pytest.raises(ResultError, match="schema version 99"):
        parse_run(older | {"schema_version": 99})
    with pytest.raises(ResultError, match="cannot be used"):
        parse_run("{")


def test_settings_that_a_method_does_not_have_are_left_out(tmp_path: Path) -> None:
    sweep = Sweep("arxiv", ("linear", "bare", "pdgnn"), tmp_path, settings=tuple(SETTINGS), buffers=("1%", "2%"))
    counts = {name: sum(group.strategy == name for group in sweep.groups()) for name in sweep.strategies}
    assert counts == {"linear": 3 * 2, "bare": 7, "pdgnn": 7 * 2}
    larger = next(group for group in sweep.groups() if group.setting == "larger-batch")
    assert sweep.config(larger, {}).stream.batch_size == 250
    with pytest.raises(UnknownNameError):
        Sweep("arxiv", ("linear",), tmp_path, settings=("mian",)).groups()


def test_a_budget_stops_and_a_later_call_continues(tmp_path: Path, reference: Sweep) -> None:
    sweep = small(tmp_path / "budget")
    with LocalExecutor(1) as pool:
        run_sweep(sweep, pool, budget_minutes=0.0)
    with LocalExecutor(1) as pool:
        run_sweep(sweep, pool)
    assert figures(sweep) == figures(reference)


class _Failing(LocalExecutor):
    def _call(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no luck")


def test_failures_are_told_and_not_kept(tmp_path: Path) -> None:
    pool: Executor
    with _Failing(1) as pool:
        status = run_sweep(small(tmp_path / "f"), pool)
    assert len(status.failed) == 24 and "no luck" in status.failed[0]
    assert list(ResultStore(tmp_path / "f")) == []


def test_a_pack_holds_the_same_and_is_continued(reference: Sweep, tmp_path: Path) -> None:
    shutil.copytree(reference.out, tmp_path / "p")
    packed, loose = ResultStore(tmp_path / "p"), ResultStore(reference.out)
    packed.pack()
    names = ["packed-curves.parquet", "packed.json", "packed.parquet"]
    assert sorted(path.name for path in packed.folder.iterdir()) == names
    assert list(ResultStore(packed.folder)) == list(loose)
    for row in loose.rows():
        assert packed.curves(row["id"]).equals(loose.curves(row["id"]))
    sweep = replace(reference, out=packed.folder)
    with LocalExecutor(1) as pool:
        status = run_sweep(sweep, pool)
    assert status.reused == status.done == 26
    more = replace(sweep, seeds=3)
    with LocalExecutor(1) as pool:
        run_sweep(more, pool)
    ResultStore(packed.folder).pack()  # a second time: old and new together
    assert len(list(finished(more))) == 3 and figures(sweep) == figures(reference)


def test_halving_drops_early_and_says_so(reference: Sweep, tmp_path: Path) -> None:
    sweep = replace(reference, out=tmp_path / "h", halving=True, seeds=1)
    with LocalExecutor(2) as pool:
        status = run_sweep(sweep, pool)
    assert status.done == status.planned == 24 + 8 + 3 + 1 and not status.failed
    chosen = choice(sweep)
    shares = [row.share for row in chosen.table]
    assert (shares.count(0.25), shares.count(0.5), shares.count(1.0)) == (16, 5, 3)
    assert chosen.selection.score == max(row.mean for row in chosen.table if row.share == 1.0 and row.mean is not None)
    (run,) = finished(sweep)
    assert run.selection is not None and run.selection.halving is True
    assert not any(run.selection.halving for run in finished(reference) if run.selection is not None)


def test_another_buffer_takes_the_configuration_selected_with_this_one(reference: Sweep, tmp_path: Path) -> None:
    shutil.copytree(reference.out, tmp_path / "s")
    sweep = replace(reference, out=tmp_path / "s", buffers=("1%",), select_at="4%", eval_every=5)
    with LocalExecutor(1) as pool:
        status = run_sweep(sweep, pool)
    assert (status.done, status.reused) == (26, 24)  # every trial was there already
    run = finished(sweep)[0]
    assert run.selection is not None
    assert (run.buffer, run.selection.buffer, run.config.eval_every) == ("1%", "4%", 5)
    assert run.hyperparameters["lr"] == finished(reference)[0].hyperparameters["lr"]
