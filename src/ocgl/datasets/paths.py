"""Where raw data and parsed graphs lie on this machine."""

import os
from pathlib import Path


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ocgl"


def data_root(given: Path | None = None) -> Path:
    """Give the folder of the raw files: the argument, else `OCGL_DATA`, else the user's cache.

    Only downloads write there.
    """
    if given is not None:
        return Path(given).expanduser().absolute()
    named = os.environ.get("OCGL_DATA")
    return Path(named).expanduser().absolute() if named else _user_cache() / "data"


def cache_root() -> Path:
    """Give the folder of the parsed graphs: `OCGL_CACHE`, else the user's cache."""
    named = os.environ.get("OCGL_CACHE")
    return Path(named).expanduser() if named else _user_cache() / "graphs"


def offline() -> bool:
    """Whether `OCGL_OFFLINE` forbids downloads."""
    return os.environ.get("OCGL_OFFLINE", "") not in ("", "0")
