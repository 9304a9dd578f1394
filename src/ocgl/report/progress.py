"""A bar in the terminal for a run that goes on."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ocgl.benchmark.keep import Watch
from ocgl.benchmark.run import Progress as RunProgress


def bar(console: Console) -> Progress:
    """Make the bar."""
    return Progress(
        TextColumn("batch {task.completed}/{task.total}"),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def watcher(shown: Progress) -> Watch:
    """Give what moves the bar after every step: batch, nodes, anytime score, nodes per second."""
    line = shown.add_task("run", total=None, note="loading")

    def watch(progress: RunProgress) -> None:
        score = "" if progress.anytime is None else f"AP_t {100 * progress.anytime:5.1f}  "
        note = f"{progress.nodes:,} nodes  {score}{progress.nodes_per_second:,.0f} nodes/s"
        shown.update(line, completed=progress.step, total=progress.steps, note=note)

    return watch
