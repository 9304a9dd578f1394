"""`ocgl run`: train and evaluate one strategy on one stream."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ocgl.cli.common import DataRoot, Log, StreamKind, app, console, interruptible, say
from ocgl.errors import ConfigError, Interrupted, MissingExtraError
from ocgl.types import Json


@app.command()
def run(
    ctx: typer.Context,
    dataset: Annotated[str | None, typer.Option(help="A name from `ocgl datasets`, or a path to an .npz file.")] = None,
    strategy: Annotated[
        str | None, typer.Option(help="A name from `ocgl strategies`, or path/to/file.py:Class.")
    ] = None,
    stream: StreamKind = "class",
    profile: Annotated[
        str, typer.Option(help="Reading of the paper: paper, textbook (symmetric GCN) or first-reading.")
    ] = "paper",
    seed: Annotated[int, typer.Option(help="Seed of the run; the stream has its own, --set stream_seed=N.")] = 0,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Hyperparameter, or option of stream or run, as key=value; may be repeated."),
    ] = None,
    eval_every: Annotated[int, typer.Option(help="Evaluate after every K-th batch.")] = 1,
    eval_cap: Annotated[
        int | None, typer.Option(help="Estimate the anytime scores from about this many validation nodes per task.")
    ] = None,
    prequential: Annotated[
        str,
        typer.Option(help="Batches to predict before learning them: every, or evaluated (those after an evaluation)."),
    ] = "evaluated",
    store: Annotated[
        str,
        typer.Option(help="Where the graph is stored: memory, disk, auto (by its size), or redis://HOST:PORT/NAME."),
    ] = "auto",
    device: Annotated[str, typer.Option(help="Where the network computes: auto, cpu, cuda or mps.")] = "cpu",
    json_file: Annotated[Path | None, typer.Option("--json", help="File to write the result to.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for config, checkpoints, curves and result.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this folder (an earlier --out).")] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Batches between checkpoints (default: one every 5 s).", min=1)
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="With --resume: execute the strategy file that the folder names.")
    ] = False,
    log: Log = None,
    data_root: DataRoot = None,
) -> None:
    """Train a strategy on a stream and evaluate it along the way."""
    from ocgl.experiments import evaluate, loggers
    from ocgl.experiments import resume as resume_run
    from ocgl.experiments.config import configure, parse_override
    from ocgl.experiments.progress import progress_bar
    from ocgl.files import make_folder, write_json
    from ocgl.reporting.terminal import result_table

    if json_file is not None:
        make_folder(json_file.absolute().parent)
        if json_file.is_dir():
            raise ConfigError(f"--json {json_file} is a folder; name a file")
    with _resumable(out or resume):
        if resume is not None:
            _refuse_other_options(ctx, {"resume", "json_file", "store", "checkpoint_every", "data_root", "trust"})
            out = resume
            storage = store if "store" in _given_options(ctx) else None
            with progress_bar(console) as bar:
                result = resume_run(
                    resume,
                    callbacks=[bar],
                    store=storage,
                    data_root=data_root,
                    checkpoint_every=checkpoint_every,
                    trust=trust,
                )
        elif dataset is None or strategy is None:
            raise ConfigError("give --dataset and --strategy, or --resume FOLDER")
        else:
            options: Json = {"eval_cap": eval_cap} if eval_cap is not None else {}
            options |= {"prequential": prequential, "device": device} | dict(map(parse_override, overrides or ()))
            logs = [loggers.make_logger(text) for text in log or ()]
            for logger in logs:
                config = configure(dataset, strategy, stream, profile, seed, options, eval_every=eval_every)
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
                    **options,
                )
            for logger in logs:
                logger.end(loggers.final(result))
    if json_file is not None:
        write_json(json_file, result.sealed())
    console.print(result_table(result))
    if out is not None:
        _write_page(out)


def _write_page(out: Path) -> None:
    """Write the page of the run, or print which extra it needs."""
    from ocgl.reporting.run_page import write_run_page

    try:
        say(f"page written to {write_run_page(out)}")
    except MissingExtraError as error:
        say(f"report.html was not written: {error}")


def _given_options(ctx: typer.Context) -> set[str]:
    """Return the names of the options on the command line."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def _refuse_other_options(ctx: typer.Context, allowed: set[str]) -> None:
    """Raise `ConfigError` for options that a resumed run reads from its folder."""
    refused = _given_options(ctx) - allowed
    if refused:
        names = ", ".join(param.opts[0] for param in ctx.command.params if param.name in refused)
        raise ConfigError(f"{names}: a resumed run goes on with the options it was started with; leave these out")


@contextmanager
def _resumable(out: Path | None) -> Iterator[None]:
    """Turn Ctrl-C into an error that says how to continue the run."""
    try:
        with interruptible():
            yield
    except KeyboardInterrupt as error:
        kept = out is not None and (out / "config.json").exists()
        hint = f"; continue with: ocgl run --resume {shlex.quote(str(out))}" if kept else ""
        raise Interrupted(f"stopped{hint}") from error
