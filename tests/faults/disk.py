"""A disk that fails: the n-th call that would write below a folder raises an error of the system instead."""

import errno
import os
import resource
import sys
from typing import Any

CALLS = ("open", "rename", "mkdir", "fsync")
"""Calls that can be made to fail by themselves; writing fails by a limit on the size of files."""


def _is_writing(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "open":
        _, mode, flags = arguments
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) if isinstance(flags, int) else mode in ("w", "x")
    return True


def inject(
    below: str, call: str = "", number: int = 0, code: int = errno.ENOSPC, largest: int = 0, count: str = ""
) -> None:
    """Let the `number`-th call of a kind below a folder fail from now on in this process.

    Args:
        below: the folder.
        call: one of `CALLS`; all calls count together if empty.
        number: which one fails, from 1; none if 0.
        code: the error of the system.
        largest: bytes after which writing to any file fails.
        count: file to write the number of calls to when the process ends.
    """
    seen = 0

    def pass_or_fail(kind: str, path: object) -> None:
        nonlocal seen
        if (call and kind != call) or not os.fspath(path).startswith(below):  # type: ignore[call-overload]
            return
        seen += 1
        if count:
            with_count(count, seen)
        if seen == number:
            raise OSError(code, os.strerror(code), str(path))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        kind = {"open": "open", "os.rename": "rename", "os.mkdir": "mkdir"}.get(event)
        if kind is None or not arguments or not isinstance(arguments[0], str | os.PathLike):
            return
        if _is_writing(event, arguments):
            pass_or_fail(kind, arguments[0])

    sync = os.fsync

    def fsync(descriptor: int) -> None:
        pass_or_fail("fsync", os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    sys.addaudithook(hook)
    os.fsync = fsync
    if largest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))


def with_count(path: str, number: int) -> None:
    """Write a number to a file, by calls that raise no audit event of ours."""
    descriptor = _counters.get(path)
    if descriptor is None:
        descriptor = _counters[path] = os.memfd_create("count")
    os.pwrite(descriptor, str(number).encode(), 0)


_counters: dict[str, int] = {}
