"""Commands for many runs: `bench`, `results`, `verify`, `report` and `reproduce`."""

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.table import Table

from ocgl.cli.common import DataRoot, Log, app, console, errors
from ocgl.errors import ConfigError

if TYPE_CHECKING:
    from ocgl.experiments import SweepStatus


@app.command()
def bench(
    dataset: Annotated[str, typer.Argument(help="A name from `ocgl datasets`, or a path to an .npz file.")],
    out: Annotated[Path, typer.Option(help="Folder for all results; the same command continues what is there.")],
    strategies: Annotated[str, typer.Option(help="Names from `ocgl strategies`, separated by commas, or all.")] = "all",
    stream: Annotated[str, typer.Option(help="Kind of stream: class, time, domain, task, blurry or iid.")] = "class",
    settings: Annotated[
        str,
        typer.Option(
            help="Settings of the paper, separated by commas: main, larger-batch, full-neighborhood, hidden-512, "
            "hidden-128, layers-3, layers-1."
        ),
    ] = "main",
    profile: Annotated[
        str, typer.Option(help="Aggregation: paper (plain sums) or textbook (symmetric GCN).")
    ] = "paper",
    seeds: Annotated[int, typer.Option(help="Runs of each selected configuration, one per seed.")] = 5,
    buffers: Annotated[
        str, typer.Option(help="Buffer sizes, separated by commas, such as 1%,2%,4% (default: the dataset's largest).")
    ] = "",
    eval_every: Annotated[int, typer.Option(help="Evaluate after every K-th batch.")] = 1,
    select_at: Annotated[
        str | None, typer.Option(help="Select configurations at this buffer size only, and use them for all sizes.")
    ] = None,
    grids: Annotated[str, typer.Option(help="Search spaces: paper, or coarse for a quick overview.")] = "paper",
    halving: Annotated[bool, typer.Option(help="Drop weak configurations early (successive halving).")] = False,
    override: Annotated[
        list[str] | None, typer.Option("--set", help="key=value for every trial and run; may be repeated.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Worker processes, one thread each.")] = os.cpu_count() or 1,
    cluster: Annotated[str | None, typer.Option(help="Address of a dask scheduler; replaces --workers.")] = None,
    budget_minutes: Annotated[
        float | None, typer.Option(help="Stop after this many minutes; the same command continues.")
    ] = None,
    log: Log = None,
    data_root: DataRoot = None,
) -> None:
    """Tune every strategy on the first tasks, then run the selected configurations with every seed."""
    from ocgl.experiments import ResultStore, Sweep, finished, loggers, run_sweep
    from ocgl.experiments.config import parse_override
    from ocgl.experiments.executors import LocalExecutor, make_executor
    from ocgl.reporting.terminal import bench_table, status_table
    from ocgl.strategies import names

    chosen = tuple(names() if strategies == "all" else strategies.split(","))
    sizes = tuple(part for part in buffers.split(",") if part)
    parts = tuple(settings.split(","))
    rest = (eval_every, dict(map(parse_override, override or ())), data_root, select_at, halving, grids)
    sweep = Sweep(dataset, chosen, out, stream, parts, profile, seeds, sizes, *rest)
    sweep.groups()  # raises for unknown names before a logger or a worker is started
    logs = [loggers.make_logger(text) for text in log or ()]
    counts = ", ".join(f"{group.strategy} {len(sweep.grid(group))}" for group in sweep.groups())
    console.print(f"configurations per strategy: {counts}", highlight=False)
    with make_executor(workers, cluster) as pool, Live(console=console, transient=True) as live:
        begin = time.monotonic()

        def show(status: "SweepStatus") -> None:
            live.update(status_table(status, time.monotonic() - begin))

        try:
            status = run_sweep(sweep, pool, show, budget_minutes)
        except KeyboardInterrupt:
            if isinstance(pool, LocalExecutor):
                pool.stop()
            raise ConfigError(f"stopped; finished results are in {out}, and the same command continues") from None
    for failure in status.failed:
        errors.print(failure, markup=False)
    runs = finished(sweep)
    for logger in logs:
        for result in runs:
            loggers.log_stored(logger, ResultStore(out), result)
    console.print(bench_table(runs))
    if status.failed:
        raise typer.Exit(1)


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

    if pack:
        ResultStore(folder).pack()
    wanted = {"strategy": strategy, "dataset": dataset, "setting": setting}
    rows = ResultStore(folder).rows(**{key: value for key, value in wanted.items() if value is not None})
    if form == "json":
        typer.echo(json.dumps(rows, indent=1))
    elif form == "csv":
        typer.echo("\n".join([",".join(COLUMNS), *(",".join(_cell(row[c]) for c in COLUMNS) for row in rows)]))
    elif form == "table":
        differing = [c for c in COLUMNS if len({row[c] for row in rows}) > 1 or (c in ("id", "AAP", "AP") and rows)]
        columns = [column for column in differing if any(row[column] is not None for row in rows)]
        common = {c: rows[0][c] for c in COLUMNS if rows and c not in columns and rows[0][c] is not None}
        console.print(", ".join(f"{column} {_cell(value)}" for column, value in common.items()), highlight=False)
        table = Table(*columns, box=None)
        for row in rows:
            table.add_row(*(_cell(row[column]) for column in columns))
        console.print(table)
    else:
        raise ConfigError(f"unknown --format {form!r}; choose table, csv or json")


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="Results folder of `ocgl bench`.")],
    each: Annotated[int, typer.Option(help="Runs, and trials, to re-run per method.")] = 1,
    adopt: Annotated[bool, typer.Option(help="Mark results of methods that pass as valid for this version.")] = False,
    workers: Annotated[int, typer.Option(help="Worker processes, one thread each.")] = os.cpu_count() or 1,
    data_root: DataRoot = None,
) -> None:
    """Re-run a sample of the results that another version of the code has left, and check that they are bit-equal."""
    from ocgl.experiments import verify as checking
    from ocgl.experiments.executors import LocalExecutor
    from ocgl.experiments.result_store import ResultStore

    if not any(ResultStore(folder)):
        raise ConfigError(f"{folder} holds no results")
    verdicts = []
    with LocalExecutor(workers) as pool:
        for verdict in checking.verify(folder, pool, each, data_root):
            verdicts.append(verdict)
            verdict_text = "bit-equal" if verdict.holds else f"[red]DIFFERENT[/red]: {', '.join(verdict.different)}"
            count = len(verdict.equal) + len(verdict.different)
            console.print(
                f"{' '.join(verdict.group)}: {count} of {len(verdict.stored)} re-run, {verdict_text}", soft_wrap=True
            )
    if not verdicts:
        console.print("nothing to check: the current code has computed, or adopted, a result for every stored one")
    if adopt:
        console.print(f"{checking.adopt(folder, verdicts, data_root)} results are now marked as valid for this version")
    raise typer.Exit(0 if all(verdict.holds for verdict in verdicts) else 1)


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Results folders of `ocgl bench`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML page to write.")] = Path("report.html"),
    export: Annotated[
        Path | None, typer.Option(help="Folder for tables (.tex, .md, .csv) and figures (.pdf, .png).")
    ] = None,
    expansion: Annotated[bool, typer.Option(help="Add the neighbourhood expansion of datasets on disk.")] = True,
    data_root: DataRoot = None,
) -> None:
    """Write finished runs as one self-contained HTML page, and as tables and figures for a paper."""
    from ocgl.experiments.expansion import expansions_of
    from ocgl.reporting.collect import collect
    from ocgl.reporting.export import write_export
    from ocgl.reporting.page import write_report

    with console.status("reading"):
        benches = collect(folders)
        configs = {bench.key: bench.entries[0].runs[0].config for bench in benches} if expansion else {}
        found, missing = expansions_of(configs, data_root)
        write_report(benches, out, found)
        written = write_export(benches, export, found) if export is not None else []
    for line in missing:
        errors.print(line, markup=False, soft_wrap=True)
    if export is not None:
        console.print(f"{len(written)} tables and figures written to [bold]{export}[/bold]", soft_wrap=True)
    console.print(f"page written to [bold]{out}[/bold]", soft_wrap=True)


@app.command()
def reproduce(
    run_id: Annotated[str, typer.Argument(help="Id of a run (see `ocgl results`), or its first characters.")],
    folder: Annotated[Path, typer.Option("--out", help="Results folder of `ocgl bench`.")],
    data_root: DataRoot = None,
) -> None:
    """Re-run a stored run and check that it is bit-equal."""
    from ocgl.experiments import ResultStore, RunResult, make_experiment, stream_of
    from ocgl.experiments.results import differences

    stored = ResultStore(folder).get(run_id)
    if not isinstance(stored, RunResult):
        raise ConfigError(f"{stored.id} is a {stored.kind}, not a run; `ocgl results` lists the runs")
    with console.status("running"):
        again = make_experiment(stored.config, stream_of(stored.config, data_root)).finish()
    different = differences(again, stored)
    for name, (now, before) in different.items():
        console.print(f"{name}: {now}, stored {before}", highlight=False, markup=False, soft_wrap=True)
    equal = not different
    console.print(f"{stored.id} ({stored.strategy} on {stored.dataset}): {'bit-equal' if equal else 'DIFFERENT'}")
    raise typer.Exit(0 if equal else 1)
