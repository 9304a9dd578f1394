"""Commands for many keys as bytes, and places of values among the bytes of answers: no Python object for any of them.

An answer that these kernels do not expect is left to hiredis.
"""

import numpy as np

from ocgl.kernels import kernel
from ocgl.types import AnyArray, IntArray, PositionArray

PAGE = 64
"""Nodes of a page."""
SHORT = 128
"""Entries of a row that lie with its degree; the others lie in a key of their own."""

MORE, DONE, OTHER = 0, 1, 2
"""What `scanned` has found: bytes are lacking, all values are here, or an answer is not what was expected."""
_DOLLAR, _STAR, _RETURN, _NEWLINE, _ZERO, _MARK = (ord(sign) for sign in "$*\r\n0w")


@kernel
def _put_number(out: AnyArray, at: int, number: int) -> int:
    digits, rest = 1, number // 10
    while rest > 0:
        digits += 1
        rest //= 10
    rest = number
    for i in range(digits):
        out[at + digits - 1 - i] = _ZERO + rest % 10
        rest //= 10
    return at + digits


@kernel
def _put_head(out: AnyArray, at: int, kind: int, number: int) -> int:
    """Write the line that begins an array or a text."""
    out[at] = kind
    at = _put_number(out, at + 1, number)
    out[at], out[at + 1] = _RETURN, _NEWLINE
    return at + 2


@kernel
def _put_key(out: AnyArray, at: int, prefix: AnyArray, length: int, letter: int, node: int) -> int:
    """Write the key of a node, or without its number that of the mark."""
    digits, limit = 0, 1
    while node >= limit or (digits == 0 and node == 0):
        digits, limit = digits + 1, 10 * limit
    at = _put_head(out, at, _DOLLAR, length + 1 + digits)
    end = at + length + 1 + digits + 2
    key = out[at:end]  # indices from 0 need no check for being negative
    for i in range(length):
        key[i] = prefix[i]
    key[length] = letter
    rest = np.uint32(max(node, 0))
    for i in range(digits):
        key[length + digits - i] = _ZERO + rest % np.uint32(10)
        rest //= np.uint32(10)
    key[length + digits + 1], key[length + digits + 2] = _RETURN, _NEWLINE
    return end


@kernel
def grouped(nodes: PositionArray, partitions: int) -> tuple[IntArray, IntArray]:
    """Return the order of nodes by partition, and where each partition begins in it."""
    begins = np.zeros(partitions + 1, np.int64)
    for node in nodes:
        begins[node // PAGE % partitions + 1] += 1
    for p in range(partitions):
        begins[p + 1] += begins[p]
    places = begins[:-1].copy()
    order = np.empty(len(nodes), np.int64)
    for i in range(len(nodes)):
        p = nodes[i] // PAGE % partitions
        order[places[p]] = i
        places[p] += 1
    return order, begins


@kernel
def mget(
    nodes: PositionArray, order: IntArray, begins: IntArray, prefixes: AnyArray, lengths: IntArray, letter: int
) -> tuple[AnyArray, IntArray, IntArray]:
    """Return one MGET for each partition that has nodes: its mark, and a key of each node.

    Where each one begins is returned as well, and how many values it asks for.

    Args:
        nodes: the nodes.
        order: their order by partition.
        begins: where each partition begins in it.
        prefixes: what the keys of each partition begin with.
        lengths: how long each prefix is.
        letter: the letter of the keys.
    """
    count = len(begins) - 1
    out = np.empty(len(nodes) * (prefixes.shape[1] + 20) + count * (prefixes.shape[1] + 48), np.uint8)
    ends, asked = np.zeros(count + 1, np.int64), np.zeros(count, np.int64)
    at = 0
    for p in range(count):
        if begins[p + 1] > begins[p]:
            asked[p] = begins[p + 1] - begins[p] + 1
            at = _put_head(out, at, _STAR, begins[p + 1] - begins[p] + 2)
            at = _put_head(out, at, _DOLLAR, 4)
            out[at], out[at + 1], out[at + 2], out[at + 3] = 77, 71, 69, 84  # MGET
            out[at + 4], out[at + 5] = _RETURN, _NEWLINE
            at = _put_key(out, at + 6, prefixes[p], lengths[p], _MARK, -1)
            for i in range(begins[p], begins[p + 1]):
                at = _put_key(out, at, prefixes[p], lengths[p], letter, nodes[order[i]])
        ends[p + 1] = at
    return out[:at], ends, asked


@kernel
def packed_keys(nodes: PositionArray, prefix: AnyArray, letter: int) -> AnyArray:
    """Return the keys of nodes as arguments of a command."""
    out = np.empty(len(nodes) * (len(prefix) + 20), np.uint8)
    at = 0
    for node in nodes:
        at = _put_key(out, at, prefix, len(prefix), letter, node)
    return out[:at]


@kernel
def places_of(ids: IntArray, table: AnyArray, partitions: int, buckets: int) -> tuple[PositionArray, PositionArray]:
    """Return partition and bucket of ids that are integers, by the CRC-32 of their eight bytes.

    Args:
        ids: the ids.
        table: CRC-32 of each byte, as it goes on with the rest.
        partitions: number of partitions.
        buckets: buckets of each.
    """
    parts, places = np.empty(len(ids), np.int32), np.empty(len(ids), np.int32)
    for i in range(len(ids)):
        rest, value = np.uint32(0xFFFFFFFF), np.int64(ids[i])
        for byte in range(8):
            rest = table[(rest ^ np.uint32(value >> (8 * byte))) & np.uint32(0xFF)] ^ (rest >> np.uint32(8))
        hashed = np.int64(rest ^ np.uint32(0xFFFFFFFF))
        parts[i], places[i] = hashed % partitions, hashed // partitions % buckets
    return parts, places


@kernel
def scanned(
    data: AnyArray, end: int, state: IntArray, group: IntArray, firsts: IntArray, places: IntArray, sizes: IntArray
) -> int:
    """Find the values of answers in what has come so far; return `MORE`, `DONE` or `OTHER`.

    Args:
        data: what has come, up to `end`.
        end: where it ends.
        state: where to go on, the answer there, and its next value, -1 for its head. Written back.
        group: the answers that are expected, in order.
        firsts: number of the first value of each answer; the one behind says how many there are. If none, no such
            answer comes.
        places: gets where each value lies.
        sizes: gets how long it is.
    """
    at, number, value = state[0], state[1], state[2]
    while number < len(group):
        wanted = firsts[group[number] + 1] - firsts[group[number]]
        if wanted == 0:
            number += 1
            continue
        if at >= end:
            break
        if data[at] != (_STAR if value < 0 else _DOLLAR):
            return OTHER
        size, i = np.int64(0), at + 1
        while i < end and _ZERO <= data[i] <= _ZERO + 9 and i < at + 12:
            size = 10 * size + (data[i] - _ZERO)
            i += 1
        if i < end and (data[i] != _RETURN or i == at + 1):
            return OTHER  # an empty value is written $-1
        if i + 1 >= end:
            break
        i += 2
        if value < 0:
            if size != wanted:
                return OTHER
            at, value = i, 0
            continue
        if i + size + 2 > end:
            break
        places[firsts[group[number]] + value], sizes[firsts[group[number]] + value] = i, size
        at, value = i + size + 2, value + 1
        if value == wanted:
            number, value = number + 1, -1
    state[0], state[1], state[2] = at, number, value
    if number < len(group):
        return MORE
    return DONE if at == end else OTHER


@kernel
def arranged(
    data: AnyArray, places: IntArray, sizes: IntArray, firsts: IntArray, first: int, order: IntArray, begins: IntArray,
    needed: IntArray, most: int,
) -> tuple[bool, IntArray, IntArray]:  # fmt: skip
    """Return whether all partitions are as they must be, and place and size of each node's value.

    Args:
        data: the answers.
        places: where each value lies.
        sizes: how long it is.
        firsts: number of the first value of each answer, which is the mark.
        first: number of the first answer of these nodes.
        order: the order of the nodes by partition.
        begins: where each partition begins in it.
        needed: change that each partition must have.
        most: change after which partitions may only have grown.
    """
    where, long = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    for p in range(len(begins) - 1):
        if begins[p] == begins[p + 1]:
            continue
        value = firsts[first + p]
        sequence = changed = np.int64(0)  # the mark is 'SEQUENCE CHANGED'
        for i in range(places[value], places[value] + sizes[value]):
            if _ZERO <= data[i] <= _ZERO + 9:
                changed = 10 * changed + (data[i] - _ZERO)
            else:
                sequence, changed = changed, np.int64(0)
        if sequence < needed[p] or changed > most:
            return False, where, long
        for i in range(begins[p], begins[p + 1]):
            value += 1
            where[order[i]], long[order[i]] = places[value], sizes[value]
    return True, where, long


@kernel
def gathered(data: AnyArray, places: IntArray, out: AnyArray) -> None:
    """Copy values of one size, that of a row of `out`."""
    size = out.shape[1]
    for i in range(len(places)):
        value, row = data[places[i] : places[i] + size], out[i]
        for k in range(size):
            row[k] = value[k]


@kernel
def rows_in(data: AnyArray, places: IntArray, sizes: IntArray) -> tuple[PositionArray, IntArray, IntArray, AnyArray]:
    """Return degrees of rows, where the entries of each begin, how many are here, and the bytes of all entries.

    A row of more than `SHORT` entries has its degree behind the first ones.
    """
    count = len(places)
    degrees, firsts, lengths = np.empty(count, np.int32), np.empty(count, np.int64), np.empty(count, np.int64)
    total = np.int64(0)
    for i in range(count):
        firsts[i] = total
        lengths[i] = min(sizes[i] // 4, SHORT)
        degrees[i] = lengths[i]
        if sizes[i] > 4 * SHORT:
            last = places[i] + 4 * SHORT
            degrees[i] = data[last] | data[last + 1] << 8 | data[last + 2] << 16 | data[last + 3] << 24
        total += lengths[i]
    entries = np.empty(4 * total, np.uint8)
    for i in range(count):
        entries[4 * firsts[i] : 4 * (firsts[i] + lengths[i])] = data[places[i] : places[i] + 4 * lengths[i]]
    return degrees, firsts, lengths, entries


@kernel
def appended(
    ends: IntArray, bare: PositionArray, partitions: int
) -> tuple[IntArray, PositionArray, AnyArray, IntArray, PositionArray]:
    """Return what is added to rows, by partition: at most `SHORT` entries at a time.

    Args:
        ends: rows and their entries, as row * 2**32 + entry, sorted.
        bare: nodes that get a row without entries.
        partitions: number of partitions.

    Returns:
        Where the additions of each partition begin; the row of each addition, and its number of entries; where the
        entries of each partition begin; and the entries.
    """
    begins, firsts = np.zeros(partitions + 1, np.int64), np.zeros(partitions + 1, np.int64)
    i = 0
    while i < len(ends):
        row, j = ends[i] >> 32, i + 1
        while j < len(ends) and ends[j] >> 32 == row and j < i + SHORT:
            j += 1
        begins[row // PAGE % partitions + 1] += 1
        firsts[row // PAGE % partitions + 1] += j - i
        i = j
    for node in bare:
        begins[node // PAGE % partitions + 1] += 1
    for p in range(partitions):
        begins[p + 1] += begins[p]
        firsts[p + 1] += firsts[p]
    rows, counts = np.empty(begins[-1], np.int32), np.zeros(begins[-1], np.uint8)
    entries = np.empty(len(ends), np.int32)
    at, place = begins[:-1].copy(), firsts[:-1].copy()
    i = 0
    while i < len(ends):
        row, j = ends[i] >> 32, i + 1
        while j < len(ends) and ends[j] >> 32 == row and j < i + SHORT:
            j += 1
        p = row // PAGE % partitions
        rows[at[p]], counts[at[p]] = row, j - i
        at[p] += 1
        for k in range(i, j):
            entries[place[p]] = ends[k] & 0xFFFFFFFF
            place[p] += 1
        i = j
    for node in bare:
        p = node // PAGE % partitions
        rows[at[p]] = node
        at[p] += 1
    return begins, rows, counts, firsts, entries
