"""Folders of raw data and of parsed graphs."""

import os
from pathlib import Path


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ocgl"


def data_root(given: Path | None = None) -> Path:
    """Return the folder of the raw files: the argument, else `OCGL_DATA`, else the user's cache folder.

    Only downloads write to it.
    """
    if given is not None:
        return Path(given).expanduser().absolute()
    variable = os.environ.get("OCGL_DATA")
    return Path(variable).expanduser().absolute() if variable else _user_cache() / "data"


def cache_root() -> Path:
    """Return the folder of the parsed graphs: `OCGL_CACHE`, else the user's cache folder."""
    variable = os.environ.get("OCGL_CACHE")
    return Path(variable).expanduser() if variable else _user_cache() / "graphs"


def offline() -> bool:
    """Return whether `OCGL_OFFLINE` forbids downloads."""
    return os.environ.get("OCGL_OFFLINE", "") not in ("", "0")
