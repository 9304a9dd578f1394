"""The command line interface: parses options, calls the library, prints results."""

from ocgl.cli import lists, run, sweeps  # noqa: F401 - importing a module registers its commands
from ocgl.cli.common import app, errors
from ocgl.errors import OcglError


def main() -> None:
    """Run the command line interface; print an `OcglError` as one line and exit with code 2."""
    try:
        app()
    except OcglError as error:
        errors.print(f"[red]{type(error).__name__}[/red]: ", end="")
        errors.print(str(error), markup=False, soft_wrap=True)
        raise SystemExit(2) from None
