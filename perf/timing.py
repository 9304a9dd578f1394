"""Medians of calls that take turns in short blocks, so that a busy machine slows all of them alike."""

import time
from collections.abc import Callable, Mapping

import numpy as np

Call = Callable[[int], object]


def medians(calls: Mapping[str, Call], blocks: int = 12, block: int = 15) -> dict[str, float]:
    """Return the median seconds of each call."""
    return {name: float(np.median(seconds)) for name, seconds in samples(calls, blocks, block).items()}


def samples(calls: Mapping[str, Call], blocks: int = 12, block: int = 15) -> dict[str, list[float]]:
    """Return the seconds of each call, time after time.

    The calls take turns in blocks of consecutive runs, as in training, where an update follows an update; the
    first third of each block warms caches and does not count.
    """
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(blocks):
        for name, call in calls.items():
            for index in range(turn * block, (turn + 1) * block):
                begin = time.perf_counter()
                call(index)
                if index - turn * block >= block // 3:
                    spent[name].append(time.perf_counter() - begin)
    return spent
