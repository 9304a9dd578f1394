"""Comparing a cached graph with its checksums, against the speed that loading may not fall below."""

import numpy as np

from ocgl.datasets.cache import _checksum
from perf.timing import medians
from perf.updates import Row

MEGABYTES = 64
WANTED = 1.0
"""GB per second."""


def measure() -> list[Row]:
    rows = np.random.default_rng(0).standard_normal((MEGABYTES * 1_000_000 // 4 // 100, 100), np.float32)
    seconds = medians({"ours": lambda _: _checksum(rows)}, blocks=3, block=6)["ours"]
    what = f"comparing {MEGABYTES} MB of a cached graph with its checksum"
    return [Row(what, 1000 * seconds, "at 1 GB/s", MEGABYTES / WANTED, 1.0)]


if __name__ == "__main__":
    for row in measure():
        print(f"{row.what}: {row.ours:.1f} ms, {row.ratio:.2f} GB/s")
