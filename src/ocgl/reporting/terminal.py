"""Tables of results for the terminal."""

from collections import Counter

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ocgl.experiments.expansion import WINDOW, Expansion
from ocgl.experiments.forecast import Forecast
from ocgl.experiments.results import RunResult
from ocgl.experiments.sweep import SweepStatus
from ocgl.reporting.collect import METRICS, metrics_of, published_for
from ocgl.reporting.estimates import estimate_of, footnote, mark_of, sentence
from ocgl.reporting.methods import file_of
from ocgl.reporting.tables import SPREAD, per_update
from ocgl.strategies._core.backbones import title_of_backbone
from ocgl.text import printable
from ocgl.types import Json

KEYS = ("strategy", "dataset", "stream", "setting", "buffer", "profile")
"""Runs that agree in these are seeds of one table row."""


def result_table(result: RunResult) -> Group:
    """Return the scores, the cost and the protocol card of a run."""
    title = f"{_name_of(result)} on {result.dataset} ({result.stream} stream, profile {result.profile})"
    scores = Table(title=plain(title), title_justify="left")
    names = ("AAP", "AP", "AF", "AF_T", "prequential")
    estimate = sentence(result)
    for name in names:
        scores.add_column("AAP (estimate)" if estimate and name == "AAP" else name, justify="right")
    scores.add_row(*("-" if (value := result.score(name)) is None else f"{value:.2f}" for name in names))
    return Group(scores, *([estimate] if estimate else []), _cost(result), _card(result))


def cell(value: object) -> str:
    """Return a value of a row of results as text."""
    return "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def results_table(rows: list[Json]) -> Group:
    """Return the rows of a results folder as a table that fits a terminal of 80 columns.

    What all rows share stands above the table. An id is shortened to what no other id begins with; `ocgl reproduce`
    takes it like that.
    """
    if not rows:
        return Group("no runs")
    names = list(rows[0])
    differing = [n for n in names if len({row[n] for row in rows}) > 1 or n in ("id", "AAP", "AP")]
    columns = [n for n in differing if any(row[n] is not None for row in rows)]
    common = {n: rows[0][n] for n in names if n not in columns and rows[0][n] is not None}
    width = _unique_prefix([str(row["id"]) for row in rows])
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in columns:
        text = name in ("dataset", "strategy", "setting", "stream", "profile")
        table.add_column(name, overflow="fold", no_wrap=not text, justify="left" if text or name == "id" else "right")
    for row in rows:
        shown = row | {"id": str(row["id"])[:width]}
        table.add_row(*(plain(cell(shown[name])) for name in columns))
    return Group(plain(", ".join(f"{name} {cell(value)}" for name, value in common.items())), table)


def _unique_prefix(ids: list[str], least: int = 8) -> int:
    """Return how many characters tell ids apart.

    >>> _unique_prefix(["aaaaaaaaaa", "aaaaaaaaab"])
    10
    """
    longest = max(map(len, ids))
    return next((n for n in range(least, longest) if len({name[:n] for name in ids}) == len(set(ids))), longest)


def plain(text: object) -> Text:
    """Return a text that is shown as it is: no markup, and no control characters."""
    return Text(printable(text))


def time_left(seconds: float) -> str:
    """Return a rough time in words.

    >>> time_left(20), time_left(150), time_left(9000)
    ('less than a minute', 'about 2 min', 'about 2.5 h')
    """
    if seconds < 60:
        return "less than a minute"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def forecast_text(found: Forecast, workers: int | None) -> str:
    """Return about how long a sweep will take, in words.

    >>> forecast_text(Forecast(7200.0, 0.0, 100, 10), 2)
    '100 trials and 10 runs to compute: about 2.0 h of one core, about 60 min with 2 workers'
    """
    if not found.trials and not found.runs:
        return "nothing to compute: all trials and runs are there"
    text = f"{found.trials} trials and {found.runs} runs to compute: {time_left(found.seconds)} of one core"
    if workers is not None and workers > 1:
        text += f", {time_left(found.seconds / workers)} with {workers} workers"
    if found.unknown:
        text += f" (without {', '.join(found.unknown)})"
    if found.tied_seconds:
        text += f"; tied configurations: up to {time_left(found.tied_seconds)} of one core more"
    return text


def expansion_table(found: Expansion) -> Table:
    """Return the number of nodes that batches reach: single batches, and the rolling mean of Figure 2."""
    table = Table(title=plain(f"{found.dataset}: nodes reached per batch"), title_justify="left")
    heads = ("hops", "all: mean", "all: most in one batch", f"all: most, mean of {WINDOW} batches")
    for name in (*heads, "capped: mean", "capped: most", "bound"):
        table.add_column(name, justify="right")
    for row in found.table():
        single = f"{row['full_max']:,} ({row['full_max_share']:.1%} of nodes)"
        rolling = f"{row['full_rolling_max']:,.0f} ({row['full_rolling_max_share']:.1%} of nodes)"
        capped = (f"{row['capped_mean']:,.0f}", f"{row['capped_max']:,}", f"{row['bound']:,}")
        table.add_row(str(row["hops"]), f"{row['full_mean']:,.0f}", single, rolling, *capped)
    return table


def status_table(status: SweepStatus, seconds: float) -> Group:
    """Return the progress of a sweep: trials, the best configuration of each method so far, and the time left.

    Args:
        status: status of the sweep.
        seconds: time since the sweep was started.
    """
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("method", "trials", "best so far", "with", "seeds", "AAP", "AP"):
        table.add_column(name, justify="left" if name in ("method", "with") else "right", no_wrap=name != "with")
    for group, progress in status.groups.items():
        label = f"{group.strategy} ({group.setting}, {group.buffer})"
        best = f"{progress.best:.2f}" if progress.best > float("-inf") else ""
        scores = [[value for run in progress.runs if (value := run.score(m)) is not None] for m in ("AAP", "AP")]
        means = [f"{np.mean(values):.2f}" if values else "" for values in scores]
        means[0] += mark_of(estimate_of(progress.runs))
        counts = (f"{progress.tried}/{progress.trials}", f"{len(progress.runs)}/{progress.seeds}")
        chosen = plain(_configuration_text(progress.configuration))
        table.add_row(plain(label), counts[0], best, chosen, counts[1], *means)
    computed, left = status.done - status.reused, status.planned - status.done - len(status.failed)
    rest = f"{time_left(left * seconds / computed)} left" if computed else "time left unknown"
    progress_text = (
        f"{status.done} of {status.planned} done ({status.reused} from earlier calls), {status.running} running"
    )
    marks = footnote(estimate_of(progress.runs) for progress in status.groups.values())
    return Group(table, *([marks] if marks else []), f"{progress_text}, {len(status.failed)} failed, {rest}")


def _configuration_text(configuration: Json) -> str:
    return ", ".join(f"{key}={value}" for key, value in configuration.items())


def bench_table(results: list[RunResult]) -> Table:
    """Return mean and standard deviation over seeds next to the published numbers, best AP first."""
    groups: dict[tuple[str, ...], list[RunResult]] = {}
    alike = Counter(_name_of(run) for run in {run.config.method: run for run in results}.values())
    for result in results:
        name = _name_of(result)
        names = {"strategy": f"{name} [{file_of(result.config.method)}]" if alike[name] > 1 else name}
        groups.setdefault(tuple(names.get(key) or str(getattr(result, key)) for key in KEYS), []).append(result)
    shared = [i for i in range(1, len(KEYS)) if len({key[i] for key in groups}) == 1]
    title = ", ".join(f"{KEYS[i]} {next(iter(groups))[i]}" for i in shared)
    profiles = {run.profile for run in results}
    metrics = metrics_of(profiles.pop()) if len(profiles) == 1 else METRICS
    theirs = any(_published(runs[0], metric) for runs in groups.values() for metric in metrics)
    marks = footnote(map(estimate_of, groups.values()))
    table = Table(title=plain(f"{SPREAD}; {title}"), title_justify="left", caption=marks, caption_justify="left")
    for i, name in enumerate((*KEYS, "seeds")):
        if i not in shared:
            table.add_column(name, overflow="fold", no_wrap=name == "seeds")
    for metric in metrics:
        for name in (metric, "published") if theirs else (metric,):
            table.add_column(name, justify="right", no_wrap=True)
    for key, runs in sorted(groups.items(), key=lambda item: -float(np.mean([run.AP or 0 for run in item[1]]))):
        cells = [cell for metric in metrics for cell in _ours_and_published(runs, metric)[: 1 + theirs]]
        table.add_row(*(plain(value) for i, value in enumerate(key) if i not in shared), str(len(runs)), *cells)
    return table


def _name_of(run: RunResult) -> str:
    """Return the name of a strategy, with its network where that is not the GCN."""
    network = run.config.network
    return run.strategy if network is None else f"{run.strategy} ({title_of_backbone(network)})"


def _published(run: RunResult, metric: str) -> tuple[float, float] | None:
    return published_for(run.dataset, run.config.method, metric, run.stream, run.setting, run.buffer)


def _ours_and_published(runs: list[RunResult], metric: str) -> tuple[str, str]:
    values = [value for run in runs if (value := run.score(metric)) is not None]
    ours = f"{np.mean(values):.2f} ± {np.std(values):.2f}" if len(values) == len(runs) else "-"
    ours += mark_of(estimate_of(runs) if metric == "AAP" else None).replace(" (", "\n(")
    theirs = _published(runs[0], metric)
    return ours, "-" if theirs is None else f"{theirs[0]:.2f} ± {theirs[1]:.2f}"


def _cost(result: RunResult) -> Table:
    table = Table(show_header=False, box=None)
    each = per_update(result)
    table.add_row("updates", f"{result.updates:,}" + (f" at {each} ms" if each else ""))
    table.add_row("evaluation", f"{result.evaluate_seconds:.1f} s")
    table.add_row("memory of the method", f"{result.memory_bytes / 1e6:.1f} MB, {result.memory_nodes:,} nodes")
    if result.nonfinite_losses:
        table.add_row("[red]diverged", f"{result.nonfinite_losses:,} losses were not finite")
    return table


def _card(result: RunResult) -> Table:
    table = Table(title="protocol", title_justify="left", show_header=False, box=None)
    for name, value in result.protocol.items():
        if name != "options" and value:
            table.add_row(Text(name, "dim"), plain("; ".join(map(str, value)) if isinstance(value, list) else value))
    return table
