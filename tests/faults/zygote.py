"""Runs `ocgl` commands in forked children of a warm process: a real process each, without seconds of imports.

As a program it reads one JSON request per line from standard input and answers with one JSON line. A child may crash,
hang or take memory: the answer tells its exit code or signal, its output, its time and its peak memory.
"""

import contextlib
import gc
import json
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.disk import FailingDisk

ROOT = Path(__file__).parents[2]
SMALL_CACHED = 50
"""Block models of this many nodes are cached in the children, so that small ones exercise the cache."""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: exit code; negative for a signal, None after a time-out.
        out: standard output.
        err: standard error.
        seconds: time taken.
        peak: peak resident memory in bytes; what the parent shares counts.
    """

    code: int | None
    out: str
    err: str
    seconds: float
    peak: int

    @property
    def text(self) -> str:
        """Everything that was printed."""
        return self.out + self.err


class Zygote:
    """A warm process that forks a child for each command; use it in a `with` block."""

    def __init__(self, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "COLUMNS": "200"} | environment,
        )

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def __call__(self, *arguments: str, cwd: Path, timeout: float = 60, **options: Any) -> Ended:
        """Run `ocgl ARGUMENTS` in a child; see `_child` for the options."""
        return self._ask({"arguments": arguments, "cwd": str(cwd), "timeout": timeout} | options)

    def python(self, code: str, cwd: Path, timeout: float = 60, **options: Any) -> Ended:
        """Run Python code in a child."""
        return self._ask({"code": code, "cwd": str(cwd), "timeout": timeout} | options)

    def many(self, requests: list[dict[str, Any]]) -> list[Ended]:
        """Run several commands, one after the other in one child as long as it lives, a new one after a crash."""
        return [Ended(**answer) for answer in self._send(requests)]

    def _ask(self, request: dict[str, Any]) -> Ended:
        return Ended(**self._send([request])[0])

    def _send(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(requests) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the zygote has died"
        found: list[dict[str, Any]] = json.loads(answer)
        return found


def _child(request: dict[str, Any]) -> None:
    """Become the command: `env` adds variables, `fail` makes the disk fail (see `tests.faults.disk`)."""
    os.chdir(request["cwd"])
    os.environ.update(request.get("env", {}))
    disk = FailingDisk(**request["fail"]) if "fail" in request else None
    try:
        if "code" in request:
            exec(compile(request["code"], "<child>", "exec"), {"__name__": "__main__"})
            return
        from ocgl.cli import main

        sys.argv = ["ocgl", *request["arguments"]]
        main()
    finally:
        if disk is not None:
            disk.end()


def _forget() -> None:
    """Forget what a command has left in memory, so that the next one in this process reads everything itself."""
    from ocgl import files
    from ocgl.experiments import trials

    files._cleaned.clear()
    trials._shared.cache_clear()


def _run_all(requests: list[dict[str, Any]], outputs: list[tuple[int, int]], told: int) -> None:
    """Run commands in this process; tell the exit code and the seconds of each when it has ended."""
    environment = dict(os.environ)
    for request, (out, err) in zip(requests, outputs, strict=True):
        os.dup2(out, 1)
        os.dup2(err, 2)
        begin, code = time.monotonic(), 1
        try:
            _child(request)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            traceback.print_exc()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os.write(told, struct.pack("id", code, time.monotonic() - begin))
        os.environ.clear()
        os.environ.update(environment)
        _forget()


def _answer(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run commands in a child, and in further ones if a command ends its child."""
    answers: list[dict[str, Any]] = []
    while len(answers) < len(requests):
        answers += _of_one_child(requests[len(answers) :])
    return answers


def _of_one_child(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    outputs = [(os.memfd_create("out"), os.memfd_create("err")) for _ in requests]
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            _run_all(requests, outputs, write)
        finally:
            os._exit(0)
    os.close(write)
    ended: list[tuple[int | None, float]] = []
    for request in requests:
        ready, _, _ = select.select([read], [], [], request["timeout"])
        message = os.read(read, struct.calcsize("id")) if ready else b""
        if not message:
            break
        ended.append(struct.unpack("id", message))
    else:
        ready = [read]
    os.close(read)
    if len(ended) < len(requests) and not ready:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if len(ended) < len(requests):
        ended.append((os.waitstatus_to_exitcode(status) if ready else None, requests[len(ended)]["timeout"]))
    answers = []
    for (code, seconds), pair in zip(ended, outputs, strict=False):
        out, err = (_content(descriptor) for descriptor in pair)
        answers.append({"code": code, "out": out, "err": err, "seconds": seconds, "peak": usage.ru_maxrss * 1024})
    for pair in outputs:
        for descriptor in pair:
            os.close(descriptor)
    return answers


def _content(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode(errors="replace")


def _warm_plotly() -> None:
    """Let plotly import what it imports when a figure is first drawn."""
    import plotly.graph_objects as go

    from ocgl.reporting.plots import LAYOUT, div

    marker = {"color": "#345", "size": 9, "symbol": "star", "opacity": 0.5, "line": {"width": 2}}
    for figure in (go.Figure(), go.Figure(go.Heatmap(z=[[1, 2]], colorscale="Viridis", hoverongaps=False))):
        figure.add_scatter(
            x=[1], y=[2], mode="markers+text", marker=marker, line={"width": 1, "dash": "dot"}, text=["a"],
            textposition="middle right", textfont={"size": 10}, error_y={"array": [1], "width": 4}, hovertext="a",
            hovertemplate="a", legendgroup="a", fill="toself", fillcolor="rgba(1,2,3,0.5)", name="a",
        )  # fmt: skip
        figure.add_vline(x=1, line={"width": 1, "dash": "dot", "color": "#999"}, annotation_text="a")
        figure.update_layout(**LAYOUT, xaxis_title="a", yaxis_title="b", yaxis_range=[0, 101], hovermode="x")
        figure.update_xaxes(type="log", tickvals=[1], ticktext=["a"], dtick=1, visible=True)
        figure.update_traces(selector={"type": "heatmap"}, texttemplate="%{z:.0f}", colorbar={"len": 1})
        div(figure, 100)


def main() -> None:
    """Import and warm everything that does not start threads, then serve."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import jinja2  # noqa: F401
    import plotly.graph_objects  # noqa: F401
    import polars  # noqa: F401 - imported, but not used: its threads would not survive a fork
    import safetensors.numpy  # noqa: F401
    import scipy.stats  # noqa: F401
    from plotly.offline import get_plotlyjs

    import ocgl.cli
    import ocgl.experiments.verify
    import ocgl.reporting.export
    import ocgl.reporting.page
    import ocgl.reporting.run_page
    import ocgl.testing
    from ocgl.code import code_name
    from ocgl.datasets import sbm
    from ocgl.reporting.page import environment
    from ocgl.strategies import names

    get_plotlyjs()
    for template in ("report.html", "run.html"):
        environment().get_template(template)
    _warm_plotly()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.subplots()[0].savefig(os.devnull, format="png")
    pyplot.close("all")
    for strategy in ("linear", "slda", "er"):
        ocgl.evaluate(strategy, "sbm:nodes=60,edges=120,classes=4,width=4", batch_size=20)
    for name in names():
        code_name(name)
    sbm.CACHED_NODES = SMALL_CACHED
    gc.collect()
    gc.freeze()
    warnings.simplefilter("always")
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
