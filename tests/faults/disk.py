"""A disk that fails: the n-th call that would write below a folder raises an error of the system instead."""

import os
import resource
import sys
from pathlib import Path
from typing import Any

CALLS = {"open": "open", "os.rename": "rename", "os.mkdir": "mkdir"}
"""Audit events of calls that write. `fsync` has none and is replaced; `write` fails by a limit on the size of files."""


class FailingDisk:
    """Lets the `number`-th call that writes below a folder fail in this process.

    Args:
        below: the folder.
        number: which call fails, from 1; none if 0.
        code: the error of the system.
        largest: bytes after which writing to any file fails; no limit if 0.
        count: file that gets the number of calls when the command has ended.
    """

    def __init__(self, below: str, number: int = 0, code: int = 0, largest: int = 0, count: str = "") -> None:
        self.below, self.number, self.code, self.count = below, number, code, count
        self.calls: list[str] = []
        self._active = True
        self._sync = os.fsync
        os.fsync = self._fsync  # type: ignore[assignment]
        sys.addaudithook(self._hook)
        if largest:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    def end(self) -> None:
        """Stop failing, and write the calls there were."""
        self._active = False
        if self.count:
            Path(self.count).write_text("\n".join(self.calls))

    def _pass_or_fail(self, kind: str, path: str) -> None:
        if not self._active or not path.startswith(self.below):
            return
        self.calls.append(f"{kind} {path}")
        if len(self.calls) == self.number:
            raise OSError(self.code, os.strerror(self.code), path)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        kind = CALLS.get(event)
        if kind is None or not isinstance(arguments[0], str | os.PathLike):
            return
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        if kind != "open" or (isinstance(arguments[2], int) and arguments[2] & writes):
            self._pass_or_fail(kind, str(Path(arguments[0]).absolute()))

    def _fsync(self, descriptor: int) -> None:
        self._pass_or_fail("fsync", str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        self._sync(descriptor)
