"""Senseless input, tracebacks and misleading words of 0.1.0: each test here was seen failing on that code."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import ocgl
from ocgl.errors import ConfigError, OcglError, StreamError
from ocgl.experiments.sweep import Group, GroupStatus, SweepStatus
from ocgl.graph import Graph, GraphStore
from ocgl.reporting.terminal import bench_table, status_table
from ocgl.strategies import Bare, Learner, make_strategy
from ocgl.streams import Stream, make_stream
from ocgl.testing import small_graph
from tests.test_cli import ocgl as cli

pytestmark = pytest.mark.slow
GRAPH = "sbm:nodes=300,edges=900,classes=4,width=6"
RUN = ("run", "--dataset", GRAPH, "--strategy", "linear", "--set", "batch_size=40")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must fail with one line; return it."""
    assert cli(*arguments) == 2
    text = capsys.readouterr().err
    assert "Traceback" not in text and "validation error" not in text
    return " ".join(text.split())


# 12. Accepted though senseless


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--set", "metric=f1:99"], "no node to score has class 99; classes: 0, 1, 2, 3"),
        (["--set", "split=[1,0,0]"], "split [1.0, 0.0, 0.0] leaves no test node to score"),
        (["--set", "eval_fanout=-1"], "eval_fanout = -1: it must be more than 0"),
        (["--set", 'lr="0.01"'], "lr = '0.01': it must be a number"),
        (["--set", 'batch_size="20"'], "batch_size = '20': it must be a whole number"),
        (["--set", "passes=true"], "passes = True: it must be a whole number"),
    ],
)
def test_senseless_options_are_refused(options: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert line in said(capsys, *RUN, *options)


def test_checkpoint_every_0_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(*RUN, "--out", str(tmp_path / "r"), "--checkpoint-every", "0") == 2
    assert "--checkpoint-every" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="checkpoint_every must be at least 1"):
        ocgl.evaluate("linear", GRAPH, batch_size=40, out=tmp_path / "s", checkpoint_every=0)


def test_a_learner_refuses_a_negative_eval_fanout() -> None:
    with pytest.raises(ConfigError, match="eval_fanout -1"):
        Learner(make_strategy("bare"), eval_fanout=-1)


def test_numbers_as_text_are_refused_in_python_and_numpy_s_are_taken() -> None:
    with pytest.raises(ValueError, match="lr"):
        Bare(lr="0.01")  # type: ignore[arg-type]
    assert Bare(lr=np.float64(0.01), passes=np.int64(2), fanout=[3, np.int32(4)]).fanout == (3, 4)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="batch_size"):
        make_stream(small_graph(), batch_size="10")


def test_a_time_stream_that_is_not_in_order_of_time_is_refused(tmp_path: Path) -> None:
    graph = small_graph()
    stream = make_stream(graph, "time", time_tasks=3)
    order = stream.order.copy()
    order[[5, 100]] = order[[100, 5]]
    object.__setattr__(stream, "order", order)
    stream.__dict__.pop("content_hash", None)
    stream.save(tmp_path / "s.npz")
    with pytest.raises(StreamError, match="claims an order of time, but node"):
        Stream.load(tmp_path / "s.npz")


# 12. Tracebacks


def test_ridge_with_huge_features_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    x = np.clip(rng.normal(size=(200, 5)) * 1e38, -3e38, 3e38).astype(np.float32)
    np.savez(tmp_path / "big.npz", x=x, y=rng.integers(4, size=200), edge_index=rng.integers(200, size=(2, 600)))
    assert "overflow in ridge" in said(capsys, "run", "--dataset", str(tmp_path / "big.npz"), "--strategy", "ridge")


MINE = """
from typing import ClassVar
from ocgl.strategies import Bare, strategy
{more}

@strategy
class Mine(Bare):
    name: ClassVar[str] = "mine"
    {body}
"""


def mine(folder: Path, more: str = "", body: str = "") -> str:
    (folder / "mine.py").write_text(MINE.format(more=more, body=body))
    return f"{folder / 'mine.py'}:Mine"


def test_a_strategy_file_imports_its_sibling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sibling_of_mine.py").write_text("LR = 0.5\n")
    name = mine(tmp_path, "from sibling_of_mine import LR", "lr: float = LR")
    assert cli("run", "--dataset", GRAPH, "--strategy", name, "--set", "batch_size=40") == 0
    assert make_strategy(name).hyperparameters()["lr"] == 0.5


def test_an_exception_inside_ocgl_check_names_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "def __post_init__(self):\n        raise ZeroDivisionError('no luck')"
    text = said(capsys, "check", mine(tmp_path, body=body))
    assert "ZeroDivisionError: no luck (mine.py, line 10, in __post_init__)" in text
    assert "1 / 0" not in text
    text = said(capsys, "check", mine(tmp_path, "1 / 0"))
    assert "mine.py cannot be imported: ZeroDivisionError: division by zero (mine.py, line 4" in text
    name = mine(tmp_path, body="def loss(self, examples):\n        raise KeyError('[a]')")
    assert cli("check", name) == 1
    assert "raises KeyError: '[a]' (mine.py, line 10, in loss)" in capsys.readouterr().out


def test_a_learner_takes_the_name_of_a_strategy_and_refuses_a_class() -> None:
    assert Learner("er").strategy.name == "er"
    with pytest.raises(ConfigError, match="not the class Bare"):
        Learner(Bare)  # type: ignore[arg-type]
    with pytest.raises(OcglError, match="did you mean er"):
        Learner("err")


def test_tensors_that_require_gradients_are_taken() -> None:
    store = GraphStore()
    store.add(torch.tensor([7, 8]), torch.eye(2, requires_grad=True), edges=torch.tensor([[8], [7]]))
    x = torch.ones(2, 3, requires_grad=True)
    graph = Graph.from_edges("g", torch.tensor([[0], [1]]), torch.tensor([0, 1]), x)  # type: ignore[arg-type]
    assert graph.width == 3 and len(store) == 2


def test_unused_parameters_of_a_module_do_not_move() -> None:
    from ocgl.nn.gradients import gradients_of

    module = torch.nn.Linear(2, 1)
    module.unused = torch.nn.Parameter(torch.ones(3))
    module.frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    found = gradients_of(module, module(torch.ones(1, 2)).sum())
    sizes = [None if isinstance(g, float) else float(g.abs().sum()) for g in found]  # type: ignore[union-attr]
    assert sizes == [2.0, 1.0, 0.0, 0.0]


# 12. Misleading


def test_a_list_without_brackets_is_answered_with_the_syntax(capsys: pytest.CaptureFixture[str]) -> None:
    assert "write fanout=[5,5]" in said(capsys, *RUN, "--set", "fanout=5,5")
    assert "write split=[0.6,0.2,0.2]" in said(capsys, *RUN, "--set", "split=0.6,0.2,0.2")


@pytest.mark.parametrize("option", ["fanout=-3", "eval_every=0", "stream_seed=-1", "ti_bins=x", "class_order=[1.5]"])
def test_pydantic_does_not_show_through(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, *RUN, "--set", option)
    for word in ("constrained", "literal[", "tuple[", "union[", "Input should", "Value error", "pydantic", "type="):
        assert word not in text, text


def test_a_broken_npz_file_does_not_advise_to_unpickle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.npz").write_bytes(b"not an archive")
    text = said(capsys, "run", "--dataset", str(tmp_path / "g.npz"), "--strategy", "bare")
    assert "pickle" not in text and "no .npz archive" in text


def test_ctrl_c_is_no_config_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ocgl", *RUN, "--set", "batch_size=1", "--out", "r", "--checkpoint-every", "2"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    begin = time.monotonic()
    while not (tmp_path / "r" / "checkpoint.safetensors").exists() and time.monotonic() - begin < 60:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    text = process.communicate(timeout=30)[1]
    assert process.returncode == 130 and "ConfigError" not in text and text.startswith("stopped; continue with:")


def test_a_failure_in_a_bench_keeps_its_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = mine(tmp_path, body="def loss(self, examples):\n        raise RuntimeError('no luck [here]')")
    arguments = [
        "bench",
        GRAPH,
        "--strategies",
        name,
        "--seeds",
        "1",
        "--tune-seeds",
        "1",
        "--grids",
        "coarse",
        "--set",
        "batch_size=40",
    ]
    assert cli(*arguments, "--out", str(tmp_path / "b"), "--workers", "1") == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "RuntimeError: no luck [here] (mine.py, line 10, in loss); traceback: " in told
    kept = next((tmp_path / "b" / "failures").iterdir())
    assert "raise RuntimeError('no luck [here]')" in kept.read_text()


# 13. What the terminal shows


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shown") / "b"
    arguments = [
        "bench",
        GRAPH,
        "--strategies",
        "linear,slda",
        "--seeds",
        "2",
        "--tune-seeds",
        "1",
        "--grids",
        "coarse",
    ]
    assert cli(*arguments, "--set", "batch_size=40", "--out", str(out), "--workers", "1") == 0
    return out


def test_results_can_be_read_at_80_columns(bench: Path) -> None:
    command = [sys.executable, "-m", "ocgl", "results", str(bench)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "80"}, check=True)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    ids = [line.split()[0] for line in lines if re.match(r"[0-9a-f]{8,} ", line)]
    assert len(ids) == 4
    assert cli("reproduce", ids[0], "--out", str(bench)) == 0


def test_the_bar_of_a_run_does_not_begin_with_none() -> None:
    from ocgl.experiments.progress import progress_bar

    out = io.StringIO()
    with progress_bar(Console(file=out, force_terminal=True, width=100)):
        time.sleep(0.3)
    assert "loading" in out.getvalue() and "None" not in out.getvalue()


def test_the_time_left_is_not_zero_minutes_with_jobs_to_go() -> None:
    status = SweepStatus(done=2, planned=52, groups={Group("er", "main", "4%"): GroupStatus(50)})
    out = io.StringIO()
    Console(file=out, width=150).print(status_table(status, 0.5))
    assert "about 0 min" not in out.getvalue() and "less than a minute left" in out.getvalue()


def test_the_first_run_says_that_it_compiles(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ocgl", *RUN]
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    first, second = (subprocess.run(command, capture_output=True, text=True, env=env, check=True) for _ in range(2))
    assert "compiling kernels" in first.stdout and "compiling" not in second.stdout


def test_names_with_brackets_keep_their_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "my[red]graph[x].npz"
    edges = rng.integers(60, size=(2, 90))
    np.savez(path, x=rng.random((60, 3)), edge_index=edges, y=np.arange(60) % 4)
    out = tmp_path / "o[bold]ut"
    assert cli("run", "--dataset", str(path), "--strategy", "linear", "--out", str(out)) == 0
    shown = re.sub(r"\s", "", capsys.readouterr().out)
    assert "my[red]graph[x].npz" in shown and "o[bold]ut" in shown
    values = json.loads((out / "result.json").read_text())
    from ocgl.experiments.parsing import parse_run

    stream = io.StringIO()
    Console(file=stream, width=300).print(bench_table([parse_run(json.dumps(values))]))
    assert "my[red]graph[x].npz" in stream.getvalue()


def test_every_error_can_be_sent_between_processes() -> None:
    import pickle

    from ocgl import errors

    samples: dict[str, tuple[Any, ...]] = {
        "UnknownNameError": ("strategy", "err", ["er"]),
        "MissingExtraError": ("a figure", "report"),
        "WriteError": ("a.json", OSError(28, "No space left on device")),
    }
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, OcglError)]
    assert len(kinds) > 25
    for kind in kinds:
        error = kind(*samples.get(kind.__name__, ("text",)))
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind and str(again) == str(error)
