"""Hash table with open addressing, and keyed random numbers, for the id table and the sampler."""

import numpy as np

from ocgl.kernels import inlined, kernel
from ocgl.types import IntArray, PositionArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


@inlined
def mix(value: np.uint64) -> np.uint64:
    """Return the splitmix64 finaliser of a value: every input bit affects every output bit."""
    value = (value ^ (value >> _S30)) * _MIX_A
    value = (value ^ (value >> _S27)) * _MIX_B
    return value ^ (value >> _S31)


@inlined
def node_state(key: np.uint64, node: int, degree: int) -> np.uint64:
    """Return the random state of a node at a degree: the same key, node and degree draw the same neighbours."""
    return mix(mix(key + _GOLDEN * np.uint64(node + 1)) + _GOLDEN * np.uint64(degree))


@inlined
def below(state: np.uint64, bound: int) -> np.int64:
    """Map a mixed state to an integer below `bound` < 2**32 (multiply and shift)."""
    return np.int64(((state >> _S32) * np.uint64(bound)) >> _S32)


@inlined
def slot_of(keys: IntArray, key: int) -> np.int64:
    """Return the slot of a key, or the empty slot (-1) where to insert it; a removed key (-2) is passed by."""
    mask = len(keys) - 1
    slot = np.int64(mix(np.uint64(key)) & np.uint64(mask))
    while keys[slot] != -1 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def lookup(keys: IntArray, values: PositionArray, wanted: IntArray) -> PositionArray:
    """Return the value of each key, -1 for a missing key."""
    found = np.empty(len(wanted), np.int32)
    for i in range(len(wanted)):
        found[i] = -1
        if wanted[i] >= 0:
            slot = slot_of(keys, wanted[i])
            if keys[slot] != -1:
                found[i] = values[slot]
    return found


@kernel
def insert(keys: IntArray, values: PositionArray, new: IntArray, positions: PositionArray) -> None:
    """Insert new keys with their values."""
    for i in range(len(new)):
        slot = slot_of(keys, new[i])
        keys[slot] = new[i]
        values[slot] = positions[i]


@kernel
def remove(keys: IntArray, old: IntArray) -> None:
    """Remove keys that are there; their slots stay taken."""
    for i in range(len(old)):
        keys[slot_of(keys, old[i])] = -2


class IdTable:
    """Maps node ids, any integers from 0 to 2**63 - 1, to positions of arrival.

    >>> table = IdTable()
    >>> table.append(np.array([70, 5]))
    >>> table.find(np.array([5, 6])).tolist()
    [1, -1]
    >>> table.remove(np.array([5]))
    >>> table.append(np.array([5]))
    >>> table.find(np.array([5, 70])).tolist()
    [2, 0]
    """

    def __init__(self) -> None:
        self._keys = np.full(16, -1, np.int64)
        self._values = np.zeros(16, np.int32)
        self._taken = 0  # slots in use, those of removed ids included
        self.size = 0
        """Positions given so far."""

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self._keys.nbytes + self._values.nbytes

    def find(self, ids: IntArray) -> PositionArray:
        """Return the position of each id, -1 for an unknown id."""
        return lookup(self._keys, self._values, ids)

    def append(self, ids: IntArray) -> None:
        """Add ids, which must be new and distinct, at the next positions."""
        if (self._taken + len(ids)) * 4 > len(self._keys) * 3:
            self._grow(len(ids))
        insert(self._keys, self._values, ids, np.arange(self.size, self.size + len(ids), dtype=np.int32))
        self._taken += len(ids)
        self.size += len(ids)

    def remove(self, ids: IntArray) -> None:
        """Remove distinct ids that are there; their positions are not given again."""
        remove(self._keys, ids)

    def _grow(self, more: int) -> None:
        used = self._keys >= 0
        ids, positions = self._keys[used], self._values[used]
        slots = len(self._keys)
        while (len(ids) + more) * 4 > slots * 3:  # the size depends on the number of ids, not on how they were batched
            slots *= 2
        self._keys = np.full(slots, -1, np.int64)
        self._values = np.zeros(slots, np.int32)
        insert(self._keys, self._values, ids, positions)
        self._taken = len(ids)
