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
import subprocess
import sys
import time
import traceback
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

    def _ask(self, request: dict[str, Any]) -> Ended:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the zygote has died"
        return Ended(**json.loads(answer))


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


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    out, err = (os.memfd_create(name) for name in ("out", "err"))
    begin = time.monotonic()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            os.dup2(out, 1)
            os.dup2(err, 2)
            _child(request)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    descriptor = os.pidfd_open(pid)
    ended, _, _ = select.select([descriptor], [], [], request["timeout"])
    os.close(descriptor)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    exit_code = os.waitstatus_to_exitcode(status) if ended else None
    texts = []
    for descriptor in (out, err):
        os.lseek(descriptor, 0, os.SEEK_SET)
        with os.fdopen(descriptor, "rb") as file:
            texts.append(file.read().decode(errors="replace"))
    seconds = time.monotonic() - begin
    return {"code": exit_code, "out": texts[0], "err": texts[1], "seconds": seconds, "peak": usage.ru_maxrss * 1024}


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
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
