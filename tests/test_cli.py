import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ocgl.cli import main


def ocgl(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["ocgl", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def test_run_leaves_a_result_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, file = tmp_path / "run", tmp_path / "r.json"
    settings = ["--set", "lr=0.01", "--set", "batch_size=50"]
    assert (
        ocgl("run", "--dataset", "digits", "--strategy", "linear", *settings, "--out", str(out), "--json", str(file))
        == 0
    )
    printed = capsys.readouterr().out
    assert "AAP" in printed and "protocol" in printed and "report.html" in printed
    result = json.loads(file.read_text())
    needed = "dataset stream strategy seed hyperparameters AP AF AF_T AAP matrix updates learn_seconds"
    for key in (*needed.split(), "evaluate_seconds", "peak_rss_bytes", "protocol"):
        assert key in result
    page = (out / "report.html").read_text()
    assert "Protocol card" in page and result["stream_hash"] in page
    assert ocgl("run", "--resume", str(out)) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["run", "--dataset", "digits", "--strategy", "linaer"],
            "UnknownNameError: unknown strategy 'linaer'; did you",
        ),
        (["run", "--dataset", "digts", "--strategy", "bare"], "unknown dataset"),
        (["run", "--dataset", "digits", "--strategy", "bare", "--set", "lrr=1"], "did you mean lr"),
        (["run", "--dataset", "digits", "--strategy", "bare", "--stream", "clas"], "ConfigError"),
        (["run", "--strategy", "bare"], "--dataset"),
        (["run", "--resume", "/nowhere"], "ResumeError"),
        (["run", "--dataset", "digits", "--strategy", "bare", "--stream", "domain"], "domain"),
        (["run", "--dataset", "no.npz", "--strategy", "bare"], "no.npz"),
        (["expansion", "--dataset", "digits", "--hops", "x"], "--hops"),
        (["expansion", "--dataset", "digits", "--out", "e.xyz"], ".png, .pdf or .svg"),
        (["verify", "/nowhere"], "/nowhere holds no results"),
        (["run", "--dataset", "digits", "--strategy", "bare", "--set", "buffer=inf"], "buffer"),
        (["run", "--dataset", "digits", "--strategy", "bare", "--json", "."], "is a folder"),
        (["run", "--dataset", "digits", "--strategy", "bare", "--out", "/dev/null/x"], "cannot write"),
        (["run", "--resume", "x", "--seed", "5", "--set", "lr=1"], "--seed, --set: a resumed run goes on"),
    ],
)
def test_a_typo_gives_one_clear_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ocgl(*arguments) == 2
    text = " ".join(capsys.readouterr().err.split())
    assert said in text and "Traceback" not in text


def test_datasets_and_strategies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert ocgl("datasets") == 0 and ocgl("strategies") == 0
    printed = capsys.readouterr().out
    for name in ("corafull", "arxiv", "reddit", "amazon-computer", "products", "roman-empire", "elliptic", "digits"):
        assert name in printed
    assert "bare" in printed and "linear" in printed


def test_expansion_draws_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = tmp_path / "e.png"
    assert ocgl("expansion", "--dataset", "digits", "--hops", "1,2", "--out", str(figure)) == 0
    assert figure.stat().st_size > 10_000 and figure.with_suffix(".csv").read_text().startswith("batch,nodes,full_1")
    assert "bound" in capsys.readouterr().out


def test_expansion_needs_no_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = np.random.default_rng(0).integers(0, 80, (2, 300))
    np.savez(tmp_path / "bare.npz", edge_index=edges)
    assert ocgl("expansion", "--dataset", str(tmp_path / "bare.npz"), "--out", str(tmp_path / "e.png")) == 0
    assert "bare: nodes reached per batch" in capsys.readouterr().out and (tmp_path / "e.csv").exists()


def test_your_own_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "mine.npz"
    y = np.arange(60) % 4
    np.savez(path, x=rng.random((60, 3)), edge_index=rng.integers(60, size=(2, 90)), y=y)
    assert ocgl("run", "--dataset", str(path), "--strategy", "bare", "--set", "hidden=4") == 0
    assert "mine" in capsys.readouterr().out


def test_a_strategy_in_a_file_is_run_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[1] / "docs" / "add-a-strategy.md").read_text()
    source = page.split("write_text('''")[1].split("''')")[0]
    assert len(source.strip().splitlines()) < 50
    file = tmp_path / "smooth.py"
    file.write_text(source)
    assert ocgl("check", f"{file}:Smooth", "--set", "smoothing=0.3") == 0
    assert capsys.readouterr().out.count("holds") >= 14
    assert ocgl("run", "--dataset", "digits", "--strategy", f"{file}:Smooth", "--set", "batch_size=60") == 0
    file.write_text(source.replace("self.smoothing", "float(__import__('torch').rand(()))"))
    assert ocgl("check", f"{file}:Smooth") == 1
    assert "same seed" in capsys.readouterr().out


def test_bench_results_and_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "b"
    arguments = ["bench", "digits", "--out", str(out), "--strategies", "bare", "--seeds", "2", "--workers", "1"]
    arguments += ["--tune-seeds", "1"]
    quick = ["--set", "batch_size=100", "--set", "fanout=2", "--set", "hidden=8"]
    assert ocgl(*arguments, *quick) == 0
    assert "bare" in capsys.readouterr().out
    assert ocgl("results", str(out), "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["seed"] for row in rows] == [0, 1] or [row["seed"] for row in rows] == [1, 0]
    assert ocgl("results", str(out), "--format", "csv", "--strategy", "er") == 0
    assert capsys.readouterr().out.startswith("id,dataset")
    assert ocgl("reproduce", rows[0]["id"][:10], "--out", str(out)) == 0
    assert "bit-equal" in capsys.readouterr().out
    assert ocgl("bench", "digits", "--out", str(out), "--strategies", "baer") == 2
    assert ocgl(*arguments, "--log", "tensorbord:x") == 2  # told before the sweep, not after it


def test_ctrl_c_stops_a_bench_at_once_and_what_is_finished_stays(tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    command = [sys.executable, "-m", "ocgl.cli", "bench", "digits", "--out", str(out), "--strategies", "linear"]
    command += ["--workers", "2", "--seeds", "1", "--tune-seeds", "1", "--set", "batch_size=20"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    begin = time.monotonic()
    while len(list(out.glob("[!.]*/result.json"))) < 3:
        time.sleep(0.05)
        assert process.poll() is None and time.monotonic() - begin < 90
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: parent and workers get it
    _, told = process.communicate(timeout=20)
    assert process.returncode == 130 and "the same command continues" in told and "Traceback" not in told
    kept = sorted(path.parent.name for path in out.glob("[!.]*/result.json"))
    assert 3 <= len(kept) < 25
    with pytest.raises(ProcessLookupError):  # soon nobody of its group is left
        for _ in range(100):
            os.killpg(process.pid, 0)
            time.sleep(0.05)
    assert subprocess.run([*command, "--grids", "coarse"], capture_output=True, timeout=120).returncode == 0
    assert set(kept) <= {path.parent.name for path in out.glob("[!.]*/result.json")}


def test_ctrl_c_inside_a_compiled_kernel_is_ctrl_c(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Python calls it a SystemError there, with Ctrl-C as its cause."""

    def interrupted(*_: object, **__: object) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("ocgl.experiments.experiment.Experiment.step", interrupted)
    assert ocgl("run", "--dataset", "digits", "--strategy", "slda", "--out", str(tmp_path / "r")) == 130
