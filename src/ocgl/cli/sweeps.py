"""Commands for many runs: make them, list them, put them on a page, and run one again."""

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
    dataset: Annotated[str, typer.Argument(help="A name from `ocgl datasets`, or path.npz.")],
    out: Annotated[Path, typer.Option(help="Keep everything there; a second call continues.")],
    strategies: Annotated[str, typer.Option(help="Names with commas, or all.")] = "all",
    stream: Annotated[str, typer.Option(help="class, time, domain, task, blurry or iid.")] = "class",
    settings: Annotated[str, typer.Option(help="main and ablations, with commas.")] = "main",
    profile: Annotated[str, typer.Option(help="paper or textbook.")] = "paper",
    seeds: Annotated[int, typer.Option(help="Runs of each chosen configuration.")] = 5,
    buffers: Annotated[str, typer.Option(help="Buffer sizes, with commas (default: the dataset's largest).")] = "",
    eval_every: Annotated[int, typer.Option(help="Evaluate after every K-th batch.")] = 1,
    select_at: Annotated[
        str | None, typer.Option(help="Take for every buffer size the configuration selected with this one.")
    ] = None,
    grids: Annotated[str, typer.Option(help="paper, or coarse for a quick look; said in the results.")] = "paper",
    halving: Annotated[bool, typer.Option(help="Drop hopeless configurations early; said in the results.")] = False,
    override: Annotated[list[str] | None, typer.Option("--set", help="key=value for every run.")] = None,
    workers: Annotated[int, typer.Option(help="Processes on this machine, one thread each.")] = os.cpu_count() or 1,
    cluster: Annotated[str | None, typer.Option(help="Address of a dask scheduler, instead of --workers.")] = None,
    budget_minutes: Annotated[float | None, typer.Option(help="Stop after that long; call again to continue.")] = None,
    log: Log = None,
    data_root: DataRoot = None,
) -> None:
    """Tune every method on the first tasks, then run the chosen configurations with every seed."""
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
    sweep.groups()
    logs = [loggers.make_logger(text) for text in log or ()]
    counts = ", ".join(f"{group.strategy} {len(sweep.grid(group))}" for group in sweep.groups())
    console.print(f"configurations: {counts}", highlight=False)
    with make_executor(workers, cluster) as pool, Live(console=console, transient=True) as live:
        begin = time.monotonic()

        def watch(status: "SweepStatus") -> None:
            live.update(status_table(status, time.monotonic() - begin))

        try:
            status = run_sweep(sweep, pool, watch, budget_minutes)
        except KeyboardInterrupt:
            if isinstance(pool, LocalExecutor):
                pool.stop()
            raise ConfigError(f"stopped; what is finished is in {out}, the same command continues") from None
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
    folder: Annotated[Path, typer.Argument(help="What `ocgl bench` kept.")],
    strategy: Annotated[str | None, typer.Option()] = None,
    dataset: Annotated[str | None, typer.Option()] = None,
    setting: Annotated[str | None, typer.Option()] = None,
    form: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    pack: Annotated[bool, typer.Option(help="First put all directories into two Parquet files.")] = False,
) -> None:
    """List finished runs."""
    from ocgl.experiments.result_store import COLUMNS, ResultStore

    if pack:
        ResultStore(folder).pack()
    asked = {"strategy": strategy, "dataset": dataset, "setting": setting}
    rows = ResultStore(folder).rows(**{key: value for key, value in asked.items() if value is not None})
    if form == "json":
        typer.echo(json.dumps(rows, indent=1))
    elif form == "csv":
        typer.echo("\n".join([",".join(COLUMNS), *(",".join(_cell(row[c]) for c in COLUMNS) for row in rows)]))
    elif form == "table":
        columns = [column for column in COLUMNS if any(row[column] is not None for row in rows)]
        table = Table(*columns, box=None)
        for row in rows:
            table.add_row(*(_cell(row[column]) for column in columns))
        console.print(table)
    else:
        raise ConfigError(f"--format {form!r}: table, csv or json")


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="What `ocgl bench` kept.")],
    each: Annotated[int, typer.Option(help="Runs, and trials, of each method to re-run.")] = 1,
    adopt: Annotated[bool, typer.Option(help="Mark verified results as valid for this version.")] = False,
    workers: Annotated[int, typer.Option(help="Processes on this machine, one thread each.")] = os.cpu_count() or 1,
    data_root: DataRoot = None,
) -> None:
    """Re-run a sample of stored results and check that they are bit-equal."""
    from ocgl.experiments import verify as checking
    from ocgl.experiments.executors import LocalExecutor
    from ocgl.experiments.result_store import ResultStore

    if not any(ResultStore(folder)):
        raise ConfigError(f"{folder} holds no results")
    verdicts = []
    with LocalExecutor(workers) as pool:
        for verdict in checking.verify(folder, pool, each, data_root):
            verdicts.append(verdict)
            said = "bit-equal" if verdict.holds else f"[red]DIFFERENT[/red]: {', '.join(verdict.different)}"
            count = len(verdict.equal) + len(verdict.different)
            console.print(f"{' '.join(verdict.group)}: {count} of {len(verdict.stored)} re-run, {said}", soft_wrap=True)
    if not verdicts:
        console.print("nothing to check: all stored results are of the present code")
    if adopt:
        console.print(f"{checking.adopt(folder, verdicts, data_root)} results are now marked as valid for this version")
    raise typer.Exit(0 if all(verdict.holds for verdict in verdicts) else 1)


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="What `ocgl bench` kept; several are put together.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    export: Annotated[Path | None, typer.Option(help="Also tables (.tex, .md, .csv) and figures (.pdf, .png).")] = None,
    expansion: Annotated[bool, typer.Option(help="Measure the neighbourhood expansion, where the data is.")] = True,
    data_root: DataRoot = None,
) -> None:
    """Turn finished runs into one self-contained page, and into tables and figures for a paper."""
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
        console.print(f"{len(written)} tables and figures in [bold]{export}[/bold]", soft_wrap=True)
    console.print(f"open [bold]{out}[/bold]", soft_wrap=True)


@app.command()
def reproduce(
    run_id: Annotated[str, typer.Argument(help="The id of a run, or its beginning.")],
    folder: Annotated[Path, typer.Option("--out", help="What `ocgl bench` kept.")],
    data_root: DataRoot = None,
) -> None:
    """Re-run a stored run and check that it is bit-equal."""
    from ocgl.experiments import ResultStore, RunResult, make_experiment, stream_of
    from ocgl.experiments.results import bit_equal

    stored = ResultStore(folder).get(run_id)
    if not isinstance(stored, RunResult):
        raise ConfigError(f"{stored.id} is a {stored.kind}, not a run")
    with console.status("running"):
        again = make_experiment(stored.config, stream_of(stored.config, data_root)).finish()
    equal = bit_equal(again, stored)
    console.print(f"{stored.id} ({stored.strategy} on {stored.dataset}): {'bit-equal' if equal else 'DIFFERENT'}")
    raise typer.Exit(0 if equal else 1)
