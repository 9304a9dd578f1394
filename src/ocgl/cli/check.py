"""The command `check`: does a strategy, or a running service, do what every one must?"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ocgl.cli.common import app, console
from ocgl.code import is_file_spec
from ocgl.errors import ConfigError, OcglError
from ocgl.text import printable


@app.command()
def check(
    strategy: Annotated[
        str | None, typer.Argument(help="A name from `ocgl strategies`, or path/to/file.py:Class.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Hyperparameter as key=value; may be repeated.")
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(help="Check the running service at this address instead: it gets nodes, and loses them again."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="API key of the service, with scope admin.", envvar="OCGL_KEY")
    ] = None,
    teach: Annotated[
        bool, typer.Option("--teach", help="Send labels to the service as well; what it learns from them stays.")
    ] = False,
) -> None:
    """Run the checks that every strategy, or every running service, must pass, and list which hold."""
    if (strategy is None) == (service is None):
        raise ConfigError("give a strategy to check, or --service with the address of a running service")
    failed = _check_service(service, key, teach) if service is not None else _check_strategy(str(strategy), overrides)
    raise typer.Exit(1 if failed else 0)


def _check_strategy(strategy: str, overrides: list[str] | None) -> int:
    from ocgl.experiments.config import parse_override
    from ocgl.strategies import make_strategy
    from ocgl.strategies._core.user_files import located
    from ocgl.testing import CHECKS, small_graph

    values = dict(map(parse_override, overrides or ()))
    folder = Path(strategy.rpartition(":")[0]).resolve().parent if is_file_spec(strategy) else None
    try:
        make_strategy(strategy, **values)
    except OcglError:
        raise
    except Exception as error:
        raise ConfigError(f"{strategy} cannot be made: {located(error, folder)}") from error

    def run(one: Callable[..., None]) -> str | None:
        one(lambda: make_strategy(strategy, seed=3, **values), small_graph())
        return None

    return sum(_fails(one, run, lambda error: located(error, folder)) for one in CHECKS)


def _check_service(url: str, key: str | None, teach: bool) -> int:
    from ocgl.cli.serve import needs_extra

    needs_extra()
    from ocgl.testing.services import SERVICE_CHECKS, SkippedCheck, Visit

    visit = Visit(url, key, teach)

    def run(one: Callable[..., None]) -> str | None:
        try:
            one(visit)
        except SkippedCheck as why:
            return f"skipped: {why}"
        return None

    try:
        return sum(_fails(one, run, repr) for one in SERVICE_CHECKS)
    finally:
        visit.leave()


def _fails(one: Callable[..., None], run: Callable[[Any], str | None], described: Callable[[Exception], str]) -> bool:
    """Run a check and print its verdict; return whether it failed."""
    from ocgl.testing import ContractError

    failed = True
    try:
        verdict, style, failed = run(one) or "holds", "green", False
    except ContractError as error:
        verdict, style = f"fails: {error}", "red"
    except Exception as error:  # what is checked may raise anything; the other checks run all the same
        verdict, style = f"raises {described(error)}", "red"
    word, _, rest = printable(verdict).partition(" ")
    line = Text(f"{one.__name__.replace('_', ' '):45} ").append(word, style).append(f" {rest}".rstrip())
    console.print(line, soft_wrap=True)
    return failed
