"""The log of a service: records in segments, each with a checksum, made durable together.

A record is a head of 16 bytes (length of its payload, CRC-32C, sequence number) and a msgpack payload. Sequence numbers
count records from 1. A segment is named after its first record.
"""

import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import google_crc32c

from ocgl.errors import DamagedFileError, DiskFullError, ServiceError, WriteError
from ocgl.files import make_folder

LOG = "log"
"""Folder of the log in that of a service."""
_HEAD = struct.Struct("<IIQ")
SEGMENT = 64 << 20
"""Bytes after which a new segment begins."""
_MOST_READERS = 16
MOST = 256 << 20
"""Most bytes of a record."""


@dataclass(frozen=True)
class Tail:
    """What was cut off the end of a log: bytes of a record that was not written whole.

    Attributes:
        file: the segment.
        offset: where it was cut.
        bytes: how many bytes were cut off.
    """

    file: Path
    offset: int
    bytes: int

    def __str__(self) -> str:
        return (
            f"{self.file} was cut at byte {self.offset:,}: {self.bytes:,} bytes of a record that was never acknowledged"
        )


class Log:
    """The records of a folder. Opening it cuts a torn tail; damage before that is an error.

    Args:
        folder: where the segments are.
        segment: bytes after which a new segment begins.

    Attributes:
        sequence: number of the last record.
        torn: what was cut off when the log was opened.
    """

    def __init__(self, folder: Path, segment: int = SEGMENT) -> None:
        make_folder(folder)
        self.folder, self._segment = folder, segment
        self.torn: Tail | None = None
        self.sequence, self._end, self._file, self._before = 0, 0, -1, 0
        self._dirty = False
        self._lock = threading.Lock()  # a segment is not closed while it is synced
        files = segments(folder)
        if files:
            first = _first_of(files[-1])
            last, end = _last_of(files[-1], first)
            self._check_order(files)
            size = files[-1].stat().st_size
            if size > end:
                self.torn = Tail(files[-1], end, size - end)
            self.sequence, self._end = last, end
            self._open(files[-1], end)

    def append(self, payload: bytes) -> int:
        """Add a record and return its sequence number; it is durable after `sync`. On failure nothing is added."""
        if len(payload) > MOST:
            raise DiskFullError(f"a record of {len(payload):,} bytes is larger than {MOST:,}")
        number = self.sequence + 1
        if self._file < 0 or self._end >= self._segment:
            self._begin(number)
        head = _HEAD.pack(len(payload), _checksum(number, payload), number)
        path = self.folder / _name(self._first)
        try:
            _write_all(self._file, head + payload, self._end)
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise DiskFullError(
                f"no room for {len(payload):,} more bytes in {path}; free disk space: {error}"
            ) from error
        self._before, self._end = self._end, self._end + len(head) + len(payload)
        self.sequence = number
        self._dirty = True
        return number

    def undo(self) -> None:
        """Take back the last record, which nobody was told of."""
        os.ftruncate(self._file, self._before)
        self._end = self._before
        self.sequence -= 1

    def sync(self) -> None:
        """Make all records durable that were added before the call."""
        with self._lock:
            self._sync()

    def _sync(self) -> None:
        if self._dirty:
            self._dirty = False  # before the sync: a record that is added meanwhile needs another one
            try:
                os.fdatasync(self._file)
            except OSError as error:
                self._dirty = True
                raise WriteError(self.folder, error, "the last records may not be durable") from error

    def close(self) -> None:
        """Sync and close."""
        with self._lock:
            if self._file >= 0:
                self._sync()
                os.close(self._file)
                self._file = -1

    @property
    def checksum(self) -> int:
        """Checksum of the last record; 0 if there is none."""
        return LogReader(self.folder).records(self.sequence, self.sequence)[0] if self.sequence else 0

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(path.stat().st_size for path in segments(self.folder))

    def _begin(self, first: int) -> None:
        """Begin a new segment."""
        path = self.folder / _name(first)
        try:
            with self._lock:
                if self._file >= 0:
                    self._sync()
                    os.close(self._file)
                    self._file = -1
                self._open(path, 0)
                _sync_folder(self.folder)
        except OSError as error:
            if isinstance(error, WriteError):
                raise
            raise DiskFullError(f"no room for a new segment {path}; free disk space: {error}") from error

    def _open(self, path: Path, end: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        os.ftruncate(self._file, end)
        self._first, self._end = _first_of(path), end

    def _check_order(self, files: list[Path]) -> None:
        """Each segment must end where the next one begins."""
        for path, following in pairwise(files):
            last, end = _last_of(path, _first_of(path))
            if last + 1 != _first_of(following) or end != path.stat().st_size:
                raise DamagedFileError(path, f"the record at byte {end:,} is damaged; {following.name} follows it")


def segments(folder: Path) -> list[Path]:
    """List the segments in order."""
    return sorted(path for path in folder.glob("*.log") if path.stem.isdigit())


def read_log(folder: Path, after: int = 0, until: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Return the records after a sequence number, with their payloads; a torn tail ends them.

    A damaged record that others follow raises `DamagedFileError` with its file and offset.
    """
    files = segments(folder)
    if files and _first_of(files[0]) > after + 1:
        raise DamagedFileError(
            files[0], f"the log begins with record {_first_of(files[0])}; record {after + 1} is needed"
        )
    for number, path in enumerate(files):
        if number + 1 < len(files) and _first_of(files[number + 1]) <= after + 1:
            continue
        expected = _first_of(path)
        for sequence, payload, _ in _records(path, expected):
            expected = sequence + 1
            if until is not None and sequence > until:
                return
            if sequence > after:
                yield sequence, payload
        if number + 1 < len(files) and expected != _first_of(files[number + 1]):
            raise DamagedFileError(path, f"record {expected} is damaged or missing")


class LogReader:
    """Reads a log that another process writes, from any record on, without reading again what it has read.

    Args:
        folder: where the segments are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self.after = 0
        """Last record that was read."""
        self._at = self._checksum = 0

    def records(self, after: int, until: int, most: int = 4 << 20) -> tuple[int, bytes]:
        """Return the checksum of a record, 0 for the beginning, and the records after it as they lie in the log.

        Args:
            after: number of the record.
            until: last record that may be returned; it must be there.
            most: bytes after which no further record is begun.
        """
        if self._path is None or self.after != after:
            self._seek(after)
        checksum, parts, size = self._checksum, [], 0
        while self.after < until and size < most:
            parts.append(self._next())
            size += len(parts[-1])
        return checksum, b"".join(parts)

    def _seek(self, after: int) -> None:
        files = segments(self._folder)
        if not files or _first_of(files[0]) > after + 1 or (after and _first_of(files[0]) > after):
            first = _first_of(files[0]) if files else 1
            raise DamagedFileError(self._folder, f"it begins with record {first}; record {max(after, 1)} is needed")
        self._path = next(path for path in reversed(files) if _first_of(path) <= max(after, 1))
        self.after, self._at, self._checksum = _first_of(self._path) - 1, 0, 0
        while self.after < after:
            self._next()

    def _next(self) -> bytes:
        """Return the next record."""
        assert self._path is not None
        number = self.after + 1
        following = self._folder / _name(number)
        if following != self._path and following.exists():
            self._path, self._at = following, 0
        with self._path.open("rb") as file:
            file.seek(self._at)
            head = file.read(_HEAD.size)
            length, checksum, sequence = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0, 0)
            payload = file.read(length)
        if sequence != number or len(payload) < length:
            raise DamagedFileError(self._path, f"record {number} is not at byte {self._at:,}")
        self.after, self._at, self._checksum = number, self._at + len(head) + length, checksum
        return head + payload


class Readers:
    """Readers of a log for several who follow it: each goes on where one of them has stopped.

    Args:
        folder: where the segments are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._readers: dict[int, LogReader] = {}
        self._lock = threading.Lock()

    def records(self, after: int, until: int) -> tuple[int, bytes]:
        """Return what `LogReader.records` returns."""
        with self._lock:
            reader = self._readers.pop(after, None) or LogReader(self._folder)
        found = reader.records(after, until)
        with self._lock:
            self._readers[reader.after] = reader
            while len(self._readers) > _MOST_READERS:
                del self._readers[next(iter(self._readers))]
        return found


def unpacked(data: bytes, after: int) -> Iterator[tuple[int, bytes, int]]:
    """Return number, payload and checksum of records that follow a record, as `LogReader` returns them."""
    at = 0
    while at < len(data):
        found = _record(data, at, after + 1)
        if found is None:
            raise ServiceError(f"record {after + 1} was damaged on its way")
        after += 1
        yield after, found[0], _HEAD.unpack_from(data, at)[1]
        at = found[1]


def _records(path: Path, expected: int) -> Iterator[tuple[int, bytes, int]]:
    """Return number, payload and end of the whole records of a segment.

    Ends at a torn tail: what cannot be read and is followed by no whole record. Otherwise the damage is an error.
    """
    data = path.read_bytes()
    at = 0
    while at < len(data):
        found = _record(data, at, expected)
        if found is None:
            if _resumes(data, at, expected):
                raise DamagedFileError(path, f"the record at byte {at:,} is damaged, and others follow it")
            return
        payload, at = found
        yield expected, payload, at
        expected += 1


def _record(data: bytes, at: int, expected: int) -> tuple[bytes, int] | None:
    if at + _HEAD.size > len(data):
        return None
    length, checksum, sequence = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + length
    if sequence != expected or end > len(data):
        return None
    payload = data[at + _HEAD.size : end]
    return (payload, end) if _checksum(sequence, payload) == checksum else None


def _resumes(data: bytes, at: int, expected: int) -> bool:
    """Return whether a whole record follows a damaged one: then it was no torn tail, but damage."""
    for number in range(expected, expected + 3):
        pattern = struct.pack("<Q", number + 1)
        place = data.find(pattern, at)
        while place >= 0:
            begin = place - 8
            if begin > at and _record(data, begin, number + 1) is not None:
                return True
            place = data.find(pattern, place + 1)
    return False


def _last_of(path: Path, first: int) -> tuple[int, int]:
    """Return number and end of the last whole record of a segment."""
    last, end = first - 1, 0
    for sequence, _, stop in _records(path, first):
        last, end = sequence, stop
    return last, end


def _first_of(path: Path) -> int:
    return int(path.stem)


def _name(first: int) -> str:
    return f"{first:020d}.log"


def _checksum(sequence: int, payload: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.value(struct.pack("<Q", sequence)), payload))


def _write_all(descriptor: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
