"""The peak memory of this process."""

import resource
import sys
from pathlib import Path


def peak_rss_bytes() -> int:
    """Return the peak resident memory of this process so far.

    On Linux it is read from `/proc`, because `getrusage` also counts the process that started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        peak = next((line for line in status.read_text().splitlines() if line.startswith("VmHWM:")), None)
        if peak is not None:
            return int(peak.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if sys.platform != "darwin" else 1)
