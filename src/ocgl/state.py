"""State as plain arrays and JSON facts: given, taken, and kept in one file, without pickle."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from ocgl.errors import StateError
from ocgl.types import AnyArray, Json


@dataclass
class State:
    """Arrays and facts by name. Parts of a larger object go under a prefix.

    >>> whole = State().include("head", State({"w": np.ones(2)}, {"labels": [3]}))
    >>> whole.part("head").facts
    {'labels': [3]}
    """

    arrays: dict[str, AnyArray] = field(default_factory=dict)
    facts: Json = field(default_factory=dict)

    def include(self, name: str, part: "State") -> "State":
        """Add a part under its name."""
        self.arrays |= {f"{name}/{key}": value for key, value in part.arrays.items()}
        self.facts[name] = part.facts
        return self

    def part(self, name: str) -> "State":
        """Give a part that was included under that name."""
        if name not in self.facts:
            raise StateError(f"the saved state has no part {name!r}")
        begin = f"{name}/"
        arrays = {key.removeprefix(begin): value for key, value in self.arrays.items() if key.startswith(begin)}
        return State(arrays, self.facts[name])

    def save(self, path: Path) -> None:
        """Write to one file, whole or not at all."""
        from safetensors.numpy import save

        data = save({k: np.asarray(v, order="C") for k, v in self.arrays.items()}, {"facts": json.dumps(self.facts)})
        write_whole(path, data)

    @classmethod
    def load(cls, path: Path) -> "State":
        """Read a file that `save` wrote."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                facts = json.loads((file.metadata() or {})["facts"])
                arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
        except (SafetensorError, KeyError, ValueError) as error:
            raise StateError(f"{path} holds no saved state: {error}") from error
        return cls(arrays, cast(Json, facts))


class Stateful(Protocol):
    """Gives and takes its state."""

    def state(self) -> State:
        """Give a copy of the state."""
        ...

    def load_state(self, state: State) -> None:
        """Become what `state` was taken from."""
        ...


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old content or the new and nothing between."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
