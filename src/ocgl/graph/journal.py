"""A file of records, each with a checksum, to which records are added at the end and made durable together.

A record is a head of 24 bytes (its length, kind, sequence number and CRC-32) and arrays in the safetensors format.
"""

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ocgl.errors import DamagedFileError, DiskFullError
from ocgl.types import AnyArray

_HEAD = struct.Struct("<QHHIQ")  # length of the arrays, kind, version, checksum, sequence number
_VERSION = 1


@dataclass(frozen=True)
class Record:
    """A record of a journal.

    Attributes:
        kind: a number that says what it is.
        sequence: its number, from 1.
        payload: its arrays, as bytes.
        offset: where it begins in the file.
        end: where it ends.
    """

    kind: int
    sequence: int
    payload: bytes
    offset: int
    end: int

    def arrays(self, path: Path) -> dict[str, AnyArray]:
        """Return the arrays of the record."""
        from safetensors.numpy import load

        try:
            found: dict[str, AnyArray] = load(self.payload)
        except Exception as error:  # safetensors raises several classes
            raise DamagedFileError(path, f"the record at byte {self.offset} holds no arrays ({error})") from error
        return found


class Journal:
    """A file of records, open for adding.

    Args:
        path: the file; it is created if needed.
        end: where the last record to keep ends; what follows is cut off.
        sequence: number of that record.
        identity: name of what the journal belongs to; records of another one are not intact.
    """

    def __init__(self, path: Path, end: int = 0, sequence: int = 0, identity: str = "") -> None:
        self.path, self._salt = path, salt_of(identity)
        self.end, self.sequence = end, sequence
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        os.ftruncate(self._file, end)

    def add(self, kind: int, arrays: dict[str, AnyArray]) -> None:
        """Add a record, whole or not at all; it is durable after `sync`."""
        from safetensors.numpy import save

        payload = save(arrays)
        head = _HEAD.pack(
            len(payload), kind, _VERSION, _checksum(kind, self.sequence + 1, payload, self._salt), self.sequence + 1
        )
        try:
            _write_all(self._file, head + payload, self.end)
        except OSError as error:
            os.ftruncate(self._file, self.end)
            raise DiskFullError(f"no room for {len(payload):,} more bytes in {self.path}: {error}") from error
        self.end += len(head) + len(payload)
        self.sequence += 1

    def sync(self) -> None:
        """Make all records durable."""
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read_records(path: Path, end: int, identity: str = "") -> Iterator[Record]:
    """Return the records of a file up to byte `end`, all of which must be intact.

    A damaged one raises `DamagedFileError` with its offset.
    """
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size < end:
            raise DamagedFileError(path, f"it has {size:,} bytes; {end:,} were flushed")
        at, sequence = 0, 0
        while at < end:
            record = _read(file, at, end, sequence + 1, salt_of(identity))
            if record is None:
                raise DamagedFileError(path, f"the record at byte {at:,} is damaged")
            yield record
            at, sequence = record.end, record.sequence


def read_tail(path: Path, begin: int, sequence: int, identity: str = "") -> Iterator[Record]:
    """Return the whole records that follow byte `begin`, up to the first that is not."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        while (record := _read(file, begin, size, sequence + 1, salt_of(identity))) is not None:
            yield record
            begin, sequence = record.end, record.sequence


def _opened(path: Path) -> IO[bytes]:
    """Open a regular file to read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise DamagedFileError(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DamagedFileError(path, "it is no regular file")
    return os.fdopen(descriptor, "rb")


def _read(file: IO[bytes], at: int, end: int, sequence: int, salt: int) -> Record | None:
    """Return the record at an offset, None if it is not whole, or another than the next one."""
    file.seek(at)
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    length, kind, version, checksum, number = _HEAD.unpack(head)
    stop = at + _HEAD.size + length
    if version != _VERSION or number != sequence or stop > end:
        return None
    payload = file.read(length)
    if len(payload) < length or _checksum(kind, number, payload, salt) != checksum:
        return None
    return Record(kind, number, payload, at, stop)


def salt_of(identity: str) -> int:
    """Return the number that all checksums of a journal begin with."""
    return zlib.crc32(identity.encode())


def _checksum(kind: int, sequence: int, payload: bytes, salt: int) -> int:
    return zlib.crc32(payload, zlib.crc32(struct.pack("<QHHQ", len(payload), kind, _VERSION, sequence), salt))


def _write_all(descriptor: int, data: bytes, at: int) -> None:
    """Write at an offset; the system may take a part at a time."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written
