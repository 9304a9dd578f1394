"""Files that are written whole or not at all, and read only if they are what was written.

Every file of the package is written by `writing`, or inside a folder that `building` publishes. Both work in a
temporary name beside the target, sync it, rename it, and sync the folder. On failure the temporary name is removed and
`WriteError` says what could not be written. What a killed process left is removed by the next write to the folder.
"""

import contextlib
import errno
import hashlib
import itertools
import json
import math
import os
import re
import shutil
import socket
import stat
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np

from ocgl.errors import DamagedFileError, WriteError
from ocgl.types import AnyArray, Json

CHECKSUM = "checksum"
"""Key of a JSON file that holds the checksum of all other keys."""
LARGEST_JSON = 64 << 20
"""Largest JSON file that is read, in bytes."""

_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
_COUNTER = itertools.count()
_PART = re.compile(r"\..*\.([0-9a-f]{8})-(\d+)-([0-9a-f]{8})-\d+\.part", re.DOTALL)
_FOREIGN_SECONDS = 7 * 24 * 3600
_tokens: dict[int, str] = {}
_cleaned: set[tuple[int, Path]] = set()


def _token() -> str:
    """Return a name of this process that a later process with the same number does not have."""
    pid = os.getpid()
    if pid not in _tokens:  # also after a fork
        _tokens[pid] = os.urandom(4).hex()
    return _tokens[pid]


def temporary_name(path: Path) -> Path:
    """Return a new hidden name beside a path; `remove_leftovers` knows whether its process has died."""
    return path.with_name(f".{path.name[:100]}.{_HOST}-{os.getpid()}-{_token()}-{next(_COUNTER)}.part")


def remove_leftovers(folder: Path) -> int:
    """Remove what killed processes have left in a folder; return how many files and folders that were."""
    removed = 0
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return 0
    for entry in entries:
        found = _PART.fullmatch(entry.name)
        if found is None or _in_use(entry, *found.groups()):
            continue
        with contextlib.suppress(OSError):
            _remove(Path(entry.path))
            removed += 1
    return removed


def _in_use(entry: "os.DirEntry[str]", host: str, pid: str, token: str) -> bool:
    if host != _HOST:
        try:
            return time.time() - entry.stat(follow_symlinks=False).st_mtime < _FOREIGN_SECONDS
        except OSError:
            return True
    if int(pid) == os.getpid():
        return token == _token()
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _tidy(folder: Path) -> None:
    """Remove leftovers of a folder, once per process."""
    key = (os.getpid(), folder)
    if key not in _cleaned:
        _cleaned.add(key)
        remove_leftovers(folder)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, or raise `WriteError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(folder, error) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time into the block, where the system can lock a folder."""
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_device(path: Path) -> bool:
    """Return whether a path is, or is a link to, something that is there and is neither a file nor a folder."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write to; it gets its name when the block ends, and a crash leaves the old content.

    A link is replaced by the file. A device or a pipe is written to as it is.

    Args:
        path: the file to write; its folder must exist.
    """
    if _is_device(path):
        try:
            with path.open("wb") as device:
                yield device
        except OSError as error:
            raise WriteError(path, error) from error
        return
    kept = "the file is as it was before" if os.path.lexists(path) else "nothing was written"
    _tidy(path.parent)
    temporary = temporary_name(path)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        kept = "it is there, but a crash of the machine may lose it"
        _sync(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, WriteError):
            raise WriteError(path, error, kept) from error
        raise


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old content or the new one and nothing between."""
    with writing(path) as file:
        file.write(data)


def write_json(path: Path, value: Json) -> None:
    """Write a JSON file, whole or not at all."""
    write_whole(path, (json.dumps(value, indent=1) + "\n").encode())


def write_array(path: Path, array: AnyArray) -> None:
    """Write an array as a `.npy` file, whole or not at all."""
    with writing(path) as file:
        # not the file itself: numpy would write past Python and not notice that the disk is full
        np.lib.format.write_array(SimpleNamespace(write=file.write), array, allow_pickle=False)


@contextmanager
def scratch(folder: Path, name: str) -> Iterator[Path]:
    """Yield a new temporary folder inside a folder, and delete it afterwards.

    Args:
        folder: where to make it; it is created if needed.
        name: what it is for, part of its name.
    """
    make_folder(folder)
    _tidy(folder)
    new = temporary_name(folder / name)
    try:
        new.mkdir()
    except OSError as error:
        raise WriteError(new, error) from error
    try:
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


@contextmanager
def building(folder: Path, replace: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield a new folder to fill; it gets its name when the block ends.

    Args:
        folder: the folder to publish.
        replace: called with the new folder if there is one of that name already; False keeps the existing one.
    """
    kept = "the folder is as it was before" if os.path.lexists(folder) else "nothing was written"
    with scratch(folder.parent, folder.name) as new:
        try:
            yield new
            for file in new.iterdir():
                _sync_file(file)
            _sync(new)
            _publish(new, folder, replace)
            _sync(folder.parent)
        except OSError as error:
            if isinstance(error, WriteError):
                raise
            raise WriteError(folder, error, kept) from error


def _publish(new: Path, folder: Path, replace: Callable[[Path], bool]) -> None:
    try:
        new.rename(folder)
        return
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise
    if not replace(new):
        return
    with scratch(folder.parent, folder.name) as aside:
        with contextlib.suppress(FileNotFoundError):
            folder.rename(aside / "old")
        try:
            new.rename(folder)
        except OSError as error:  # another process was faster: what it wrote is as good
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                with contextlib.suppress(OSError):
                    (aside / "old").rename(folder)
                raise


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    """Make a rename in a folder durable, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM):
            raise
    finally:
        os.close(descriptor)


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
    with os.fdopen(descriptor, "rb") as file:
        try:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise DamagedFileError(path, "it is no regular file")
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
        raise DamagedFileError(path, "its checksum is wrong: it was changed after it was written")
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


def set_aside(path: Path) -> Path:
    """Rename a damaged file or folder to a hidden name beside it, in place of an earlier one, and return that."""
    target = path.with_name(f".damaged-{path.name}")
    try:
        with contextlib.suppress(FileNotFoundError):
            _remove(target)
        path.rename(target)
    except OSError as error:
        raise WriteError(target, error) from error
    return target
