"""A disk that is full, broken or read-only: one line that says so, nothing lost, nothing left behind."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ocgl.experiments.result_store import ResultStore
from tests.faults.damage import BENCH, GRAPH, INTERRUPTED, SCORES, SHORT
from tests.faults.zygote import Ended, Zygote
from tests.helpers import COARSE

pytestmark = pytest.mark.slow
CODES = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES)
RUN = ("run", "--dataset", GRAPH, "--strategy", "linear", *SHORT, "--checkpoint-every", "2")


@pytest.fixture(scope="module")
def ocgl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    with Zygote(OCGL_CACHE=str(tmp_path_factory.mktemp("cache")), OCGL_OFFLINE="1") as zygote:
        yield zygote


def prepare(ocgl: Zygote, what: str, folder: Path) -> None:
    """Make what a command starts from."""
    if what == "resume":
        assert ocgl.python(INTERRUPTED.format(data=GRAPH, seed=0, out="run", stop=3), folder).code == 0
    if what in ("pack", "report"):
        assert ocgl(*BENCH, GRAPH, "--out", "b", cwd=folder).code == 0


COMMANDS: dict[str, tuple[str, ...]] = {
    "run": (*RUN, "--out", "run", "--json", "out.json"),
    "resume": ("run", "--resume", "run", "--json", "out.json", "--checkpoint-every", "2"),
    "bench": (*BENCH, GRAPH, "--out", "b"),
    "pack": ("results", "b", "--pack", "--format", "json"),
    "report": ("report", "b", "--out", "r.html", "--export", "e"),
    "expansion": ("expansion", "--dataset", GRAPH, "--out", "f/e.png"),
    "cache": ("run", "--dataset", GRAPH, "--strategy", "linear", *SHORT, "--json", "out.json"),
}


def outcome(what: str, cwd: Path) -> Any:
    if what in ("run", "resume", "cache"):
        values = json.loads((cwd / "out.json").read_text())
        return {key: values[key] for key in SCORES}
    if what in ("bench", "pack"):
        return sorted(ResultStore(cwd / "b").rows(), key=lambda row: str(row["id"]))
    return (cwd / ("r.html" if what == "report" else "f/e.csv")).read_text()


def environment(cwd: Path, what: str) -> dict[str, str]:
    return {"OCGL_CACHE": str(cwd / "cache")} if what == "cache" else {}


@pytest.mark.parametrize("what", COMMANDS)
def test_a_call_that_cannot_write_says_so_and_the_next_one_continues(what: str, ocgl: Zygote, tmp_path: Path) -> None:
    start, work = tmp_path / "start", tmp_path / "work"
    start.mkdir()
    prepare(ocgl, what, start)

    def fresh() -> Path:
        shutil.rmtree(work, ignore_errors=True)
        return Path(shutil.copytree(start, work))

    def call(cwd: Path, **fail: Any) -> Ended:
        return ocgl(*COMMANDS[what], cwd=cwd, env=environment(cwd, what), fail={"below": str(cwd)} | fail)

    assert call(fresh(), count=str(tmp_path / "calls")).code == 0
    right = outcome(what, work)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) > 4
    chosen = sorted({1, 2, len(calls), *range(1, len(calls) + 1, max(1, len(calls) // 5))})
    for number in chosen:
        cwd = fresh()
        ended = call(cwd, number=number, code=CODES[number % len(CODES)])
        said = f"call {number} ({calls[number - 1]}): {ended}"
        assert ended.code in (0, 1, 2) and "Traceback" not in ended.text, said
        if ended.code:
            assert "cannot" in ended.text, said
        assert not list(cwd.rglob("*.part")), said
        again_command = COMMANDS["resume"] if what == "run" and (cwd / "run/config.json").exists() else COMMANDS[what]
        again = ocgl(*again_command, cwd=cwd, env=environment(cwd, what))
        assert again.code == 0, f"{said}, then {again}"
        assert outcome(what, cwd) == right, said


@pytest.mark.parametrize("largest", [1000, 4000])
@pytest.mark.parametrize("what", ["run", "bench", "pack", "report", "expansion", "cache"])
def test_a_write_that_fails_halfway_leaves_nothing(what: str, largest: int, ocgl: Zygote, tmp_path: Path) -> None:
    prepare(ocgl, what, tmp_path)
    fail = {"below": str(tmp_path), "largest": largest}
    ended = ocgl(*COMMANDS[what], cwd=tmp_path, env=environment(tmp_path, what), fail=fail)
    assert ended.code in (1, 2) and "Traceback" not in ended.text and "File too large" in ended.text, ended
    assert not list(tmp_path.rglob("*.part"))


def mounted(folder: Path, options: str) -> bool:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    return done.returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own of 200 kB; skipped where mounting is not allowed, unless OCGL_TMPFS says it must be."""
    folder = tmp_path / "disk"
    if not mounted(folder, "size=200k"):
        if os.environ.get("OCGL_TMPFS") == "required":
            pytest.fail("a tmpfs cannot be mounted")
        pytest.skip("a tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ocgl", *arguments], cwd=cwd, capture_output=True, text=True)


def test_a_full_disk_during_a_run_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(150_000))
    arguments = ["run", "--dataset", "digits", "--strategy", "linear", "--set", "batch_size=20"]
    ended = command(*arguments, "--out", "run", "--checkpoint-every", "5", cwd=small_disk)
    assert ended.returncode == 2 and "No space left on device" in ended.stderr, ended
    assert len(ended.stderr.strip().splitlines()) == 1
    (small_disk / "ballast").unlink()
    remount(small_disk, "size=100m")
    assert command("run", "--resume", "run", cwd=small_disk).returncode == 0
    assert command(*arguments, "--out", "run", cwd=tmp_path).returncode == 0
    ours, theirs = (json.loads((d / "run" / "result.json").read_text()) for d in (small_disk, tmp_path))
    assert {key: ours[key] for key in SCORES} == {key: theirs[key] for key in SCORES}
    assert not list(small_disk.rglob("*.part"))


def test_a_full_disk_during_a_bench_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    arguments = ["bench", "digits", "--strategies", "slda,linear", *COARSE]
    arguments += ["--set", "batch_size=60", "--out", "b", "--workers", "2"]
    (small_disk / "ballast").write_bytes(bytes(140_000))
    ended = command(*arguments, cwd=small_disk)
    assert ended.returncode == 1 and "No space left on device" in ended.stderr, ended
    assert "Traceback" not in ended.stderr
    kept = {run.id for run in ResultStore(small_disk / "b")}
    (small_disk / "ballast").unlink()
    remount(small_disk, "size=100m")
    assert command(*arguments, cwd=small_disk).returncode == 0
    assert command(*arguments, cwd=tmp_path).returncode == 0
    ours, theirs = (sorted(map(str, ResultStore(d / "b").rows())) for d in (small_disk, tmp_path))
    assert ours == theirs and kept <= {run.id for run in ResultStore(small_disk / "b")}
    assert not list(small_disk.rglob("*.part"))


@pytest.mark.parametrize("what", ["run", "bench", "pack", "report", "expansion", "json", "cache"])
def test_a_read_only_folder_is_said_in_one_line(what: str, small_disk: Path, ocgl: Zygote) -> None:
    remount(small_disk, "size=100m")
    prepare(ocgl, what, small_disk)
    remount(small_disk, "ro")
    arguments = (*RUN, "--json", "out.json") if what == "json" else COMMANDS[what]
    ended = ocgl(*arguments, cwd=small_disk, env=environment(small_disk, what))
    assert ended.code in (1, 2) and "Read-only file system" in ended.err, ended
    assert len(ended.err.strip().splitlines()) == 1, ended


def test_a_package_on_a_read_only_disk_works(small_disk: Path) -> None:
    """Machine code of kernels has nowhere to be kept: it is compiled in every process."""
    import ocgl

    remount(small_disk, "size=50m")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(ocgl.__file__).parent, small_disk / "ocgl", ignore=ignored)
    remount(small_disk, "ro")
    code = "import ocgl, numpy; s = ocgl.GraphStore(); s.add([1, 2], numpy.eye(2)); print(ocgl.__file__, len(s))"
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    env |= {"HOME": str(small_disk), "XDG_CACHE_HOME": str(small_disk), "PYTHONPATH": str(small_disk)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd="/")
    assert done.returncode == 0 and done.stdout.startswith(str(small_disk)), done
