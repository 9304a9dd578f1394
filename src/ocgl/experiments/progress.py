"""A progress bar in the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich import progress as bars
from rich.console import Console

from ocgl.experiments.experiment import Callback, Progress


@contextmanager
def progress_bar(console: Console | None = None) -> Iterator[Callback]:
    """Show a bar; what is given moves it after every step: batch, nodes, AP_t, nodes per second."""
    columns = (
        bars.TextColumn("batch {task.completed}/{task.total}"),
        bars.BarColumn(),
        bars.TextColumn("{task.fields[note]}"),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=console, transient=True) as shown:
        line = shown.add_task("run", total=None, note="loading")

        def move(progress: Progress) -> None:
            score = "" if progress.anytime is None else f"AP_t {100 * progress.anytime:5.1f}  "
            note = f"{progress.nodes:,} nodes  {score}{progress.nodes_per_second:,.0f} nodes/s"
            shown.update(line, completed=progress.step, total=progress.steps, note=note)

        yield move
