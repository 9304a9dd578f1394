"""The network of a strategy, by name: `gcn`, a shipped one, `path/to/file.py:Net`, or `module:Net`."""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator
from torch import nn

from ocgl.code import is_file_spec
from ocgl.errors import ConfigError, UnknownNameError
from ocgl.nn import backbones
from ocgl.nn.network import MakeNet
from ocgl.strategies._core.user_files import load_module

GCN_NAME = "gcn"
"""Our own network, with the fast path."""
NAMES = (GCN_NAME, *backbones.NAMES)

_GIVEN: dict[str, MakeNet] = {}
"""Networks that were given as a class or function, by their text."""


def text_of_backbone(given: Any) -> Any:
    """Return the text that finds a network again; a class or function is remembered under it."""
    if isinstance(given, nn.Module):
        kind = type(given).__name__
        raise ConfigError(f"backbone={kind}(...): give the class {kind} itself, each strategy makes its own network")
    if isinstance(given, str) or not callable(given):
        return given
    if not hasattr(given, "__qualname__"):
        kind = type(given).__name__
        raise ConfigError(
            f"backbone: give a class or a function, not a {kind}; for options of its own, write a function"
        )
    text = _place_of(given)
    same = [known for known, make in _GIVEN.items() if make is given and known.split("#")[0] == text]
    if not same and text in _GIVEN and not _is_findable(text):  # another one of this name, also inside a function
        text = f"{text}#{len(_GIVEN)}"
    _GIVEN[same[0] if same else text] = given
    return same[0] if same else text


def _place_of(given: Callable[..., Any]) -> str:
    module, name = given.__module__, given.__qualname__
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or "." in name or "site-packages" in Path(file).parts:
        return f"{module}:{name}"
    if module.startswith("ocgl.nn.backbones."):
        return module.rpartition(".")[2]
    return f"{file}:{name}"


def _is_findable(text: str) -> bool:
    """Return whether another process finds a network by its text."""
    return "<locals>" not in text and "<lambda>" not in text and not text.startswith("__main__:")


if TYPE_CHECKING:
    Backbone = str | MakeNet
else:
    Backbone = Annotated[str, BeforeValidator(text_of_backbone)]
"""The network as a hyperparameter: its text; a class or function is taken and becomes its text."""


def title_of_backbone(text: Backbone) -> str:
    """Return the name of a network in tables.

    >>> title_of_backbone("sage"), title_of_backbone("mine.py:Net")
    ('sage', 'Net')
    """
    return str(text).rpartition(":")[2].rpartition(".")[2].split("#")[0]


def find_backbone(given: Backbone) -> MakeNet:
    """Return what makes a network of this text; `gcn` has no maker of this kind."""
    text = str(given)
    if text in _GIVEN:
        return _GIVEN[text]
    if text in backbones.NAMES:
        return backbones.shipped(text)
    module, colon, name = text.rpartition(":")
    if not colon:
        raise UnknownNameError("backbone", text, [*NAMES, "path/to/file.py:Net"])
    if is_file_spec(text):
        file = Path(module)
        if not file.is_file():
            raise ConfigError(f"backbone: there is no file {module!r}")
        found = load_module(file)
    else:
        try:
            found = importlib.import_module(module)
        except ImportError as error:
            raise ConfigError(f"backbone: {module} cannot be imported: {error}") from error
        except ValueError as error:
            raise ConfigError(f"backbone={text}: write path/to/file.py:Net") from error
        origin = getattr(found, "__file__", None)
        if origin is not None and "site-packages" not in Path(origin).parts:
            raise ConfigError(
                f"backbone={text}: write {origin}:{name}, so that its code is part of a result's identity"
            )
    if not hasattr(found, name):
        names = [n for n, value in vars(found).items() if isinstance(value, type) and issubclass(value, nn.Module)]
        raise UnknownNameError(f"network in {module}", name, names)
    make = getattr(found, name)
    if not callable(make):
        raise ConfigError(f"backbone={text}: give a class Net(in_channels, hidden, layers) or a function")
    return make  # type: ignore[no-any-return]


def uses_edges(make: MakeNet) -> bool:
    """Return whether a network uses edges; for one with `uses_edges = False` no neighbour is sampled."""
    return bool(getattr(make, "uses_edges", True))


def takes_weights(make: MakeNet) -> bool:
    """Return whether the `forward` of a network takes `edge_weight`; a function is believed to make one that does."""
    forward = getattr(make, "forward", None)
    return forward is None or "edge_weight" in inspect.signature(forward).parameters
