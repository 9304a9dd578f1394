"""The Typer application, its consoles for output and errors, and what several commands share."""

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ocgl.errors import DamagedFileError
from ocgl.text import printable

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Online Continual Graph Learning: train and evaluate node classifiers on growing graphs.",
)
console = Console()
errors = Console(stderr=True)

LEFT_OUT = 3
"""Exit code of a command that is done, but has left out damaged files or results that need trust."""

StreamKind = Annotated[str, typer.Option(help="Kind of stream: class, time, order, domain, task, blurry or iid.")]
DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder with the datasets (default: the variable OCGL_DATA, else the user's cache folder)."),
]
Log = Annotated[
    list[str] | None,
    typer.Option(help="Also log to tensorboard:FOLDER, mlflow:ADDRESS or wandb:PROJECT; may be repeated."),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Execute strategy files, and load or download data, that the stored results name."),
]


@app.callback()
def _options() -> None:
    """Make Typer treat each command as a subcommand; the program itself has no options."""


terminated: list[int] = []
"""The signals that have come."""


class Terminated(KeyboardInterrupt):
    """SIGTERM has come."""


def end_on_sigterm() -> None:
    """Let SIGTERM end the program as Ctrl-C does: workers are stopped, and nothing half-written is left."""

    def end(signum: int, frame: FrameType | None) -> None:
        terminated.append(signum)
        raise Terminated

    signal.signal(signal.SIGTERM, end)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Ctrl-C as what it is: in a compiled kernel it comes out as a `SystemError` that it is the cause of."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise


def say(text: object, error: bool = False) -> None:
    """Print a line as it is: no markup, no cutting."""
    (errors if error else console).print(Text(printable(text)), soft_wrap=True)


def say_left_out(damaged: Iterable[DamagedFileError]) -> int:
    """Name each damaged file that was left out, and count them; return how many there are."""
    found = list(damaged)
    for one in found:
        say(f"left out: {one}", error=True)
    if found:
        say(f"{len(found)} damaged {'file was' if len(found) == 1 else 'files were'} left out", error=True)
    return len(found)
