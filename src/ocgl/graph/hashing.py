"""Kernels shared by the id table and the sampler: open addressing and a keyed stream of random numbers."""

import numpy as np

from ocgl.kernels import inlined, kernel
from ocgl.types import IntArray, PositionArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


@inlined
def mix(value: np.uint64) -> np.uint64:
    """Splitmix64's finaliser: every input bit reaches every output bit."""
    value = (value ^ (value >> _S30)) * _MIX_A
    value = (value ^ (value >> _S27)) * _MIX_B
    return value ^ (value >> _S31)


@inlined
def node_state(key: np.uint64, node: int, degree: int) -> np.uint64:
    """Give the random state of one node at one degree: the same look at the same past is the same draw."""
    return mix(mix(key + _GOLDEN * np.uint64(node + 1)) + _GOLDEN * np.uint64(degree))


@inlined
def below(state: np.uint64, bound: int) -> np.int64:
    """Turn a mixed state into an integer below `bound` (multiply and shift; bound < 2**32)."""
    return np.int64(((state >> _S32) * np.uint64(bound)) >> _S32)


@inlined
def slot_of(keys: IntArray, key: int) -> np.int64:
    """Find the slot that holds the key, or the free one (-1) where it belongs."""
    mask = len(keys) - 1
    slot = np.int64(mix(np.uint64(key)) & np.uint64(mask))
    while keys[slot] != -1 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def lookup(keys: IntArray, values: PositionArray, wanted: IntArray) -> PositionArray:
    """Give the value of each key, -1 where there is none."""
    found = np.empty(len(wanted), np.int32)
    for i in range(len(wanted)):
        found[i] = -1
        if wanted[i] >= 0:
            slot = slot_of(keys, wanted[i])
            if keys[slot] != -1:
                found[i] = values[slot]
    return found


@kernel
def insert(keys: IntArray, values: PositionArray, new: IntArray, first: int) -> None:
    """Map the new keys to first, first + 1, ..."""
    for i in range(len(new)):
        slot = slot_of(keys, new[i])
        keys[slot] = new[i]
        values[slot] = first + i


class IdTable:
    """Node ids chosen by the user (any integers from 0 to 2**63 - 1) to positions of arrival.

    >>> table = IdTable()
    >>> table.append(np.array([70, 5]))
    >>> table.find(np.array([5, 6])).tolist()
    [1, -1]
    """

    def __init__(self) -> None:
        self._keys = np.full(16, -1, np.int64)
        self._values = np.zeros(16, np.int32)
        self.size = 0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._keys.nbytes + self._values.nbytes

    def find(self, ids: IntArray) -> PositionArray:
        """Give the position of each id, -1 for one that has not arrived."""
        return lookup(self._keys, self._values, ids)

    def append(self, ids: IntArray) -> None:
        """Give the next positions to these ids, which must be new and distinct."""
        wanted = self.size + len(ids)
        if wanted * 4 > len(self._keys) * 3:
            self._grow(wanted)
        insert(self._keys, self._values, ids, self.size)
        self.size = wanted

    def _grow(self, wanted: int) -> None:
        used = self._keys >= 0
        ids = np.empty(self.size, np.int64)
        ids[self._values[used]] = self._keys[used]
        room = len(self._keys)
        while wanted * 4 > room * 3:  # depends on the number of ids alone, not on how they came
            room *= 2
        self._keys = np.full(room, -1, np.int64)
        self._values = np.zeros(room, np.int32)
        insert(self._keys, self._values, ids, 0)
