"""A progress bar in the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich import progress as bars
from rich.console import Console

from ocgl.experiments.experiment import Callback, Progress

COMPILING = "compiling kernels: this takes about 20 seconds once on a machine"


@contextmanager
def progress_bar(console: Console | None = None) -> Iterator[Callback]:
    """Show a bar; what is given moves it after every step: batch, nodes, AP_t, nodes per second.

    While kernels are compiled, which happens once on a machine, a line says so.
    """
    columns = (
        bars.TextColumn("{task.fields[count]}"),
        bars.BarColumn(),
        bars.TextColumn("{task.fields[note]}"),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=console, transient=True) as shown:
        line = shown.add_task("run", total=None, count="", note="loading")

        def move(progress: Progress) -> None:
            score = "" if progress.anytime is None else f"AP_t {100 * progress.anytime:5.1f}  "
            note = f"{progress.nodes:,} nodes  {score}{progress.nodes_per_second:,.0f} nodes/s"
            count = f"batch {progress.step}/{progress.steps}"
            shown.update(line, completed=progress.step, total=progress.steps, count=count, note=note)

        with _saying_when_compiling(shown.console):
            yield move


@contextmanager
def _saying_when_compiling(console: Console) -> Iterator[None]:
    """Print a line when a kernel is compiled for the first time; one that is loaded from disk is silent."""
    from numba.core import event

    class Speaker(event.Listener):
        said = False

        def on_start(self, event: Any) -> None:
            if not self.said:
                self.said = True
                console.print(COMPILING, highlight=False)

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Speaker()):
        yield
