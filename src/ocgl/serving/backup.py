"""A copy of a service that can be started, made while the service runs."""

import shutil
from pathlib import Path

from ocgl.errors import ConfigError
from ocgl.files import building
from ocgl.serving.config import FILE, ServiceConfig
from ocgl.serving.keys import FILE as KEYS
from ocgl.serving.log import LOG, Log, read_log, segments


def backup(folder: Path, out: Path) -> int:
    """Copy configuration, keys and log of a service; return the last record of the copy.

    The log is only ever added to, so a copy of it is the service of a moment: that of the last record that was whole
    when it was read. Snapshots are not copied; a start of the copy reads the log.
    """
    ServiceConfig.read(folder)
    if out.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"{out} lies inside the service; give a folder elsewhere")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is not empty; give a new folder")
    with building(out, lambda new: _replace_empty(out)) as part:
        shutil.copyfile(folder / FILE, part / FILE)
        shutil.copymode(folder / FILE, part / FILE)  # it may hold a password
        if (folder / KEYS).exists():
            shutil.copyfile(folder / KEYS, part / KEYS)
            (part / KEYS).chmod(0o600)
        (part / LOG).mkdir()
        for path in segments(folder / LOG):
            shutil.copyfile(path, part / LOG / path.name)
        log = Log(part / LOG)  # cuts a record that was being written
        last = log.sequence
        log.close()
        for _ in read_log(part / LOG):  # every record of the copy is intact
            pass
    return last


def _replace_empty(out: Path) -> bool:
    """Return that an empty folder may be replaced."""
    return not any(out.iterdir())
