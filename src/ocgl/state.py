"""Saved state as plain arrays and JSON, stored in one safetensors file, without pickle."""

import contextlib
import json
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

import numpy as np

from ocgl.errors import StateError
from ocgl.types import AnyArray, Json


@dataclass
class State:
    """State of an object. Nested objects are stored under a name prefix.

    Args:
        arrays: numpy arrays by name.
        facts: JSON-serialisable values by name.

    >>> whole = State().include("head", State({"w": np.ones(2)}, {"labels": [3]}))
    >>> whole.part("head").facts
    {'labels': [3]}
    """

    arrays: dict[str, AnyArray] = field(default_factory=dict)
    facts: Json = field(default_factory=dict)

    def include(self, name: str, part: "State") -> "State":
        """Add the state of a nested object under a name, and return self."""
        self.arrays |= {f"{name}/{key}": value for key, value in part.arrays.items()}
        self.facts[name] = part.facts
        return self

    def part(self, name: str) -> "State":
        """Return the nested state that `include` added under this name."""
        if name not in self.facts:
            raise StateError(f"the saved state has no part {name!r}; it was saved by another class or version")
        begin = f"{name}/"
        arrays = {key.removeprefix(begin): value for key, value in self.arrays.items() if key.startswith(begin)}
        return State(arrays, self.facts[name])

    def save(self, path: Path) -> None:
        """Write to one safetensors file, atomically."""
        from safetensors.numpy import save

        data = save({k: np.asarray(v, order="C") for k, v in self.arrays.items()}, {"facts": json.dumps(self.facts)})
        write_whole(path, data)

    @classmethod
    def load(cls, path: Path) -> "State":
        """Read a file written by `save`."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                facts = json.loads((file.metadata() or {})["facts"])
                arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
        except (SafetensorError, KeyError, ValueError) as error:
            raise StateError(f"{path} is not a saved state: {error}") from error
        return cls(arrays, cast(Json, facts))


@runtime_checkable
class Stateful(Protocol):
    """An object whose state can be saved and restored."""

    def state(self) -> State:
        """Return a copy of the state."""
        ...

    def load_state(self, state: State) -> None:
        """Restore a state returned by `state()`."""
        ...


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old content or the new one and nothing between."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename in a folder durable, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
