"""Files that are read only if they are what was written: checksums of JSON, and bytes that may be damaged."""

import errno
import hashlib
import json
import math
import os
import stat
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from ocgl.errors import DamagedFileError
from ocgl.types import AnyArray, Json

CHECKSUM = "checksum"
"""Key of a JSON file that holds the checksum of all other keys."""
LARGEST_JSON = 64 << 20
"""Largest JSON file that is read, in bytes."""
CHANGED = "its checksum is wrong: it was changed after it was written"
"""Why a file with a wrong checksum cannot be used."""


def read_bytes(path: Path, largest: int = LARGEST_JSON) -> bytes:
    """Return the content of a regular file, or raise `DamagedFileError`; links, pipes and devices are refused.

    Args:
        path: the file.
        largest: most bytes to read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DamagedFileError(path, "it is a symbolic link") from error
        raise DamagedFileError(path, error.strerror or str(error)) from error
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        os.close(descriptor)
        raise DamagedFileError(path, "it is no regular file")
    with os.fdopen(descriptor, "rb") as file:
        try:
            if facts.st_size > largest:
                raise DamagedFileError(path, f"it has {facts.st_size:,} bytes, more than the {largest:,} allowed")
            return file.read(facts.st_size)
        except OSError as error:
            raise DamagedFileError(path, error.strerror or str(error)) from error


def parse_json(data: bytes | str, path: object) -> Json:
    """Return the JSON object in a text, or raise `DamagedFileError` that names the file it comes from."""
    try:
        value = json.loads(data, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_small)
    except (ValueError, RecursionError) as error:
        what = "it is empty" if not data else f"it is no JSON ({_short(error)})"
        raise DamagedFileError(path, what) from error
    if not isinstance(value, dict):
        raise DamagedFileError(path, "it holds no JSON object")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large")
    return value


def _small(text: str) -> int:
    if len(text) > 20 or abs(int(text)) >= 1 << 63:
        raise ValueError(f"{text[:20]}... is too large")
    return int(text)


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__


def canonical_json(value: Any) -> bytes:
    """Return JSON that depends on the values alone, not on the order of keys or on white space."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def sealed(value: Json) -> Json:
    """Return a JSON object with the checksum of its other keys."""
    rest = {key: part for key, part in value.items() if key != CHECKSUM}
    return rest | {CHECKSUM: f"sha256:{hashlib.sha256(canonical_json(rest)).hexdigest()}"}


def unsealed(value: Json, path: object) -> tuple[Json, bool]:
    """Return a JSON object without its checksum, and whether it had one; a wrong one raises `DamagedFileError`."""
    if CHECKSUM not in value:
        return value, False
    rest = {key: part for key, part in value.items() if key != CHECKSUM}
    try:
        intact = sealed(rest)[CHECKSUM] == value[CHECKSUM]
    except (RecursionError, UnicodeError):
        intact = False
    if not intact:
        raise DamagedFileError(path, CHANGED)
    return rest, True


def read_sealed(path: Path) -> Json:
    """Read a JSON file that must have a checksum."""
    value, checked = unsealed(parse_json(read_bytes(path), path), path)
    if not checked:
        raise DamagedFileError(path, "it has no checksum: another program, or version 0.1 of ocgl, has written it")
    return value


def read_npz(path: Path) -> dict[str, AnyArray]:
    """Return the arrays of an `.npz` file, or raise `DamagedFileError`; Python objects are never loaded."""
    try:
        with path.open("rb") as opened:
            if opened.read(2) != b"PK":
                raise DamagedFileError(path, "it is no .npz archive (numpy.savez writes one)")
        with zipfile.ZipFile(path) as archive:
            found = {}
            for name in archive.namelist():
                if name.removesuffix(".npy") in found:
                    raise DamagedFileError(path, f"it holds {name.removesuffix('.npy')} twice")
                with archive.open(name) as member:
                    found[name.removesuffix(".npy")] = _read_array(member, name)
            return found
    except DamagedFileError:
        raise
    except Exception as error:  # what zipfile and numpy raise for damaged bytes is not limited to a few classes
        why = error.strerror if isinstance(error, OSError) and error.strerror else _short(error)
        raise DamagedFileError(path, f"it is no readable .npz archive ({why})") from error


def _read_array(member: IO[bytes], name: str) -> AnyArray:
    """Read an array and the end of its archive member, which is where its checksum is compared."""
    version = np.lib.format.read_magic(member)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = reader(member)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects; save arrays of numbers")
    data = np.empty(math.prod(shape) * dtype.itemsize, np.uint8)
    view, filled = data.data, 0
    while filled < len(data):
        step = member.readinto(view[filled : filled + (1 << 20)])  # type: ignore[attr-defined]
        if not step:
            raise ValueError(f"{name} holds {filled} bytes instead of {len(data)}")
        filled += step
    if member.read(1):
        raise ValueError(f"{name} holds more than {len(data)} bytes")
    array: AnyArray = data.view(dtype).reshape(shape, order="F" if fortran else "C")
    return np.ascontiguousarray(array) if array.ndim else array


def sha256_of(data: bytes) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()
