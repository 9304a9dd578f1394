"""What was sent to the partitions of a graph, to be sent again after a failover that has lost some of it."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from ocgl.graph.growable import Growable
from ocgl.graph.redis.changes import Part


@dataclass(frozen=True)
class Change:
    """A change of one partition.

    Args:
        sequence: number of the change.
        before: number of the change before it in the same partition.
        more: whether it is more than growth.
        part: what to do.
    """

    sequence: int
    before: int
    more: bool
    part: Part


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
        content = msgspec.msgpack.encode(change.part)
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
            part = msgspec.msgpack.decode(os.pread(self._file.fileno(), entry[4], entry[3]), type=Part)
            yield Change(entry[0], entry[1], bool(entry[2]), part)

    def forget(self, until: Sequence[int]) -> None:
        """Forget the changes of each partition up to one; the others move to a new file."""
        kept = Spool(len(self._index))
        for partition, sequence in enumerate(until):
            for change in self.after(partition, sequence):
                kept.append(partition, change)
        self._file.close()
        self._file, self._index, self._end = kept._file, kept._index, kept._end

    def close(self) -> None:
        """Delete the file."""
        self._file.close()
