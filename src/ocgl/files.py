"""Files that are written whole or not at all.

Every file of the package is written by `writing`, or inside a folder that `building` publishes. Both work in a
temporary name beside the target, sync it, rename it, and sync the folder. On failure the temporary name is removed and
`WriteError` says what could not be written. What a killed process left is removed by the next write to the folder.
"""

import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import numpy as np

from ocgl.errors import WriteError
from ocgl.types import AnyArray, Json

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
