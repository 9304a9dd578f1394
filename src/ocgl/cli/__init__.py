"""The command line: parses, calls, prints."""

from ocgl.cli import lists, run, sweeps  # noqa: F401 - each adds its commands
from ocgl.cli.common import app, errors
from ocgl.errors import OcglError


def main() -> None:
    """Run the command line; an error of ours is one clear line and exit code 2."""
    try:
        app()
    except OcglError as error:
        errors.print(f"[red]{type(error).__name__}[/red]: ", end="")
        errors.print(str(error), markup=False, soft_wrap=True)
        raise SystemExit(2) from None
