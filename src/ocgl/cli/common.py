"""What all commands share: the program, its two consoles, and options that occur in several."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Online Continual Graph Learning.")
console = Console()
errors = Console(stderr=True)

DataRoot = Annotated[Path | None, typer.Option(help="Folder of the datasets (default: OCGL_DATA or the user's cache).")]
Log = Annotated[
    list[str] | None, typer.Option(help="tensorboard:FOLDER, mlflow:ADDRESS or wandb:PROJECT; may be repeated.")
]


@app.callback()
def _options() -> None:
    """Online Continual Graph Learning: learn from a growing graph, and be judged at any time."""
