"""A run or a bench that is killed, terminated or interrupted: nothing lost, nobody left, the next call goes on."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ocgl import files
from ocgl.experiments.result_store import RESULT, ResultStore
from ocgl.experiments.run_directory import CHECKPOINT
from tests.faults.damage import SCORES
from tests.helpers import COARSE, once

pytestmark = pytest.mark.slow
RUN = ["run", "--dataset", "digits", "--strategy", "linear", "--set", "passes=5", "--set", "batch_size=2"]
BENCH = ["bench", "digits", "--strategies", "linear", *COARSE, "--set", "batch_size=20"]
ENDS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 143, signal.SIGINT: 130}


def start(arguments: list[str], cwd: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "ocgl", *arguments]
    return subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(arguments: list[str], cwd: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "ocgl", *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done


def everyone(session: int) -> list[int]:
    """List the processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def wait_until(check: Callable[[], bool], seconds: float = 60) -> None:
    begin = time.monotonic()
    while not check():
        assert time.monotonic() - begin < seconds, "this takes too long"
        time.sleep(0.02)


def end(process: "subprocess.Popen[str]", how: signal.Signals) -> str:
    """Send a signal: Ctrl-C to the whole group, as a terminal does, the others to the parent alone."""
    (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == ENDS[how], said
    wait_until(lambda: not everyone(process.pid), 15)
    return said


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "whole-run", lambda folder: finish([*RUN, "--out", "run"], folder))


@pytest.fixture(scope="module")
def whole_bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "whole-bench", lambda folder: finish([*BENCH, "--out", "b"], folder))


@pytest.mark.parametrize("how", ENDS, ids=lambda how: str(how.name))
def test_a_run_that_is_ended_goes_on_bit_equal(how: signal.Signals, whole_run: Path, tmp_path: Path) -> None:
    process = start([*RUN, "--out", "run", "--checkpoint-every", "3"], tmp_path)
    wait_until(lambda: (tmp_path / "run" / CHECKPOINT).exists() or process.poll() is not None)
    said = end(process, how)
    if how != signal.SIGKILL:
        assert said.strip() == "stopped; continue with: ocgl run --resume run"
    finish(["run", "--resume", "run"], tmp_path)
    ours, theirs = (json.loads((d / "run" / RESULT).read_text()) for d in (tmp_path, whole_run))
    assert {key: ours[key] for key in SCORES} == {key: theirs[key] for key in SCORES}
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"config.json", "result.json", "anytime.parquet", "model.safetensors", "report.html"}


@pytest.mark.parametrize("how", ENDS, ids=lambda how: str(how.name))
def test_a_bench_that_is_ended_goes_on_bit_equal(how: signal.Signals, whole_bench: Path, tmp_path: Path) -> None:
    process = start([*BENCH, "--out", "b", "--workers", "2"], tmp_path)
    results = tmp_path / "b"
    wait_until(lambda: len(list(results.glob("[!.]*/result.json"))) > 1 or process.poll() is not None)
    assert len(everyone(process.pid)) >= 3  # the parent and two workers at least
    said = end(process, how)
    if how != signal.SIGKILL:
        assert "the same command continues" in said and "Traceback" not in said
    kept = {path.parent.name: path.read_bytes() for path in results.glob("[!.]*/result.json")}
    assert kept
    finish([*BENCH, "--out", "b", "--workers", "1"], tmp_path)
    assert all((results / name / RESULT).read_bytes() == content for name, content in kept.items())
    ours, theirs = (sorted(map(str, ResultStore(d / "b").rows())) for d in (tmp_path, whole_bench))
    assert ours == theirs
    assert not [path for path in results.rglob("*") if path.name.startswith(".")]


def test_what_a_dead_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    dead = subprocess.run(
        [sys.executable, "-c", "from ocgl.files import *; print(temporary_name(Path('a')))"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    (tmp_path / dead).write_text("half")
    (tmp_path / f"{dead.removesuffix('.part')}0.part").mkdir()
    mine = files.temporary_name(tmp_path / "b")
    mine.write_text("half")
    (tmp_path / ".hidden.part").write_text("somebody else's")
    files.write_whole(tmp_path / "a", b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {"a", mine.name, ".hidden.part"}
