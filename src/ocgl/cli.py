"""The command line: parses, calls, prints."""

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from ocgl.errors import ConfigError, OcglError
from ocgl.types import Json

if TYPE_CHECKING:
    from ocgl.benchmark import Tally
    from ocgl.benchmark.run import Progress as RunProgress

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Online Continual Graph Learning.")
console = Console()
errors = Console(stderr=True)

DataRoot = Annotated[Path | None, typer.Option(help="Folder of the datasets (default: OCGL_DATA or the user's cache).")]
Log = Annotated[
    list[str] | None, typer.Option(help="tensorboard:FOLDER, mlflow:ADDRESS or wandb:PROJECT; may be repeated.")
]
Dataset = Annotated[str, typer.Option(help="A name from `ocgl datasets`, sbm:key=value,..., or path.npz.")]


@app.callback()
def _options() -> None:
    """Online Continual Graph Learning: learn from a growing graph, and be judged at any time."""


@app.command()
def run(
    dataset: Annotated[str | None, typer.Option(help="A name from `ocgl datasets`, or path.npz.")] = None,
    strategy: Annotated[str | None, typer.Option(help="A strategy's name, or path/to/file.py:Class.")] = None,
    stream: Annotated[str, typer.Option(help="class, time, domain, task, blurry or iid.")] = "class",
    profile: Annotated[str, typer.Option(help="paper (sum aggregation) or textbook (symmetric GCN).")] = "paper",
    seed: Annotated[int, typer.Option(help="Seed of everything but the stream.")] = 0,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value; may be repeated.")] = None,
    eval_every: Annotated[int, typer.Option(help="Evaluate after every K-th batch.")] = 1,
    eval_cap: Annotated[
        int | None, typer.Option(help="Estimate the anytime scores from about that many validation nodes a task.")
    ] = None,
    store: Annotated[str, typer.Option(help="memory, disk, or auto (by the size of the graph).")] = "auto",
    device: Annotated[str, typer.Option(help="cpu; the kernels have no other.")] = "cpu",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result there.")] = None,
    out: Annotated[Path | None, typer.Option(help="Keep config, checkpoints, curves and result there.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in that directory.")] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Batches between checkpoints (default: by time, every 5 s).")
    ] = None,
    log: Log = None,
    data_root: DataRoot = None,
) -> None:
    """Stream a graph through a strategy and score it at any time."""
    from ocgl import benchmark
    from ocgl.benchmark import loggers
    from ocgl.benchmark.keep import write_json
    from ocgl.report.progress import bar, watcher
    from ocgl.report.run_page import write_run_page
    from ocgl.report.terminal import result_table

    with bar(console) as shown:
        watch = watcher(shown)
        if resume is not None:
            if log:
                raise ConfigError("--log goes with a new run; a resumed one is already partly logged")
            out = resume
            result = benchmark.resume(resume, data_root, watch, checkpoint_every, store)
        elif dataset is None or strategy is None:
            raise ConfigError("--dataset and --strategy are needed (or --resume)")
        else:
            options = {"eval_every": eval_every, "eval_cap": eval_cap, "device": device}
            config = benchmark.configure(dataset, strategy, stream, profile, seed, settings or (), **options)
            logs = [loggers.make_logger(text) for text in log or ()]
            for logger in logs:
                logger.begin(loggers.title_of(config.model_dump()), loggers.settings_of(config.model_dump()))

            def watch_all(progress: "RunProgress") -> None:
                watch(progress)
                for logger in logs:
                    loggers.follow(logger, progress, config.eval_every)

            result = benchmark.execute(config, data_root, out, watch_all, checkpoint_every, store)
            for logger in logs:
                logger.end(loggers.final(result))
    if json_file is not None:
        write_json(json_file, result)
    console.print(result_table(result))
    if out is not None:
        console.print(f"open [bold]{write_run_page(out)}[/bold]", soft_wrap=True)


@app.command()
def datasets(data_root: DataRoot = None) -> None:
    """List the datasets, their statistics, and whether they are on disk."""
    from ocgl.datasets import catalogue

    table = Table(title="datasets", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("name", "nodes", "edges", "features", "classes", "tasks", "on disk"):
        numeric = name in ("nodes", "edges", "features", "classes")
        table.add_column(name, justify="right" if numeric else "left", no_wrap=numeric or name == "name")
    for entry in catalogue(data_root):
        if not entry.name.startswith("sbm:"):
            counts = (f"{n:,}" for n in (entry.nodes, entry.edges, entry.features, entry.classes))
            tasks = ", ".join(f"{kind} {count}" for kind, count in entry.streams.items())
            table.add_row(entry.name, *counts, tasks, entry.on_disk)
    console.print(table)
    console.print("\nsbm:NAME has the size of one of the seven, sbm:nodes=20000,edges=500000 any other.")
    console.print("Edges as the paper counts them. A path to an .npz file is a dataset, too.")


@app.command()
def expansion(
    dataset: Dataset,
    hops: Annotated[str, typer.Option(help="Numbers of hops, with commas.")] = "1,2",
    fanout: Annotated[int, typer.Option(help="Neighbours per node under the cap.")] = 10,
    stream: Annotated[str, typer.Option(help="class, time, domain, task, blurry or iid.")] = "class",
    settings: Annotated[list[str] | None, typer.Option("--set", help="Stream option key=value.")] = None,
    out: Annotated[Path, typer.Option(help="Figure to draw (.png or .pdf); the series go beside it as .csv.")] = Path(
        "expansion.png"
    ),
    data_root: DataRoot = None,
) -> None:
    """Measure and draw how many nodes a batch would see, with and without the cap (Figure 2 of the paper)."""
    from ocgl.benchmark.config import defaults_of, parse_setting
    from ocgl.benchmark.expansion import expansion as measure
    from ocgl.benchmark.expansion import parse_hops
    from ocgl.datasets import load
    from ocgl.report import figures
    from ocgl.streams import make_stream

    depths = parse_hops(hops)
    options: Json = {"batch_size": defaults_of(dataset).batch_size} | dict(map(parse_setting, settings or ()))
    with console.status("measuring"):
        found = measure(make_stream(load(dataset, data_root, structure_only=True), stream, **options), depths, fanout)
        figures.draw(lambda: figures.expansion(found), out)
        found.frame().write_csv(out.with_suffix(".csv"))
    table = Table(title=f"{found.dataset}: nodes seen per batch", title_justify="left")
    for name in ("hops", "all: mean", "all: most", "share of nodes", "capped: mean", "capped: most", "bound"):
        table.add_column(name, justify="right")
    for row in found.table():
        table.add_row(
            str(row["hops"]), f"{row['full_mean']:,.0f}", f"{row['full_max']:,}", f"{row['full_max_share']:.1%}",
            f"{row['capped_mean']:,.0f}", f"{row['capped_max']:,}", f"{row['bound']:,}",
        )  # fmt: skip
    console.print(table)
    console.print(f"drawn to [bold]{out}[/bold]", soft_wrap=True)


@app.command()
def strategies(
    grids: Annotated[bool, typer.Option("--grids", help="Show search spaces instead (Table 11, and ours).")] = False,
) -> None:
    """List the strategies and their hyperparameters."""
    from ocgl.benchmark.tuning import configurations, grid_of
    from ocgl.strategies import find, make, names

    table = Table(title="strategies", title_justify="left")
    heads = ("search space", "configurations") if grids else ("hyperparameters with defaults", "reference")
    for column in ("name", *heads):
        table.add_column(column)
    for name in names():
        if grids:
            lines = [f"{key}: {', '.join(map(str, values))}" for key, values in grid_of(name).items()]
            table.add_row(name, "\n".join(lines), str(len(configurations(grid_of(name)))))
        else:
            values = ", ".join(f"{key}={value}" for key, value in make(name).hyperparameters().items())
            table.add_row(name, values, find(name).reference)
    console.print(table)


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
    from ocgl import benchmark
    from ocgl.benchmark import loggers
    from ocgl.benchmark.executors import LocalExecutor, make_executor
    from ocgl.benchmark.results import Results
    from ocgl.report.terminal import bench_table, standing_table
    from ocgl.strategies import names

    chosen = tuple(names() if strategies == "all" else strategies.split(","))
    sizes = tuple(part for part in buffers.split(",") if part)
    parts = tuple(settings.split(","))
    rest = (eval_every, tuple(override or ()), data_root, select_at, halving, grids)
    sweep = benchmark.Sweep(dataset, chosen, out, stream, parts, profile, seeds, sizes, *rest)
    sweep.groups()
    logs = [loggers.make_logger(text) for text in log or ()]
    counts = ", ".join(f"{group.strategy} {len(sweep.grid(group))}" for group in sweep.groups())
    console.print(f"configurations: {counts}", highlight=False)
    with make_executor(workers, cluster) as pool, Live(console=console, transient=True) as live:
        begin = time.monotonic()

        def watch(tally: "Tally") -> None:
            live.update(standing_table(tally, time.monotonic() - begin))

        try:
            tally = benchmark.carry_out(sweep, pool, watch, budget_minutes)
        except KeyboardInterrupt:
            if isinstance(pool, LocalExecutor):
                pool.stop()
            raise ConfigError(f"stopped; what is finished is in {out}, the same command continues") from None
    for failure in tally.failed:
        errors.print(failure, markup=False)
    runs = benchmark.finished(sweep)
    for logger in logs:
        for result in runs:
            loggers.log_kept(logger, Results(out), result)
    console.print(bench_table(runs))
    if tally.failed:
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
    from ocgl.benchmark.results import COLUMNS, Results

    if pack:
        Results(folder).pack()
    asked = {"strategy": strategy, "dataset": dataset, "setting": setting}
    rows = Results(folder).rows(**{key: value for key, value in asked.items() if value is not None})
    if form == "json":
        typer.echo(json.dumps(rows, indent=1))
    elif form == "csv":
        typer.echo("\n".join([",".join(COLUMNS), *(",".join(_cell(row[c]) for c in COLUMNS) for row in rows)]))
    elif form == "table":
        table = Table(*COLUMNS, box=None)
        for row in rows:
            table.add_row(*(_cell(row[column]) for column in COLUMNS))
        console.print(table)
    else:
        raise ConfigError(f"--format {form!r}: table, csv or json")


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="What `ocgl bench` kept; several are put together.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    export: Annotated[Path | None, typer.Option(help="Also tables (.tex, .md, .csv) and figures (.pdf, .png).")] = None,
    expansion: Annotated[bool, typer.Option(help="Measure the neighbourhood expansion, where the data is.")] = True,
    data_root: DataRoot = None,
) -> None:
    """Turn finished runs into one self-contained page, and into tables and figures for a paper."""
    from ocgl.report.collect import collect
    from ocgl.report.export import write_export
    from ocgl.report.page import measure_expansions, write_report

    with console.status("reading"):
        benches = collect(folders)
        found, missing = measure_expansions(benches, data_root) if expansion else ({}, [])
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
    """Run a kept run again and say whether it is bit-equal."""
    from ocgl import benchmark
    from ocgl.benchmark.results import Results, bit_equal

    kept = Results(folder).get(run_id)
    config = benchmark.RunConfig.model_validate(kept["config"])
    with console.status("running"):
        again = benchmark.run_of(config, benchmark.stream_of(config, data_root)).finish()
    equal = bit_equal(json.loads(json.dumps(again)), kept)
    console.print(f"{kept['id']} ({kept['strategy']} on {kept['dataset']}): {'bit-equal' if equal else 'DIFFERENT'}")
    raise typer.Exit(0 if equal else 1)


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


@app.command()
def check(
    strategy: Annotated[str, typer.Argument(help="A strategy's name, or path/to/file.py:Class.")],
    settings: Annotated[list[str] | None, typer.Option("--set", help="Hyperparameter key=value.")] = None,
) -> None:
    """Check that a strategy does what every strategy must (the contract)."""
    from ocgl.benchmark.config import parse_setting
    from ocgl.evaluation.contract import CHECKS, ContractError, small_graph
    from ocgl.strategies import make

    values = dict(map(parse_setting, settings or ()))
    make(strategy, **values)
    failed = 0
    for one in CHECKS:
        try:
            one(lambda: make(strategy, seed=3, **values), small_graph())
            verdict = "[green]holds[/green]"
        except ContractError as error:
            verdict, failed = f"[red]fails[/red]: {error}", failed + 1
        console.print(f"{one.__name__.replace('_', ' '):45}{verdict}", soft_wrap=True)
    raise typer.Exit(1 if failed else 0)


def main() -> None:
    """Run the command line; an error of ours is one clear line and exit code 2."""
    try:
        app()
    except OcglError as error:
        errors.print(f"[red]{type(error).__name__}[/red]: ", end="")
        errors.print(str(error), markup=False, soft_wrap=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
