"""A real service in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from ocgl.serving.client import Client


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Running:
    """`ocgl serve FOLDER` as a process; use it in a `with` block."""

    def __init__(self, folder: Path, *options: str, key: str | None = None, wait: bool = True) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "ocgl", "serve", str(folder), "--port", str(self.port), *options]
        self._said = folder.parent / f"{folder.name}.said"
        with self._said.open("ab") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | {"COLUMNS": "200"})
        self.client = Client(self.url, key)
        if wait:
            try:
                self.client.wait_until_ready(60)
            except BaseException:
                self.kill()
                raise

    @property
    def said(self) -> str:
        """Everything that the process has printed."""
        return self._said.read_text()

    def kill(self) -> None:
        """Kill the process as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Let the process shut down; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.kill()
