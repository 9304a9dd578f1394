"""`ocgl run`: one stream through one strategy."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ocgl.cli.common import DataRoot, Log, app, console
from ocgl.errors import ConfigError, MissingExtraError
from ocgl.types import Json


@app.command()
def run(
    ctx: typer.Context,
    dataset: Annotated[str | None, typer.Option(help="A name from `ocgl datasets`, or path.npz.")] = None,
    strategy: Annotated[str | None, typer.Option(help="A strategy's name, or path/to/file.py:Class.")] = None,
    stream: Annotated[str, typer.Option(help="class, time, domain, task, blurry or iid.")] = "class",
    profile: Annotated[str, typer.Option(help="paper (sum aggregation) or textbook (symmetric GCN).")] = "paper",
    seed: Annotated[int, typer.Option(help="Seed of everything but the stream.")] = 0,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="key=value; may be repeated.")] = None,
    eval_every: Annotated[int, typer.Option(help="Evaluate after every K-th batch.")] = 1,
    eval_cap: Annotated[
        int | None, typer.Option(help="Estimate the anytime scores from about that many validation nodes a task.")
    ] = None,
    prequential: Annotated[
        str, typer.Option(help="Predict before learning: evaluated (batches right after an evaluation) or every.")
    ] = "evaluated",
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
    from ocgl.experiments import evaluate, loggers
    from ocgl.experiments import resume as resume_run
    from ocgl.experiments.config import configure, parse_override
    from ocgl.experiments.progress import progress_bar
    from ocgl.experiments.run_directory import make_folder, write_json
    from ocgl.reporting.terminal import result_table

    if json_file is not None:
        make_folder(json_file.absolute().parent)
        if json_file.is_dir():
            raise ConfigError(f"--json {json_file} is a folder")
    with _resumable(out or resume):
        if resume is not None:
            _alone(ctx, {"resume", "json_file", "store", "checkpoint_every", "data_root"})
            out = resume
            storage = store if "store" in _given(ctx) else None
            with progress_bar(console) as bar:
                result = resume_run(
                    resume, callbacks=[bar], store=storage, data_root=data_root, checkpoint_every=checkpoint_every
                )
        elif dataset is None or strategy is None:
            raise ConfigError("--dataset and --strategy are needed (or --resume)")
        else:
            values: Json = dict(map(parse_override, overrides or ()))
            more: Json = {"eval_cap": eval_cap} if eval_cap is not None else {}
            more |= {"prequential": prequential, "device": device} | values
            config = configure(dataset, strategy, stream, profile, seed, values, eval_every=eval_every)
            logs = [loggers.make_logger(text) for text in log or ()]
            for logger in logs:
                logger.begin(loggers.title_of(config), loggers.options_of(config))
            with progress_bar(console) as bar:
                result = evaluate(
                    strategy,
                    dataset,
                    stream=stream,
                    profile=profile,
                    seed=seed,
                    every=eval_every,
                    out=out,
                    callbacks=[bar, *(partial(loggers.follow, logger) for logger in logs)],
                    store=store,
                    data_root=data_root,
                    checkpoint_every=checkpoint_every,
                    **more,
                )
            for logger in logs:
                logger.end(loggers.final(result))
    if json_file is not None:
        write_json(json_file, result.dump())
    console.print(result_table(result))
    if out is not None:
        _write_page(out)


def _write_page(out: Path) -> None:
    """Write the page of the run, or say what is missing for it."""
    from ocgl.reporting.run_page import write_run_page

    try:
        console.print(f"open [bold]{write_run_page(out)}[/bold]", soft_wrap=True)
    except MissingExtraError as error:
        console.print(f"no report.html: {error}", markup=False, soft_wrap=True)


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
