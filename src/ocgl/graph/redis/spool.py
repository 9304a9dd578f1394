"""What was sent to the partitions of a graph, to be sent again after a failover that has lost some of it."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ocgl.graph.growable import Growable


@dataclass(frozen=True)
class Change:
    """A change of one partition.

    Args:
        sequence: number of the change.
        before: number of the change before it in the same partition.
        more: whether it is more than growth.
        keys: the keys that it touches.
        operations: what to do, packed.
    """

    sequence: int
    before: int
    more: bool
    keys: list[str]
    operations: bytes


class Spool:
    """Changes of all partitions in a temporary file, which is deleted with the spool.

    Args:
        partitions: number of partitions.
    """

    def __init__(self, partitions: int) -> None:
        self._file = tempfile.TemporaryFile(prefix="ocgl-")  # noqa: SIM115 - lives with the spool
        self._index = [Growable(np.int64, 5) for _ in range(partitions)]
        self._end = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self._end

    def append(self, partition: int, change: Change) -> None:
        """Add a change."""
        content = "\n".join(change.keys).encode() + b"\n\n" + change.operations
        self._file.seek(self._end)
        self._file.write(content)
        size = len(content)
        entry = [change.sequence, change.before, int(change.more), self._end, size]
        self._index[partition].extend(np.array([entry], np.int64))
        self._end += size

    def after(self, partition: int, sequence: int) -> Iterator[Change]:
        """Return the changes of a partition after one."""
        self._file.flush()
        index = self._index[partition].rows
        for entry in index[np.searchsorted(index[:, 0], sequence, side="right") :].tolist():
            keys, _, operations = os.pread(self._file.fileno(), entry[4], entry[3]).partition(b"\n\n")
            yield Change(entry[0], entry[1], bool(entry[2]), keys.decode().split(), operations)

    def close(self) -> None:
        """Delete the file."""
        self._file.close()
