"""The servers of a graph: commands to many partitions in one round trip, wherever the partitions are."""

import time
from binascii import crc32, crc_hqx
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from redis.connection import Connection, SSLConnection
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

import redis
from ocgl.errors import ConfigError, StoreRefusedError, StoreUnreachableError
from ocgl.graph.redis._resp import DONE, OTHER, scanned
from ocgl.graph.redis.address import Address
from ocgl.graph.redis.wire import Wire
from ocgl.types import AnyArray, IntArray

SLOTS = 16384
_CODE = files("ocgl.graph.redis").joinpath("functions.lua").read_text()
LIBRARY = f"ocgl_{crc32(_CODE.encode()):08x}"
"""Name of the functions on the servers; it changes with their code."""
_PASSING = (
    ConnectionError, TimeoutError, ClusterDownError, MasterDownError, TryAgainError, BusyLoadingError, ReadOnlyError,
)  # fmt: skip
"""Errors that end by themselves when a failover or a move is over."""
_LEAST_ROOM = 1 << 17
_FINAL = (AuthenticationError, NoPermissionError)

Node = tuple[str, int]
Command = tuple[Any, ...] | bytes
"""A command, packed or not."""


class BehindError(Exception):
    """A partition lacks changes that were applied to it."""


@dataclass(frozen=True)
class Values:
    """Values among the bytes of answers.

    Args:
        data: the bytes.
        places: where each value begins.
        sizes: how long it is.
    """

    data: AnyArray
    places: IntArray
    sizes: IntArray


@dataclass
class Traffic:
    """What has gone to and fro.

    Attributes:
        trips: round trips: everything that is sent at once, to however many servers, is one.
        retries: round trips that had to be repeated, in part or whole.
        commands: commands sent.
        sent: bytes sent.
        received: bytes received.
        redone: changes that a partition had lost and got again.
    """

    trips: int = 0
    retries: int = 0
    commands: int = 0
    sent: int = 0
    received: int = 0
    redone: int = 0


def tags_of(name: str, partitions: int) -> list[str]:
    """Return the hash tag of each partition: spread evenly over the slots, and so over the masters of a cluster."""
    found = []
    for partition in range(partitions):
        low, high = partition * SLOTS // partitions, (partition + 1) * SLOTS // partitions
        number = 0
        while not low <= slot_of(f"{name}:{partition}:{number}") < high:
            number += 1
        found.append(f"{name}:{partition}:{number}")
    return found


def slot_of(tag: str) -> int:
    """Return the slot of a hash tag."""
    return crc_hqx(tag.encode(), 0) % SLOTS


class Servers:
    """Connections to the servers of a graph: one to each master that is needed.

    Args:
        address: where the graph is.
    """

    def __init__(self, address: Address) -> None:
        self.address, self._patience = address, address.patience
        self.traffic = Traffic()
        self._connections: dict[Node, Wire] = {}
        self._groups: dict[int, list[tuple[Node, list[tuple[int, int]], IntArray]]] = {}
        self._room = np.empty(1 << 20, np.uint8)
        self._owners: list[tuple[int, Node]] = []
        self.is_cluster = False
        self._patiently(self._learn_topology)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def call(self, calls: Sequence[tuple[int, Command]], needed: Sequence[int] = ()) -> list[Any]:
        """Send a command to the owner of each slot, all at once; return the answers.

        Follows slots that move, and tries again while servers cannot be reached. Every command must be safe to repeat.
        Raises `BehindError` for a partition that lacks changes, `StoreUnreachableError` when patience is over.

        Args:
            calls: slots and commands.
            needed: for reading calls, the change that the partition of each must have.
        """
        answers: list[Any] = [None] * len(calls)
        waiting = list(range(len(calls)))
        asking: dict[int, Node] = {}
        until = time.monotonic() + self._patience
        pause = 0.01
        self.traffic.trips += 1
        while True:
            failed = self._round(calls, waiting, asking, answers)
            if not failed:
                return answers
            self.traffic.retries += 1
            waiting, passing = list(failed), None
            asking = {i: _node_of(error) for i, error in failed.items() if type(error) is AskError}
            for i, error in failed.items():
                passing = self._judge(error, needed[i] if needed else 0) or passing
            if passing is not None:
                if time.monotonic() > until:
                    text = f"{self.address.shown} cannot be reached, tried for {self._patience:g} seconds"
                    raise StoreUnreachableError(f"{text}: {passing}") from passing
                time.sleep(pause)
                pause = min(2 * pause, 0.5)
            if any(type(error) is not AskError for error in failed.values()):
                self._refresh()

    def fetch(
        self, slots: Sequence[int], requests: Sequence[tuple[memoryview, IntArray]], firsts: IntArray
    ) -> Values | None:
        """Send commands to the owners of slots, all at once; return where the values are, until the next call.

        This is the fast way. None means that something was not as expected: a server that does not answer, a slot that
        has moved, a value that lacks. Then nothing has come of it, and `call` is to be asked instead.

        Args:
            slots: the slots.
            requests: for each round of slots, its commands, packed; and where that of each slot begins, and the last
                one ends. There can be slots without a command.
            firsts: number of the first value of each answer, for slot after slot, round after round; and how many
                values there are.
        """
        places, sizes = np.empty(firsts[-1], np.int64), np.empty(firsts[-1], np.int64)
        sent: list[tuple[Wire, IntArray]] = []
        end, complete = 0, True
        for node, runs, group in self._owned(slots, len(requests)):
            data = [text[bounds[a] : bounds[b]] for text, bounds in requests for a, b in runs if bounds[a] < bounds[b]]
            if not data:
                continue
            try:
                wire = self._connected(node)
                self.traffic.sent += wire.send_bytes(data[0] if len(data) == 1 else b"".join(data))
                sent.append((wire, group))
            except (redis.exceptions.RedisError, OSError):
                self._forget(node)
                complete = False
        for wire, group in sent:
            stop = self._scan(wire, group, end, firsts, places, sizes)
            end, complete = max(end, stop), complete and stop >= 0
        self.traffic.commands += int(np.count_nonzero(firsts[1:] > firsts[:-1]))
        if not complete:
            self.traffic.retries += 1
            return None
        self.traffic.trips += 1
        self.traffic.received += end
        return Values(self._room, places, sizes)

    def _owned(self, slots: Sequence[int], rounds: int) -> list[tuple[Node, list[tuple[int, int]], IntArray]]:
        """Return for each owner of slots the runs of them that follow each other, and the numbers of its answers."""
        if rounds not in self._groups:
            owned: dict[Node, list[int]] = defaultdict(list)
            for i, slot in enumerate(slots):
                owned[self._owner(slot)].append(i)
            groups = []
            for node, own in owned.items():
                steps = np.nonzero(np.diff(own) > 1)[0] + 1
                runs = [(int(run[0]), int(run[-1]) + 1) for run in np.split(np.array(own), steps)]
                answers = np.concatenate([np.array(own) + number * len(slots) for number in range(rounds)])
                groups.append((node, runs, answers))
            self._groups[rounds] = groups
        return self._groups[rounds]

    def _scan(
        self, wire: Wire, group: IntArray, begin: int, firsts: IntArray, places: IntArray, sizes: IntArray
    ) -> int:  # fmt: skip
        """Read the answers of a server behind what there is; return where they end, -1 if they are not as expected."""
        state, end = np.array([begin, 0, -1], np.int64), begin
        try:
            while True:
                if len(self._room) - end < _LEAST_ROOM:
                    self._room = np.concatenate([self._room, np.empty(len(self._room), np.uint8)])
                end += wire.receive(self._room[end:].data)
                found = scanned(self._room, end, state, group, firsts, places, sizes)
                if found == DONE:
                    return end
                if found == OTHER:
                    wire.skip(self._room[begin:end].tobytes(), int(np.count_nonzero(np.diff(firsts)[group])))
                    return -1
        except (redis.exceptions.RedisError, OSError):
            self._forget(wire.node)
            return -1

    def _judge(self, error: Exception, needed: int) -> Exception | None:
        """Return an error that passes by waiting, None for one that is mended by asking elsewhere; raise others."""
        if isinstance(error, AskError):  # MovedError is one
            return None
        if isinstance(error, _FINAL):
            raise StoreRefusedError(f"{self.address.shown} refuses this user: {error}") from error
        if isinstance(error, _PASSING):
            return error
        text = str(error)
        if "non local key" in text:  # a function in a slot that is only half here
            return TryAgainError("a part of the graph is moving between servers")
        if text.startswith("OCGLLACKING") and int(text.split()[1]) >= needed:
            return TryAgainError("a part of the graph is moving between servers, or its keys were deleted")
        if text.startswith(("OCGLLACKING", "OCGLBEHIND")):
            raise BehindError(text)
        if "Function not found" in text:
            self._load_functions()
            return None
        raise StoreRefusedError(f"{self.address.shown} refuses a command: {text}") from error

    def _round(
        self, calls: Sequence[tuple[int, Command]], waiting: Iterable[int], asking: dict[int, Node],
        answers: list[Any],
    ) -> dict[int, Exception]:  # fmt: skip
        """Send the waiting commands and read their answers; return those that have failed."""
        groups: dict[Node, list[int]] = defaultdict(list)
        for i in waiting:
            groups[asking.get(i) or self._owner(calls[i][0])].append(i)
        failed: dict[int, Exception] = {}
        sent: list[tuple[Wire, list[int]]] = []
        for node, group in groups.items():
            try:
                connection = self._connected(node)
                commands: list[Command] = []
                for i in group:
                    commands += [("ASKING",), calls[i][1]] if i in asking else [calls[i][1]]
                self.traffic.sent += connection.send(commands)
                self.traffic.commands += len(commands)
                sent.append((connection, group))
            except _FINAL as error:
                failed |= dict.fromkeys(group, error)
            except (ConnectionError, TimeoutError, OSError) as error:
                self._forget(node)
                failed |= dict.fromkeys(group, _as_connection_error(error))
        for connection, group in sent:
            self._read(connection, group, asking, answers, failed)
        return failed

    def _read(
        self, connection: Wire, group: list[int], asking: dict[int, Node], answers: list[Any],
        failed: dict[int, Exception],
    ) -> None:  # fmt: skip
        for number, i in enumerate(group):
            try:
                if i in asking:
                    connection.read()
                answer, came = connection.read()
            except (ConnectionError, TimeoutError) as error:
                self._forget(connection.node)
                failed |= dict.fromkeys(group[number:], error)
                return
            self.traffic.received += came
            if isinstance(answer, Exception):
                failed[i] = answer
            else:
                answers[i] = answer

    # Where the slots are

    def _owner(self, slot: int) -> Node:
        return self._owners[bisect_left(self._owners, slot, key=lambda owner: owner[0])][1]

    @property
    def masters(self) -> list[Node]:
        """The servers that hold slots."""
        return list(dict.fromkeys(node for _, node in self._owners))

    def _refresh(self) -> None:
        """Learn again where the slots are; whoever answers will do."""
        try:
            self._learn_topology()
        except (ConnectionError, TimeoutError, ResponseError, OSError, StoreUnreachableError):
            return  # the next attempt asks again

    def _learn_topology(self) -> None:
        known = [*self.masters, *(node for node in self.address.nodes if node not in self.masters)]
        last: Exception | None = None
        for node in known:
            try:
                return self._learn_from(node)
            except _FINAL as error:
                raise StoreRefusedError(f"{self.address.shown} refuses this user: {error}") from error
            except (ConnectionError, TimeoutError, ResponseError, OSError) as error:
                self._forget(node)
                last = error
        raise StoreUnreachableError(f"no server of {self.address.shown} answers: {last}") from last

    def _learn_from(self, node: Node) -> None:
        info = self.ask(node, "INFO", "cluster")
        self.is_cluster = b"cluster_enabled:1" in info
        if not self.is_cluster:
            self._take_owners([(SLOTS - 1, node)])
            return
        owners = []
        for first, last, master, *_ in sorted(self.ask(node, "CLUSTER", "SLOTS")):
            host = master[0].decode() if master[0] else node[0]
            owners.append((int(first), int(last), (host, int(master[1]))))
        covered = 0
        for first, last, _ in owners:
            if first != covered:
                break
            covered = last + 1
        if covered != SLOTS:
            raise ResponseError("the cluster does not serve all slots")
        self._take_owners([(last, owner) for _, last, owner in owners])

    def _take_owners(self, owners: list[tuple[int, Node]]) -> None:
        if owners != self._owners:
            self._owners = owners
            self._groups.clear()

    def ask(self, node: Node, *command: Any) -> Any:
        """Send one command to one server."""
        return self._connected(node).ask(*command)

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Do not wait for servers inside the block."""
        self._patience = 0.0
        try:
            yield
        finally:
            self._patience = self.address.patience

    def fullness(self) -> float:
        """Return the share of its memory that the fullest master uses, 0 where there is no limit."""
        shares = [0.0]
        for node in self.masters:
            try:
                lines = dict(
                    line.split(":", 1) for line in self.ask(node, "INFO", "memory").decode().split() if ":" in line
                )
            except (ConnectionError, TimeoutError, ResponseError, OSError):
                self._forget(node)
                continue
            most = int(lines.get("maxmemory", 0))
            shares.append(int(lines.get("used_memory", 0)) / most if most else 0.0)
        return max(shares)

    def scan(self, pattern: str) -> Iterator[list[bytes]]:
        """Return the keys of all masters that match a pattern, some at a time."""
        for node in self.masters:
            cursor = b"0"
            while True:
                try:
                    cursor, keys = self.ask(node, "SCAN", cursor, "MATCH", pattern, "COUNT", 5000)
                except (ConnectionError, TimeoutError, ResponseError, OSError) as error:
                    self._forget(node)
                    raise StoreUnreachableError(f"{self.address.shown} cannot be searched: {error}") from error
                if keys:
                    yield keys
                if int(cursor) == 0:
                    break

    def _load_functions(self) -> None:
        """Bring our functions to all masters."""
        code = _CODE.replace("NAME", LIBRARY)
        for node in self.masters:
            try:
                self.ask(node, "FUNCTION", "LOAD", "REPLACE", code)
            except (ConnectionError, TimeoutError, OSError):
                self._forget(node)
            except ResponseError as error:
                if not isinstance(error, ReadOnlyError | MovedError):
                    raise StoreRefusedError(
                        f"{self.address.shown} cannot load functions; Redis 7 or Valkey is needed: {error}"
                    ) from error

    def _patiently(self, act: Any) -> None:
        until = time.monotonic() + self.address.patience
        while True:
            try:
                act()
                return
            except StoreUnreachableError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def _connected(self, node: Node) -> Wire:
        found = self._connections.get(node)
        if found is None:
            found = self._connections[node] = self._connection(node)
        return found

    def _connection(self, node: Node) -> Wire:
        a = self.address
        options: dict[str, Any] = {
            "host": node[0], "port": node[1], "username": a.username, "password": a.password,
            "socket_timeout": a.timeout, "socket_connect_timeout": a.timeout, "protocol": 2,
        }  # fmt: skip
        try:
            if not a.tls:
                made: Any = Connection(**options)  # type: ignore[no-untyped-call]
            else:
                made = SSLConnection(
                    ssl_ca_certs=a.ca, ssl_certfile=a.cert, ssl_keyfile=a.key, ssl_check_hostname=a.check_hostname,
                    **options,
                )  # fmt: skip
            return Wire(made)
        except redis.exceptions.RedisError as error:
            if "certificate" in str(error).lower():
                raise ConfigError(f"{a.shown}: {error}") from error
            raise

    def _forget(self, node: Node) -> None:
        found = self._connections.pop(node, None)
        if found is not None:
            found.close()


def _node_of(error: AskError) -> Node:
    return str(error.host), int(error.port)


def _as_connection_error(error: Exception) -> Exception:
    return error if isinstance(error, ConnectionError | TimeoutError) else ConnectionError(str(error))
