"""One connection: many commands out at once, many answers back, with little work for each.

redis-py connects, authenticates and speaks TLS. Packing and reading are hiredis' own: for a thousand small answers
redis-py's layers cost several times what the answers do.
"""

import socket
from typing import Any

import hiredis
from redis.connection import Connection, SSLConnection
from redis.exceptions import ConnectionError, InvalidResponse, TimeoutError

_CHUNK = 1 << 18
_CLOSED = "the server has closed the connection"


class Wire:
    """A connection to one server.

    Args:
        connection: how to connect; it is connected here.
    """

    def __init__(self, connection: Connection | SSLConnection) -> None:
        made: Any = connection
        made.connect()
        self._connection, self._socket, parser = made, made._sock, made._parser
        self._reader: Any = hiredis.Reader(protocolError=InvalidResponse, replyError=parser.parse_error)
        self.node: tuple[str, int] = self._connection.host, self._connection.port

    def send(self, commands: list[tuple[Any, ...] | bytes]) -> int:
        """Send commands, packed already or not; return their bytes."""
        data = b"".join([one if isinstance(one, bytes) else hiredis.pack_command(one) for one in commands])
        return self.send_bytes(data)

    def send_bytes(self, data: bytes | memoryview) -> int:
        """Send commands as they are; return their bytes."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise _named(error) from error
        return len(data)

    def receive(self, room: memoryview) -> int:
        """Write to `room` what has come; return how many bytes."""
        try:
            came: int = self._socket.recv_into(room)
        except OSError as error:
            raise _named(error) from error
        if not came:
            raise ConnectionError(_CLOSED)
        return came

    def skip(self, data: bytes, answers: int) -> None:
        """Read as many answers, the first bytes of which are here already, and drop them."""
        self._reader.feed(data)
        for _ in range(answers):
            self.read()

    def read(self) -> tuple[Any, int]:
        """Return the next answer, which may be an error, and the bytes that came for it."""
        came = 0
        while (answer := self._reader.gets()) is False:
            try:
                data = self._socket.recv(_CHUNK)
            except OSError as error:
                raise _named(error) from error
            if not data:
                raise ConnectionError(_CLOSED)
            came += len(data)
            self._reader.feed(data)
        return answer, came

    def ask(self, *command: Any) -> Any:
        """Send one command and return its answer; an error is raised."""
        self.send([command])
        answer, _ = self.read()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()


def _named(error: OSError) -> Exception:
    return TimeoutError(str(error)) if isinstance(error, socket.timeout) else ConnectionError(str(error))
