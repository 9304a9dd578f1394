"""API keys: random, stored as hashes, each with scopes."""

import hashlib
import hmac
import re
import secrets
from pathlib import Path
from typing import Literal, get_args

from ocgl.checked import read_sealed, sealed
from ocgl.errors import ConfigError, DamagedFileError
from ocgl.files import write_json

FILE = "keys.json"
Scope = Literal["ingest", "predict", "follow", "admin"]
SCOPES: tuple[str, ...] = get_args(Scope)


class Keys:
    """The keys of a service. `admin` may do everything.

    Args:
        folder: folder of the service.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._stamp: tuple[int, int] | None = None
        self._keys: dict[str, tuple[str, list[str]]] = {}
        self._read()

    def __len__(self) -> int:
        self._read()
        return len(self._keys)

    def add(self, name: str, scopes: list[str]) -> str:
        """Make a key with scopes and return it; it cannot be read again."""
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
            raise ConfigError("the name of a key has 1 to 64 letters, digits, dots, dashes or underscores")
        for scope in scopes:
            if scope not in SCOPES:
                raise ConfigError(f"there is no scope {scope!r}; there are {', '.join(SCOPES)}")
        if not scopes:
            raise ConfigError("a key needs at least one scope")
        self._read()
        if name in self._keys:
            raise ConfigError(f"there is a key {name} already; remove it first")
        key = f"ocgl_{secrets.token_urlsafe(32)}"
        self._keys[name] = (_hash(key), sorted(set(scopes)))
        self._write()
        return key

    def remove(self, name: str) -> None:
        """Remove a key; it is refused from now on."""
        self._read()
        if name not in self._keys:
            raise ConfigError(f"there is no key {name}")
        del self._keys[name]
        self._write()

    def names(self) -> dict[str, list[str]]:
        """Return the scopes of each key by name."""
        self._read()
        return {name: scopes for name, (_, scopes) in self._keys.items()}

    def scopes_of(self, key: str) -> list[str] | None:
        """Return the scopes of a key, None for one that is wrong. All keys are compared, in constant time."""
        self._read()
        wanted, found = _hash(key), None
        for hashed, scopes in self._keys.values():
            if hmac.compare_digest(hashed, wanted):
                found = scopes
        return found

    def _read(self) -> None:
        """Read the file again if it has changed."""
        try:
            facts = self._path.stat()
        except FileNotFoundError:
            self._keys, self._stamp = {}, None
            return
        stamp = (facts.st_mtime_ns, facts.st_ino)
        if stamp == self._stamp:
            return
        values = read_sealed(self._path).get("keys")
        if not isinstance(values, dict):
            raise DamagedFileError(self._path, "it holds no keys")
        self._keys = {name: (str(one["sha256"]), list(one["scopes"])) for name, one in values.items()}
        self._stamp = stamp

    def _write(self) -> None:
        keys = {name: {"sha256": hashed, "scopes": scopes} for name, (hashed, scopes) in self._keys.items()}
        write_json(self._path, sealed({"schema_version": 1, "keys": keys}))
        self._path.chmod(0o600)
        self._stamp = None


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()
