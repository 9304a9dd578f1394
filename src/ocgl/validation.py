"""Plain words for wrong values: what pydantic found, without its internals."""

import re
from typing import Any

import numpy as np
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ocgl.errors import ConfigError, OcglError

_WORDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "tuple_type": "a list such as [5, 5]",
    "list_type": "a list such as [5, 5]",
    "missing": "given",
    "dict_type": "a group of key=value pairs",
    "model_type": "a group of key=value pairs",
}
_LIMITS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def explained(error: ValidationError, begin: str = "") -> OcglError:
    """Return an error of this package for one of pydantic's; one that a check of ours raised stays as it is.

    Args:
        error: what pydantic found.
        begin: what the message begins with.
    """
    errors = error.errors(include_url=False)
    for one in errors:
        cause = one.get("ctx", {}).get("error")
        if isinstance(cause, OcglError):
            return cause
    first = errors[0]
    path = _path(first)
    same = [one for one in errors if _path(one) == path]
    key, given = path[-1] if path else "value", _given(same)
    wanted = list(dict.fromkeys(_wanted(one) for one in same))
    if first["type"] == "missing":
        return ConfigError(f"{begin}{key} is missing")
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return ConfigError(f"{begin}there is no option {key}")
    if first["type"] in ("value_error", "assertion_error") and not path:
        return ConfigError(f"{begin}{_reason(first)}")
    text = f"{begin}{key} = {_shown(given)}: it must be {_alternatives(wanted)}"
    return ConfigError(text + _hint(key, given, wanted))


def _path(one: ErrorDetails) -> list[str]:
    """Return the names of the option that is wrong, without places in a list and pydantic's own validators."""
    parts = [part for part in one["loc"] if isinstance(part, str)]
    return [
        part for part in parts if re.fullmatch(r"[A-Za-z_]\w*", part) and part not in ("int", "float", "str", "bool")
    ]


def _given(errors: list[ErrorDetails]) -> Any:
    """Return the whole value that was given: the input of the error that lies least deep."""
    return min(errors, key=lambda one: len(one["loc"]))["input"]


def _wanted(one: ErrorDetails) -> str:
    kind, context = one["type"], one.get("ctx", {})
    if kind in _LIMITS:
        words, name = _LIMITS[kind]
        return f"{words} {context[name]:g}" if isinstance(context[name], int | float) else f"{words} {context[name]}"
    if kind == "literal_error":
        return str(context["expected"]).replace("'", "")
    if kind in ("value_error", "assertion_error"):
        return _reason(one)
    if kind in ("too_short", "too_long"):
        return f"a list of {context.get('min_length', context.get('max_length'))} values"
    return _WORDS.get(kind, one["msg"].removeprefix("Input should be ").removeprefix("Value error, "))


def _reason(one: ErrorDetails) -> str:
    return one["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")


def _alternatives(wanted: list[str]) -> str:
    return ", or ".join(wanted)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _hint(key: str, given: Any, wanted: list[str]) -> str:
    if isinstance(given, str) and "," in given and any("list" in words for words in wanted):
        return f"; write {key}=[{given.strip('[]() ')}]"
    return ""


def plain_numbers(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with numpy's scalars as Python's, and lists as tuples."""
    return {key: _plain(value) for key, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return tuple(_plain(part) for part in value)
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise ConfigError(f"the number {str(value)[:25]} is too large: numbers must be below 2**63")
    return value
