"""How much memory this process has had at most."""

import resource
import sys
from pathlib import Path


def peak_rss_bytes() -> int:
    """Give the most resident memory of this process so far.

    Linux's own count begins with the process; that of getrusage also knows the parent it was started from.
    """
    status = Path("/proc/self/status")
    if status.exists():
        peak = next((line for line in status.read_text().splitlines() if line.startswith("VmHWM:")), None)
        if peak is not None:
            return int(peak.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if sys.platform != "darwin" else 1)
