"""Real Redis servers on loopback ports of their own, in a folder: one, or a cluster of masters and replicas."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

import redis

REQUIRED = os.environ.get("OCGL_REDIS") == "required"


def need_redis() -> None:
    """Skip the test where there is no redis-server, unless it is required."""
    if shutil.which("redis-server") is None:
        if REQUIRED:
            raise RuntimeError("redis-server is missing: apt-get install redis-server")
        pytest.skip("redis-server is missing")


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, whose cluster bus ports are free as well."""
    held: list[socket.socket] = []
    found: list[int] = []
    while len(found) < count:
        probe, bus = socket.socket(), socket.socket()
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        with contextlib.suppress(OSError, OverflowError):
            bus.bind(("127.0.0.1", port + 10_000))
            found.append(port)
        held += [probe, bus]
    for one in held:
        one.close()
    return found


class Server:
    """A redis-server process."""

    def __init__(self, folder: Path, port: int, *options: str) -> None:
        self.folder, self.port, self._options = folder / str(port), port, options
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        """Start the process, also again."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command += ["--save", "", "--daemonize", "no", "--logfile", "log", *self._options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self) -> None:
        """Wait until it answers."""
        until = time.monotonic() + 20
        while True:
            try:
                self.ask("PING")
                return
            except redis.exceptions.ConnectionError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def ask(self, *command: Any) -> Any:
        """Send a command."""
        with redis.Redis("127.0.0.1", self.port, socket_timeout=10) as client:
            return client.execute_command(*command, NEVER_DECODE=True)

    def kill(self) -> None:
        """Kill the process as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.kill()


class Cluster:
    """A cluster of masters and their replicas; use it in a `with` block.

    Args:
        folder: where its files go.
        masters: number of masters.
        replicas: replicas of each master.
        options: more options of redis-server.
    """

    def __init__(self, folder: Path, masters: int = 3, replicas: int = 1, *options: str) -> None:
        common = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0",
                  "--cluster-replica-validity-factor", "0", *options)  # fmt: skip
        ports = free_ports(masters * (1 + replicas))
        self.servers = [Server(folder, port, *common) for port in ports]
        self.masters, self.replicas = self.servers[:masters], self.servers[masters:]
        try:
            self._join()
        except BaseException:
            self.stop()
            raise

    def _join(self) -> None:
        for server in self.servers:
            server.wait()
        for number, master in enumerate(self.masters):
            first, last = (16384 * (number + i) // len(self.masters) for i in (0, 1))
            master.ask("CLUSTER", "ADDSLOTSRANGE", first, last - 1)
            master.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for server in self.servers[1:]:
            server.ask("CLUSTER", "MEET", "127.0.0.1", self.servers[0].port)
        self.wait(
            lambda: all(self._info(server)["cluster_known_nodes"] == str(len(self.servers)) for server in self.servers)
        )
        for number, replica in enumerate(self.replicas):
            replica.ask("CLUSTER", "REPLICATE", self.masters[number % len(self.masters)].ask("CLUSTER", "MYID"))
        self.wait(lambda: all(self._info(server)["cluster_state"] == "ok" for server in self.servers))
        self.wait(lambda: all(b"master_link_status:up" in server.ask("INFO replication") for server in self.replicas))

    def _info(self, server: Server) -> dict[str, str]:
        lines = server.ask("CLUSTER", "INFO").decode().split()
        return dict(line.split(":", 1) for line in lines)

    def wait(self, condition: Any, seconds: float = 30.0) -> None:
        """Wait until a condition holds."""
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                raise TimeoutError("the cluster is not ready")
            time.sleep(0.05)

    def address(self, name: str, options: str = "") -> str:
        """Return the address of a graph on this cluster."""
        nodes = ",".join(f"127.0.0.1:{server.port}" for server in self.masters)
        return f"redis://{nodes}/{name}" + (f"?{options}" if options else "")

    def stop(self) -> None:
        """Kill all servers."""
        for server in self.servers:
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGCONT)
                server.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
