"""Strategies by name, by entry point, or by a path to a file."""

import importlib.util
import sys
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from ocgl.errors import ConfigError, UnknownNameError
from ocgl.strategies.base import Strategy

GROUP = "ocgl.strategies"


def names() -> list[str]:
    """List the registered strategies."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def find(name: str) -> type[Strategy]:
    """Give the strategy class registered under a name, or named as `path/to/file.py:Class`.

    >>> find("bare").__name__
    'Bare'
    """
    if ".py:" in name:
        return _from_file(name)
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _checked(point.load(), name)
    raise UnknownNameError("strategy", name, names())


def keys(strategy: type[Strategy]) -> list[str]:
    """List the hyperparameters of a strategy."""
    return [field.name for field in fields(strategy) if field.name != "seed"]


def make(strategy: str | type[Strategy], *, seed: int = 0, **hyperparameters: Any) -> Strategy:
    """Make a strategy from its name and hyperparameters, checked.

    >>> make("linear", lr=0.01).hyperparameters()["lr"]
    0.01
    """
    kind = find(strategy) if isinstance(strategy, str) else strategy
    for key in hyperparameters:
        if key not in keys(kind):
            raise UnknownNameError(f"hyperparameter of {kind.name}", key, keys(kind))
    try:
        return kind(seed=seed, **hyperparameters)
    except ValidationError as error:
        raise ConfigError(_explain(kind.name, error)) from error


def _explain(name: str, error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{name}: {'.'.join(str(part) for part in first['loc'])} = {first['input']!r}: {first['msg']}"


def _from_file(name: str) -> type[Strategy]:
    path, _, attribute = name.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"no strategy file {path!r}")
    module = _module(file)
    if not hasattr(module, attribute):
        raise UnknownNameError(f"strategy in {path}", attribute, [n for n in vars(module) if not n.startswith("_")])
    return _checked(getattr(module, attribute), name)


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"ocgl_user_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _checked(found: Any, name: str) -> type[Strategy]:
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise ConfigError(f"{name} is no subclass of ocgl.Strategy")
    return found
