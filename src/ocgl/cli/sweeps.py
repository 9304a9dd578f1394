"""Commands for many runs: `bench`, `results`, `verify`, `report` and `reproduce`."""

import csv
import io
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live

from ocgl.cli.common import LEFT_OUT, DataRoot, Log, StreamKind, Trust, app, console, interruptible, say, say_left_out
from ocgl.errors import ConfigError, DamagedFileError, Interrupted
from ocgl.text import printable
from ocgl.types import Json

MOST_TIES = 4
"""As `ocgl.experiments.selection.MOST_TIES`, which would load torch to show the help."""

if TYPE_CHECKING:
    from ocgl.experiments import SweepStatus
    from ocgl.experiments.verify import Verdict


@app.command()
def bench(
    dataset: Annotated[str, typer.Argument(help="A name from `ocgl datasets`, or a path to an .npz file.")],
    out: Annotated[Path, typer.Option(help="Folder for all results; the same command continues what is there.")],
    strategies: Annotated[str, typer.Option(help="Names from `ocgl strategies`, separated by commas, or all.")] = "all",
    stream: StreamKind = "class",
    settings: Annotated[
        str,
        typer.Option(
            help="Settings of the paper, separated by commas: main, larger-batch, full-neighborhood, hidden-512, "
            "hidden-128, layers-3, layers-1."
        ),
    ] = "main",
    profile: Annotated[
        str, typer.Option(help="Reading of the paper: paper, textbook (symmetric GCN) or first-reading.")
    ] = "paper",
    seeds: Annotated[int, typer.Option(help="Runs of each selected configuration, one per seed.", min=1)] = 5,
    buffers: Annotated[
        str, typer.Option(help="Buffer sizes, separated by commas, such as 1%,2%,4% (default: the dataset's largest).")
    ] = "",
    eval_every: Annotated[int, typer.Option(help="Evaluate after every K-th batch.")] = 1,
    select_at: Annotated[
        str | None, typer.Option(help="Select configurations at this buffer size only, and use them for all sizes.")
    ] = None,
    grids: Annotated[str, typer.Option(help="Search spaces: paper, half, or coarse for a quick overview.")] = "paper",
    halving: Annotated[bool, typer.Option(help="Drop weak configurations early (successive halving).")] = False,
    tune_seeds: Annotated[
        int | None,
        typer.Option(
            help="Seeds to select with: all configurations with one, the best quarter with all (default: 5 for "
            "profiles paper and textbook, else 1).",
            min=1,
        ),
    ] = None,
    ties: Annotated[
        int, typer.Option(help="Most configurations tied with the selected one to run as well.", min=0)
    ] = MOST_TIES,
    override: Annotated[
        list[str] | None, typer.Option("--set", help="key=value for every trial and run; may be repeated.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where networks compute: auto, cpu, cuda or mps.")] = "cpu",
    workers: Annotated[
        int, typer.Option(help="Worker processes, one thread each; 0 for this process.", min=0)
    ] = os.cpu_count() or 1,
    cluster: Annotated[str | None, typer.Option(help="Address of a dask scheduler; replaces --workers.")] = None,
    budget_minutes: Annotated[
        float | None, typer.Option(help="Stop after this many minutes; the same command continues.")
    ] = None,
    log: Log = None,
    store: Annotated[
        str, typer.Option(help="Where runs store the graph: memory, disk, auto, or redis://HOST:PORT/NAME.")
    ] = "auto",
    data_root: DataRoot = None,
) -> None:
    """Tune every strategy on the first tasks, then run the selected configurations with every seed."""
    from ocgl.experiments import ResultStore, Sweep, loggers, run_sweep
    from ocgl.experiments.config import parse_override
    from ocgl.experiments.executors import LocalExecutor, make_executor
    from ocgl.experiments.forecast import forecast
    from ocgl.reporting.terminal import bench_table, forecast_text, status_table
    from ocgl.strategies import names

    changed = dict(map(parse_override, override or ())) | ({} if device == "cpu" else {"device": device})
    chosen = _with_keys(names(), changed) if strategies == "all" else tuple(strategies.split(","))
    sizes = tuple(part for part in buffers.split(",") if part)
    parts = tuple(settings.split(","))
    sweep = Sweep(
        dataset,
        chosen,
        out,
        stream,
        parts,
        profile,
        seeds,
        sizes,
        eval_every=eval_every,
        overrides=changed,
        data_root=data_root,
        store=store,
        select_at=select_at,
        halving=halving,
        grids=grids,
        tune_seeds=tune_seeds,
        ties=ties,
    )
    for group in sweep.groups():  # raises for unknown names and values before a logger or a worker is started
        sweep.config(group, {})
    logs = [loggers.make_logger(text) for text in log or ()]
    counts = ", ".join(f"{group.strategy} {len(sweep.grid(group))}" for group in sweep.groups())
    say(f"configurations per strategy: {counts}")
    with console.status("measuring a few batches of each method"):
        say(forecast_text(forecast(sweep), workers if cluster is None else None))
    with make_executor(workers, cluster) as pool, Live(console=console, transient=True) as live:
        begin = time.monotonic()

        def show(status: "SweepStatus") -> None:
            live.update(status_table(status, time.monotonic() - begin))

        try:
            with interruptible():
                status = run_sweep(sweep, pool, show, budget_minutes)
        except KeyboardInterrupt as error:
            if isinstance(pool, LocalExecutor):
                pool.stop()
            raise Interrupted(f"stopped; finished results are in {out}, and the same command continues") from error
        except BaseException:
            if isinstance(pool, LocalExecutor):
                pool.stop()
            raise
    for failure in status.failed:
        say(failure, error=True)
    results = ResultStore(out)
    runs = [run for group in status.groups.values() for run in group.runs]
    list(results)  # finds what is damaged
    for logger in logs:
        for result in runs:
            loggers.log_stored(logger, results, result)
    console.print(bench_table(runs))
    left_out = say_left_out(results.damaged.values())
    if status.failed:
        raise typer.Exit(1)
    raise typer.Exit(LEFT_OUT if left_out else 0)


def _with_keys(every: list[str], overrides: Json) -> tuple[str, ...]:
    """Return the strategies that all keys of --set mean something to; the others are named and left out."""
    from ocgl.experiments.config import accepts

    chosen = tuple(name for name in every if all(accepts(name, key) for key in overrides))
    if not chosen:
        return tuple(every)  # the error names the key
    if left_out := [name for name in every if name not in chosen]:
        say(f"left out, without {', '.join(overrides)}: {', '.join(left_out)}")
    return chosen


@app.command()
def results(
    folder: Annotated[Path, typer.Argument(help="Results folder of `ocgl bench`.")],
    strategy: Annotated[str | None, typer.Option(help="List runs of this strategy only.")] = None,
    dataset: Annotated[str | None, typer.Option(help="List runs on this dataset only.")] = None,
    setting: Annotated[
        str | None, typer.Option(help="List runs of this setting only (see `ocgl bench --settings`).")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="Output format: table, csv or json.")] = "table",
    pack: Annotated[bool, typer.Option(help="First merge the folders of all results into two Parquet files.")] = False,
) -> None:
    """List the finished runs of a results folder."""
    from ocgl.experiments.result_store import COLUMNS, ResultStore
    from ocgl.reporting.terminal import cell, results_table

    if form not in ("table", "csv", "json"):
        raise ConfigError(f"unknown --format {form!r}; choose table, csv or json")
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; give a results folder of `ocgl bench`")
    if pack:
        ResultStore(folder).pack()
    wanted = {"strategy": strategy, "dataset": dataset, "setting": setting}
    store = ResultStore(folder)
    rows = store.rows(**{key: value for key, value in wanted.items() if value is not None})
    if form == "json":
        typer.echo(json.dumps(rows, indent=1))
    elif form == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([COLUMNS, *([printable(cell(row[c])) for c in COLUMNS] for row in rows)])
        typer.echo(out.getvalue(), nl=False)
    else:
        console.print(results_table(rows))
    raise typer.Exit(LEFT_OUT if say_left_out(store.damaged.values()) else 0)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="Results folder of `ocgl bench`.")],
    each: Annotated[int, typer.Option(help="Runs, and trials, to re-run per method.", min=1)] = 1,
    adopt: Annotated[bool, typer.Option(help="Mark results of methods that pass as valid for this version.")] = False,
    trust: Trust = False,
    workers: Annotated[
        int, typer.Option(help="Worker processes, one thread each; 0 for this process.", min=0)
    ] = os.cpu_count() or 1,
    data_root: DataRoot = None,
) -> None:
    """Check stored results, then re-run a sample of them and compare: equal to the bit, or not."""
    from ocgl.experiments import verify as checking
    from ocgl.experiments.executors import LocalExecutor, make_executor
    from ocgl.experiments.result_store import ResultStore
    from ocgl.experiments.trust import MEMORY

    store = ResultStore(folder)
    if not store.names() and not store.damaged:
        raise ConfigError(f"{folder} holds no results")
    verdicts = []
    with make_executor(workers, memory=None if trust else MEMORY // max(workers, 1)) as pool:
        try:
            for verdict in checking.verify(store, pool, each, data_root, trust):
                verdicts.append(verdict)
                _say_verdict(verdict)
        except KeyboardInterrupt as error:
            if isinstance(pool, LocalExecutor):
                pool.stop()
            raise Interrupted("stopped; nothing was changed") from error
    unchecked = sum(not result.checked for result in store)
    if unchecked:
        say(f"{unchecked} results are unchecked: they were written without a checksum, by an older version")
    if adopt:
        say(f"{checking.adopt(store, verdicts, data_root)} results are now marked as valid for this version")
    left_out = say_left_out(store.damaged.values()) + sum(len(verdict.untrusted) for verdict in verdicts)
    if any(verdict.different or verdict.failed for verdict in verdicts):
        raise typer.Exit(1)
    raise typer.Exit(LEFT_OUT if left_out else 0)


def _say_verdict(verdict: "Verdict") -> None:
    parts = []
    if verdict.equal:
        parts.append(f"{len(verdict.equal)} of {len(verdict.stored)} re-run, bit-equal")
    if verdict.different:
        parts.append(f"DIFFERENT: {', '.join(verdict.different)}")
    parts += [f"{name} could not be re-run: {why}" for name, why in verdict.failed.items()]
    parts += [f"{name} was not re-run: it {why} (--trust allows it)" for name, why in verdict.untrusted.items()]
    say(f"{' '.join(verdict.group)}: {'; '.join(parts)}")


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Results folders of `ocgl bench`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML page to write.")] = Path("report.html"),
    export: Annotated[
        Path | None, typer.Option(help="Folder for tables (.tex, .md, .csv) and figures (.pdf, .png).")
    ] = None,
    expansion: Annotated[
        list[str] | None,
        typer.Option(help="Load this dataset, if it is on disk, and add its neighbourhood expansion; may be repeated."),
    ] = None,
    data_root: DataRoot = None,
) -> None:
    """Write finished runs as one self-contained HTML page, and as tables and figures for a paper."""
    from ocgl.experiments.expansion import expansions_of
    from ocgl.reporting.collect import collect
    from ocgl.reporting.export import write_export
    from ocgl.reporting.page import write_report

    damaged: list[DamagedFileError] = []
    with console.status("reading"):
        benches = collect(folders, damaged)
        configs = {bench.key: bench.entries[0].runs[0].config for bench in benches}
        found, missing = expansions_of(configs, expansion or (), data_root)
        write_report(benches, out, found, len(damaged))
        written = write_export(benches, export, found) if export is not None else []
    for line in missing:
        say(line, error=True)
    if export is not None:
        say(f"{len(written)} tables and figures written to {export}")
    say(f"page written to {out}")
    raise typer.Exit(LEFT_OUT if say_left_out(damaged) else 0)


@app.command()
def reproduce(
    run_id: Annotated[str, typer.Argument(help="Id of a run (see `ocgl results`), or its first characters.")],
    folder: Annotated[Path, typer.Option("--out", help="Results folder of `ocgl bench`.")],
    trust: Trust = False,
    data_root: DataRoot = None,
) -> None:
    """Re-run a stored run and check that it is bit-equal."""
    from ocgl.experiments import ResultStore, RunResult, make_experiment, stream_of
    from ocgl.experiments.results import differences
    from ocgl.experiments.trust import require_trust

    stored = ResultStore(folder).get(run_id)
    if not isinstance(stored, RunResult):
        raise ConfigError(f"{stored.id} is a {stored.kind}, not a run; `ocgl results` lists the runs")
    require_trust(stored.config, trust, data_root)
    with console.status("running"):
        again = make_experiment(stored.config, stream_of(stored.config, data_root)).finish()
    different = differences(again, stored)
    for name, (now, before) in different.items():
        say(f"{name}: {now}, stored {before}")
    equal = not different
    say(f"{stored.id} ({stored.strategy} on {stored.dataset}): {'bit-equal' if equal else 'DIFFERENT'}")
    raise typer.Exit(0 if equal else 1)
