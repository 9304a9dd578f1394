"""The Typer application, its consoles for output and errors, and options of several commands."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Online Continual Graph Learning: train and evaluate node classifiers on growing graphs.",
)
console = Console()
errors = Console(stderr=True)

DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder with the datasets (default: the variable OCGL_DATA, else the user's cache folder)."),
]
Log = Annotated[
    list[str] | None,
    typer.Option(help="Also log to tensorboard:FOLDER, mlflow:ADDRESS or wandb:PROJECT; may be repeated."),
]


@app.callback()
def _options() -> None:
    """Make Typer treat each command as a subcommand; the program itself has no options."""
