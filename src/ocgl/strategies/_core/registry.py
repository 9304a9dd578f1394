"""Strategies by name, by path to a file, or from another package's entry points."""

import sys
from dataclasses import fields
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from pydantic import ValidationError

import ocgl.strategies
from ocgl.code import GROUP, is_file_spec
from ocgl.errors import ConfigError, UnknownNameError
from ocgl.strategies._core.base import Strategy
from ocgl.strategies._core.user_files import load_module
from ocgl.validation import explained


def built_in() -> dict[str, type[Strategy]]:
    """Return the strategies of this package: one file of `ocgl.strategies` each, found by themselves."""
    return _built_in(tuple(ocgl.strategies.__path__))


@cache
def _built_in(folders: tuple[str, ...]) -> dict[str, type[Strategy]]:
    found: dict[str, type[Strategy]] = {}
    for info in iter_modules(folders):
        if not info.name.startswith("_"):
            module = import_module(f"ocgl.strategies.{info.name}")
            own = [kind for kind in vars(module).values() if _defined_in(kind, module)]
            found |= {kind.name: kind for kind in own}
    return dict(sorted(found.items()))


def _defined_in(kind: Any, module: ModuleType) -> bool:
    return isinstance(kind, type) and issubclass(kind, Strategy) and kind.__module__ == module.__name__


def names() -> list[str]:
    """List the strategies that can be named: this package's and those of other packages."""
    return sorted({*built_in(), *(point.name for point in entry_points(group=GROUP))})


def find(name: str) -> type[Strategy]:
    """Return the strategy class of a name, or of `path/to/file.py:Class`.

    >>> find("bare").__name__
    'Bare'
    """
    if is_file_spec(name):
        return _from_file(name)
    if name in built_in():
        return built_in()[name]
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _checked(point.load(), name)
    raise UnknownNameError("strategy", name, names())


def keys(strategy: type[Strategy]) -> list[str]:
    """List the hyperparameters of a strategy."""
    return [field.name for field in fields(strategy) if field.name != "seed"]


def make_strategy(strategy: str | type[Strategy], *, seed: int = 0, **hyperparameters: Any) -> Strategy:
    """Make a strategy from its name (or class) and hyperparameters; wrong ones raise `ConfigError`.

    >>> make_strategy("linear", lr=0.01).hyperparameters()["lr"]
    0.01
    """
    kind = find(strategy) if isinstance(strategy, str) else strategy
    for key in hyperparameters:
        if key not in keys(kind):
            raise UnknownNameError(f"hyperparameter of {kind.name}", key, keys(kind))
    try:
        return kind(seed=seed, **hyperparameters)
    except ValidationError as error:
        raise explained(error, f"{kind.name}: ") from error


def spec_of(strategy: Strategy) -> str:
    """Return the text that `find` finds the class of a strategy by: its name, or `path/to/file.py:Class`.

    A class inside a function, or of no file, can be run but not found again; its text is `module.Class`.
    """
    kind = type(strategy)
    if built_in().get(kind.name) is kind:
        return kind.name
    if any(point.name == kind.name and point.load() is kind for point in entry_points(group=GROUP)):
        return kind.name
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None or "." in kind.__qualname__:
        return f"{kind.__module__}.{kind.__qualname__}"
    return f"{file}:{kind.__qualname__}"


def is_findable(strategy: Strategy) -> bool:
    """Return whether another process finds the class of a strategy by `spec_of`."""
    spec = spec_of(strategy)
    return is_file_spec(spec) or spec in names()


def _from_file(name: str) -> type[Strategy]:
    path, _, attribute = name.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"no strategy file {path!r}")
    module = load_module(file)
    if not hasattr(module, attribute):
        raise UnknownNameError(f"strategy in {path}", attribute, [n for n in vars(module) if not n.startswith("_")])
    return _checked(getattr(module, attribute), name)


def _checked(found: Any, name: str) -> type[Strategy]:
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise ConfigError(f"{name} is no subclass of ocgl.Strategy")
    if not hasattr(found, "name"):
        raise ConfigError(f'{name} has no name: add `name: ClassVar[str] = "..."` to the class')
    hints = vars(found).get("__annotations__", {})
    plain = {key for key, hint in hints.items() if "ClassVar" not in str(hint) and not key.startswith("_")}
    missing = sorted(plain - {field.name for field in fields(found)})
    if missing:
        raise ConfigError(f"{name}: {', '.join(missing)} is no hyperparameter yet: put @strategy above the class")
    return found
