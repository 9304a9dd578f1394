"""A network in a user's file, from `ocgl check` to the report: GATv2 layers, batch normalisation and dropout."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ocgl.cli.common import app
from ocgl.cli.sweeps import _with_keys
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.run_directory import CHECKPOINT, MODEL
from ocgl.reporting.terminal import bench_table
from ocgl.state import State
from ocgl.testing import same

pytestmark = pytest.mark.slow
NET = '''
import torch
from torch_geometric.nn import BatchNorm, GATv2Conv

class Attentive(torch.nn.Module):
    """GATv2 with batch normalisation and dropout."""

    def __init__(self, in_channels, hidden, layers):
        super().__init__()
        widths = [in_channels, *[hidden] * layers]
        self.convs = torch.nn.ModuleList(GATv2Conv(a, b) for a, b in zip(widths, widths[1:]))
        self.norms = torch.nn.ModuleList(BatchNorm(hidden) for _ in range(layers))

    def forward(self, x, edge_index, edge_weight=None):
        for conv, norm in zip(self.convs, self.norms):
            x = torch.dropout(norm(conv(x, edge_index)).relu(), 0.3, self.training)
        return x
'''
runner = CliRunner()


@pytest.fixture
def spec(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NET)
    return f"{tmp_path}/net.py:Attentive"


@pytest.mark.parametrize("strategy", ["er", "ewc"])
def test_the_checks_pass(strategy: str, spec: str) -> None:
    result = runner.invoke(app, ["check", strategy, "--set", f"backbone={spec}", "--set", "hidden=8"])
    assert result.exit_code == 0 and result.output.count("holds") >= 17, result.output


def run(strategy: str, spec: str, out: Path) -> list[str]:
    command = [sys.executable, "-m", "ocgl", "run", "--dataset", "digits", "--strategy", strategy]
    options = (f"backbone={spec}", "hidden=8", "passes=2", "eval_every=40", "batch_size=20")
    return [*command, "--out", str(out), *(part for option in options for part in ("--set", option))]


@pytest.mark.parametrize("strategy", ["er", "ewc"])
def test_a_killed_run_goes_on_bit_equal(strategy: str, spec: str, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(run(strategy, spec, whole), check=True, capture_output=True)
    process = subprocess.Popen([*run(strategy, spec, killed), "--checkpoint-every", "7"], stdout=subprocess.DEVNULL)
    begin = time.monotonic()
    while not (killed / CHECKPOINT).exists():
        assert process.poll() is None and time.monotonic() - begin < 120
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    command = [sys.executable, "-m", "ocgl", "run", "--resume", str(killed)]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode != 0 and "--trust" in refused.stderr
    subprocess.run([*command, "--trust"], check=True, capture_output=True)
    found = [json.loads((folder / "result.json").read_text()) for folder in (whole, killed)]
    for score in ("AP", "AAP", "AF", "matrix", "updates"):
        assert found[0][score] == found[1][score], score
    assert found[0]["title"] == f"{'ER' if strategy == 'er' else 'EWC'} (Attentive)"
    assert same(*(State.load(folder / MODEL) for folder in (whole, killed)))


def test_an_edited_network_is_no_longer_the_run_that_was_begun(spec: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen([*run("bare", spec, out), "--checkpoint-every", "7"], stdout=subprocess.DEVNULL)
    while not (out / CHECKPOINT).exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    (tmp_path / "net.py").write_text(NET.replace("0.3", "0.4"))
    command = [sys.executable, "-m", "ocgl", "run", "--resume", str(out), "--trust"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode != 0 and "network.py" in refused.stderr, refused.stderr


def test_bench_and_report_show_it_under_its_name(spec: str, tmp_path: Path) -> None:
    out, page = tmp_path / "results", tmp_path / "report.html"
    sets = ("batch_size=50", "eval_every=10", "hidden=8", "lr=0.01", "passes=1")
    given = [part for option in sets for part in ("--set", option)]
    options = ["--out", str(out), "--seeds", "2", "--tune-seeds", "1", "--workers", "1", *given]
    for network in ([], ["--set", f"backbone={spec}"], ["--set", "backbone=sage"]):
        result = runner.invoke(app, ["bench", "digits", "--strategies", "bare", *options, *network])
        assert result.exit_code == 0, result.output
    assert runner.invoke(app, ["report", str(out), "-o", str(page)]).exit_code == 0
    text = page.read_text()
    for title in ("bare (Attentive)", "bare (sage)", ">bare<"):
        assert title in text, title
    again = runner.invoke(app, ["bench", "digits", "--strategies", "bare", *options, "--set", f"backbone={spec}"])
    assert again.exit_code == 0 and "Attentive" in again.output, again.output


def test_two_networks_of_one_class_name_are_told_apart(tmp_path: Path) -> None:
    out, page = tmp_path / "results", tmp_path / "report.html"
    simple = "import torch\nclass Net(torch.nn.Module):\n    uses_edges = False\n"
    simple += (
        "    def __init__(self, a, b, c):\n        super().__init__()\n        self.linear = torch.nn.Linear(a, b)\n"
    )
    for folder, act in (("first", "relu"), ("second", "tanh")):
        (tmp_path / folder).mkdir()
        forward = f"    def forward(self, x, edge_index):\n        return self.linear(x).{act}()\n"
        (tmp_path / folder / "net.py").write_text(simple + forward)
        given = ["--set", f"backbone={tmp_path}/{folder}/net.py:Net", "--set", "lr=0.01", "--set", "passes=1"]
        options = ["--out", str(out), "--seeds", "1", "--tune-seeds", "1", "--workers", "0", "--eval-every", "20"]
        result = runner.invoke(app, ["bench", "digits", "--strategies", "bare", *options, *given])
        assert result.exit_code == 0, result.output
    assert runner.invoke(app, ["report", str(out), "-o", str(page)]).exit_code == 0
    for title in ("bare (Net) [first/net.py]", "bare (Net) [second/net.py]"):
        assert title in page.read_text(), title
    listed = Console(width=200, record=True, file=io.StringIO())
    listed.print(bench_table(list(ResultStore(out).runs)))
    text = listed.export_text()
    assert "[first/net.py]" in text and "[second/net.py]" in text


def test_a_key_that_only_some_methods_have_leaves_out_the_others() -> None:
    chosen = _with_keys(["bare", "er", "linear", "ridge"], {"backbone": "sage", "batch_size": 20})
    assert chosen == ("bare", "er")
    assert _with_keys(["ridge"], {"nonsense": 1}) == ("ridge",)  # refused later, by name
