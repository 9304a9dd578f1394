"""Saved state as plain arrays and JSON, stored in one safetensors file, without pickle."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

import numpy as np

from ocgl.checked import canonical_json, read_bytes
from ocgl.errors import DamagedFileError, StateError
from ocgl.files import write_whole
from ocgl.types import AnyArray, Json

SCHEMA_VERSION = 2
"""Version of the state files that are written and read."""
LARGEST = 1 << 40
"""Largest state file that is read, in bytes."""


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

    def checksum(self) -> str:
        """Return the SHA-256 of all names, types, shapes and values."""
        facts = json.loads(json.dumps(self.facts))  # as they come back from a file
        digest = hashlib.sha256(canonical_json([SCHEMA_VERSION, facts]))
        for name, array in sorted(self.arrays.items()):
            values = _native(array)
            digest.update(canonical_json([name, values.dtype.str, values.shape]))
            digest.update(values.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Write to one safetensors file, atomically, with its checksum."""
        from safetensors.numpy import save

        try:
            facts = {
                "schema_version": str(SCHEMA_VERSION),
                "facts": json.dumps(self.facts),
                "checksum": self.checksum(),
            }
            data = save({name: _native(array) for name, array in self.arrays.items()}, facts)
        except Exception as error:  # safetensors raises several classes for types that it does not know
            raise StateError(f"a state holds arrays of numbers, and facts that JSON can express: {error}") from error
        write_whole(Path(path), data)

    @classmethod
    def load(cls, path: Path) -> "State":
        """Read a file written by `save`; a damaged one, or one of another version, raises `DamagedFileError`."""
        return cls.parse(read_bytes(Path(path), LARGEST), path)

    @classmethod
    def parse(cls, data: bytes, path: object = "a state") -> "State":
        """Read the content of a file written by `save`."""
        from safetensors.numpy import load

        try:
            length = int.from_bytes(data[:8], "little")
            header = json.loads(data[8 : 8 + length]).get("__metadata__", {}) if len(data) > 8 else {}
            arrays = load(data)
        except Exception as error:  # a damaged header may look like anything
            raise DamagedFileError(path, f"it is no saved state ({error})") from error
        version = header.get("schema_version")
        if version != str(SCHEMA_VERSION):
            given = "no schema version" if version is None else f"schema version {str(version)[:20]}"
            raise DamagedFileError(path, f"it has {given}; this version of ocgl reads {SCHEMA_VERSION}")
        try:
            facts = json.loads(header["facts"])
            found = cls(arrays, cast(Json, facts))
            intact = isinstance(facts, dict) and found.checksum() == header["checksum"]
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            raise DamagedFileError(path, f"it is no saved state ({error!r})") from error
        if not intact:
            raise DamagedFileError(path, "its checksum is wrong: it was changed after it was written")
        return found


def _native(array: AnyArray) -> AnyArray:
    """Return an array as it comes back from a file: contiguous, in the byte order of this machine."""
    values = np.asarray(array, order="C")
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


@runtime_checkable
class Stateful(Protocol):
    """An object whose state can be saved and restored."""

    def state(self) -> State:
        """Return a copy of the state."""
        ...

    def load_state(self, state: State) -> None:
        """Restore a state returned by `state()`."""
        ...
