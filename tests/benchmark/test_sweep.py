import contextlib
import json
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
from ocgl.benchmark import configure, run_of, stream_of
from ocgl.benchmark.executors import LocalExecutor, cluster_executor
from ocgl.benchmark.identity import code_hash, code_of, run_id
from ocgl.benchmark.keep import RESULT, TIMINGS
from ocgl.benchmark.results import Results, bit_equal
from ocgl.benchmark.sweep import SETTINGS, Sweep, carry_out, finished
from ocgl.errors import ConfigError, UnknownNameError
from ocgl.types import Json

FAST = ("batch_size=60", "fanout=3")


def small(out: Path, **options: Any) -> Sweep:
    return Sweep("digits", ("linear",), out, seeds=2, overrides=FAST, **options)


def figures(sweep: Sweep) -> list[Json]:
    dropped = {*TIMINGS, "revision"}
    found = [{k: v for k, v in result.items() if k not in dropped} for result in finished(sweep)]
    return sorted(found, key=lambda result: result["id"])


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    sweep = small(tmp_path_factory.mktemp("reference") / "r")
    with LocalExecutor(1) as pool:
        tally = carry_out(sweep, pool)
    assert tally.done == tally.planned == 24 + 2 and not tally.failed
    return sweep


def test_tuning_selects_the_best_of_the_table_and_seeds_follow(reference: Sweep) -> None:
    (chosen,) = [result for result in Results(reference.out) if result["kind"] == "choice"]
    score = chosen["selection"]["score"]
    assert score == max(value for _, value, _ in chosen["table"])
    assert next(s for s, v, _ in chosen["table"] if v == score) == chosen["settings"]
    runs = figures(reference)
    assert sorted(run["seed"] for run in runs) == [0, 1]
    assert all(run["hyperparameters"]["lr"] == chosen["settings"]["lr"] for run in runs)
    assert not list(reference.out.glob(".*"))


def test_a_second_sweep_computes_nothing(reference: Sweep) -> None:
    with LocalExecutor(1) as pool:
        tally = carry_out(reference, pool)
        assert pool._pools == []
    assert tally.reused == tally.done == 26


def test_two_workers_give_the_same_bits(reference: Sweep, tmp_path: Path) -> None:
    sweep = small(tmp_path / "two")
    with LocalExecutor(2) as pool:
        carry_out(sweep, pool)
    assert figures(sweep) == figures(reference)


def test_a_dask_cluster_gives_the_same_bits(reference: Sweep, tmp_path: Path) -> None:
    from distributed import LocalCluster

    sweep = small(tmp_path / "dask")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        cluster_executor(cluster.scheduler_address) as pool,
    ):
        tally = carry_out(sweep, pool)
    assert not tally.failed
    assert figures(sweep) == figures(reference)


SWEEP = """
import sys
from pathlib import Path
from ocgl.benchmark.executors import LocalExecutor
from ocgl.benchmark.sweep import Sweep, carry_out
if __name__ == "__main__":
    sweep = Sweep("digits", ("linear",), Path(sys.argv[1]), seeds=2, overrides=("batch_size=60", "fanout=3"))
    with LocalExecutor(2) as pool:
        carry_out(sweep, pool)
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
    for turn in range(4):
        process = subprocess.Popen([sys.executable, str(script), str(out)], stderr=subprocess.DEVNULL)
        begin, grown = time.monotonic(), len(list(out.glob("*/" + RESULT)))
        while process.poll() is None and len(list(out.glob("*/" + RESULT))) < grown + 2:
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
        now = {path.parent.name: path.stat().st_mtime_ns for path in out.glob("*/" + RESULT)}
        assert all(now[name] == stamp for name, stamp in before.items())  # nothing lost, nothing done twice
        before = now
    assert figures(small(out)) == figures(reference)


def test_identity_covers_config_stream_and_code() -> None:
    config = configure("digits", "linear")
    other = configure("digits", "linear", settings=["lr=0.02"])
    names = {run_id(config, "s"), run_id(other, "s"), run_id(config, "t"), run_id(config, "s", 2)}
    assert len(names | {run_id(config, "s", 2, 0.5)}) == 5 and len(code_hash("linear")) == 64
    assert run_id(config, "s") == run_id(configure("digits", "linear"), "s")


def test_identity_covers_what_the_strategy_imports_and_no_other_strategy() -> None:
    package = Path(ocgl.__file__).parent
    names = {name: {str(path.relative_to(package)) for path in code_of(name)} for name in ("linear", "mas", "joint")}
    for found in names.values():
        assert {"graph/sampling.py", "streams/split.py", "evaluation/judge.py", "kernels.py", "models/head.py"} <= found
        assert not any(path.startswith(("report", "datasets")) or path == "cli.py" for path in found)
    leaves = {name: {path for path in found if path.startswith("strategies/")} for name, found in names.items()}
    assert "strategies/ewc.py" in leaves["mas"] - leaves["linear"]  # MAS takes its grid from there
    assert "strategies/twp.py" not in set().union(*leaves.values())
    assert "benchmark/joint.py" in names["joint"] - names["linear"]


def test_results_are_found_listed_and_compared(reference: Sweep) -> None:
    results = Results(reference.out)
    rows = results.rows(strategy="linear", seed="1")
    assert len(rows) == 1 and results.rows(strategy="bare") == []
    kept = results.get(rows[0]["id"][:8])
    (chosen,) = [result for result in results if result["kind"] == "choice"]
    config = reference.config(reference.groups()[0], chosen["settings"], 1)
    again = run_of(config, stream_of(config)).finish()
    again = json.loads(json.dumps(again))
    assert bit_equal(again, kept) and not bit_equal(again | {"AP": again["AP"] + 1e-9}, kept)
    older = {key: value for key, value in kept.items() if key != "evaluation"}
    older["config"] = {key: value for key, value in kept["config"].items() if key != "eval_cap"}
    assert bit_equal(again, older)  # from before those keys were there
    assert not bit_equal(again, older | {"config": kept["config"] | {"seed": 7}})
    with pytest.raises(ConfigError, match="0 runs"):
        results.get("nothing")


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
        carry_out(sweep, pool, budget_minutes=0.0)
    with LocalExecutor(1) as pool:
        carry_out(sweep, pool)
    assert figures(sweep) == figures(reference)


class _Failing(LocalExecutor):
    def _call(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no luck")


def test_failures_are_told_and_not_kept(tmp_path: Path) -> None:
    pool: Executor
    with _Failing(1) as pool:
        tally = carry_out(small(tmp_path / "f"), pool)
    assert len(tally.failed) == 24 and "no luck" in tally.failed[0]
    assert list(Results(tmp_path / "f")) == []


def test_a_pack_holds_the_same_and_is_continued(reference: Sweep, tmp_path: Path) -> None:
    shutil.copytree(reference.out, tmp_path / "p")
    packed, loose = Results(tmp_path / "p"), Results(reference.out)
    packed.pack()
    assert sorted(path.name for path in packed.folder.iterdir()) == ["packed-curves.parquet", "packed.parquet"]
    assert list(Results(packed.folder)) == list(loose)
    for row in loose.rows():
        assert packed.curves(row["id"]).equals(loose.curves(row["id"]))
    sweep = replace(reference, out=packed.folder)
    with LocalExecutor(1) as pool:
        tally = carry_out(sweep, pool)
    assert tally.reused == tally.done == 26
    more = replace(sweep, seeds=3)
    with LocalExecutor(1) as pool:
        carry_out(more, pool)
    Results(packed.folder).pack()  # a second time: old and new together
    assert len(list(finished(more))) == 3 and figures(sweep) == figures(reference)


def test_halving_drops_early_and_says_so(reference: Sweep, tmp_path: Path) -> None:
    sweep = replace(reference, out=tmp_path / "h", halving=True, seeds=1)
    with LocalExecutor(2) as pool:
        tally = carry_out(sweep, pool)
    assert tally.done == tally.planned == 24 + 8 + 3 + 1 and not tally.failed
    (chosen,) = [result for result in Results(sweep.out) if result["kind"] == "choice"]
    shares = [share for _, _, share in chosen["table"]]
    assert (shares.count(0.25), shares.count(0.5), shares.count(1.0)) == (16, 5, 3)
    assert chosen["selection"]["score"] == max(value for _, value, share in chosen["table"] if share == 1.0)
    (run,) = finished(sweep)
    assert run["selection"]["halving"] is True
    assert not any(run["selection"]["halving"] for run in finished(reference))


def test_another_buffer_takes_the_configuration_selected_with_this_one(reference: Sweep, tmp_path: Path) -> None:
    shutil.copytree(reference.out, tmp_path / "s")
    sweep = replace(reference, out=tmp_path / "s", buffers=("1%",), select_at="4%", eval_every=5)
    with LocalExecutor(1) as pool:
        tally = carry_out(sweep, pool)
    assert (tally.done, tally.reused) == (26, 24)  # every trial was there already
    run = finished(sweep)[0]
    assert (run["buffer"], run["selection"]["buffer"], run["config"]["eval_every"]) == ("1%", "4%", 5)
    assert run["hyperparameters"]["lr"] == finished(reference)[0]["hyperparameters"]["lr"]
