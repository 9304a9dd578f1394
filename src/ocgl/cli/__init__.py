"""The command line interface: parses options, calls the library, prints results.

Exit codes: 0 done; 1 a check failed, or a trial or run did; 2 an error, said in one line; 3 done, but damaged files or
results that need trust were left out; 130 and 143 stopped by Ctrl-C and SIGTERM.
"""

import os
import sys
import warnings
from typing import Any

from ocgl.cli import check, lists, run, serve, sweeps  # noqa: F401 - importing a module registers its commands
from ocgl.cli.common import Terminated, app, end_on_sigterm, errors, interruptible, say, terminated
from ocgl.errors import FileWarning, Interrupted, OcglError, StateWarning
from ocgl.text import printable


def main() -> None:
    """Run the command line interface; print an error as one line and exit with its code."""
    end_on_sigterm()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - lives with the process
    warnings.showwarning = _show_warning
    try:
        try:
            with interruptible():
                app()
        finally:
            sys.stdout.flush()
    except SystemExit as ended:
        if terminated and ended.code == 130:  # Typer takes SIGTERM for Ctrl-C
            say("stopped", error=True)
            raise SystemExit(143) from None
        raise
    except KeyboardInterrupt as error:
        say("stopped", error=True)
        code = 143 if isinstance(error, Terminated) else 130
    except Interrupted as error:
        say(error, error=True)
        code = 143 if isinstance(error.__cause__, Terminated) else 130
    except OcglError as error:
        _say_error(type(error).__name__, str(error))
        code = 2
    except OSError as error:
        _without_output()
        where = f"{error.filename}: " if error.filename else ""
        _say_error("OSError", f"{where}{error.strerror or error}")
        code = 2
    except MemoryError:
        _say_error("MemoryError", "there is not enough memory for this; a smaller graph, batch or network needs less")
        code = 2
    else:
        return
    raise SystemExit(code) from None


def _say_error(name: str, text: str) -> None:
    try:
        errors.print(f"[red]{name}[/red]: ", end="")
        errors.print(printable(" ".join(text.split("\n"))), markup=False, highlight=False, soft_wrap=True)
    except OSError:  # not even this can be written
        pass


def _without_output() -> None:
    """Let Python not try again, when it ends, to write what could not be written."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
    """Print the warnings of this package as one line; others as Python prints them."""
    if issubclass(category, FileWarning | StateWarning):
        say(f"warning: {message}", error=True)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, *rest[:2]))
