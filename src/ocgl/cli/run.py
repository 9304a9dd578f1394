"""`ocgl run`: one stream through one strategy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ocgl.cli.common import DataRoot, Log, app, console
from ocgl.errors import ConfigError

if TYPE_CHECKING:
    from ocgl.benchmark.run import Progress as RunProgress


@app.command()
def run(
    ctx: typer.Context,
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
    from ocgl.benchmark.keep import make_folder, write_json
    from ocgl.report.progress import bar, watcher
    from ocgl.report.run_page import write_run_page
    from ocgl.report.terminal import result_table

    if json_file is not None:
        make_folder(json_file.absolute().parent)
        if json_file.is_dir():
            raise ConfigError(f"--json {json_file} is a folder")
    with bar(console) as shown, _resumable(out or resume):
        watch = watcher(shown)
        if resume is not None:
            _alone(ctx, {"resume", "json_file", "store", "checkpoint_every", "data_root"})
            out = resume
            place = store if "store" in _given(ctx) else None
            result = benchmark.resume(resume, data_root, watch, checkpoint_every, place)
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


def _given(ctx: typer.Context) -> set[str]:
    """Name the options that were given."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def _alone(ctx: typer.Context, allowed: set[str]) -> None:
    """Refuse options that a resumed run has in its directory already."""
    more = _given(ctx) - allowed
    if more:
        names = ", ".join(param.opts[0] for param in ctx.command.params if param.name in more)
        raise ConfigError(f"{names}: a resumed run goes on with the settings it was begun with")


@contextmanager
def _resumable(out: Path | None) -> Iterator[None]:
    """Say how to go on with a run that is stopped."""
    try:
        yield
    except KeyboardInterrupt:
        hint = f"; ocgl run --resume {out} continues" if out is not None else ""
        raise ConfigError(f"stopped{hint}") from None
