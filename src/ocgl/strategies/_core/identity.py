"""What a saved state says of the strategy it was taken from, and whether that fits the one that loads it."""

import json
import sys
import warnings
from functools import cache
from pathlib import Path

from ocgl.code import code_of_file, file_of_network
from ocgl.errors import StateError, StateWarning
from ocgl.state import SCHEMA_VERSION, State
from ocgl.types import Json


def identity_of(kind: type, name: str, hyperparameters: Json, seed: int) -> Json:
    """Return strategy, hyperparameters, seed, code and schema version, as they come back from a file."""
    values = json.loads(json.dumps(hyperparameters, default=repr))
    code = _code_of_class(kind, hyperparameters.get("backbone"))
    return {"strategy": name, "hyperparameters": values, "seed": seed, "code": code, "schema_version": SCHEMA_VERSION}


@cache
def _code_of_class(kind: type, network: str | None) -> str | None:
    """Return a short name of the code of a strategy class and its network; None for a class that is in no file."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return None if file is None else code_of_file(Path(file), file_of_network(network))


def check_identity(state: State, own: Json, width: int) -> None:
    """Raise `StateError` for the state of another strategy, schema version or width.

    Args:
        state: state of a strategy.
        own: identity of the strategy that loads it.
        width: number of features that this strategy has learned from, 0 for none.
    """
    given = state.facts.get("identity")
    if not isinstance(given, dict):
        raise StateError(f"the state does not say what it is of; {own['strategy']} needs one that a strategy has saved")
    for key, what in (("strategy", ""), ("schema_version", "schema version ")):
        if given.get(key) != own[key]:
            raise StateError(f"the state is of {what}{given.get(key)}, not of {what}{own[key]}")
    saved = state.facts.get("width", 0)
    if width and saved and saved != width:
        raise StateError(f"the state is of features of width {saved}, not of {width}")


def report_differences(given: Json, own: Json) -> None:
    """Warn if a state that was loaded comes from other hyperparameters, another seed or other code."""
    other = [key for key in ("hyperparameters", "seed") if given.get(key) != own[key]]
    if given.get("code") != own["code"]:
        other.append(f"code ({given.get('code')}, now {own['code']})")
    if other:
        text = f"the state of {own['strategy']} was saved with other {', '.join(other)}: predictions may differ"
        warnings.warn(text, StateWarning, stacklevel=3)
