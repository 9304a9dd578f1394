"""Where a graph lies: `redis://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]/NAME[?option=value...]`."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from ocgl.errors import ConfigError

SCHEMES = ("redis", "rediss")
_FORM = re.compile(r"(?P<scheme>\w+)://((?P<who>[^@/]*)@)?(?P<nodes>[^/?]+)/(?P<name>[^/?]*)(\?(?P<options>.*))?")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OPTIONS: dict[str, Callable[[str], Any]] = {
    "partitions": int, "timeout": float, "patience": float, "cache": int, "ca": str, "cert": str, "key": str,
    "check_hostname": lambda text: {"true": True, "false": False}[text.lower()],
}  # fmt: skip


@dataclass(frozen=True)
class Address:
    """The address of a graph.

    Args:
        nodes: hosts and ports; any node of a cluster will do, more are tried if it cannot be reached.
        name: name of the graph. Several graphs can lie in one Redis under different names.
        username: user of Redis' access lists; None for the default one.
        password: password; None for none.
        tls: whether to speak TLS (`rediss://`).
        ca: file of the authorities that are believed; None for the system's.
        cert: file of a client certificate.
        key: file of its key.
        check_hostname: whether a certificate must be for the host that was asked.
        partitions: parts that the graph is divided into. Each lies whole on one node. Set once, at the beginning.
        timeout: seconds to wait for one answer.
        patience: seconds to go on trying while nodes cannot be reached or fail over.
        cache: bytes of features that a client remembers.
    """

    nodes: tuple[tuple[str, int], ...]
    name: str
    username: str | None = None
    password: str | None = None
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    check_hostname: bool = True
    partitions: int = 16
    timeout: float = 2.0
    patience: float = 30.0
    cache: int = 64 << 20

    def named(self, name: str) -> "Address":
        """Return the address of another graph on the same servers."""
        return replace(self, name=name)

    @property
    def text(self) -> str:
        """The whole address, with its password, for another process."""
        who = "" if self.username is None and self.password is None else (
            f"{quote(self.username or '', safe='')}:{quote(self.password or '', safe='')}@"
        )  # fmt: skip
        plain = Address(self.nodes, self.name)
        options = {name: getattr(self, name) for name in _OPTIONS if getattr(self, name) != getattr(plain, name)}
        nodes = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.nodes)
        return f"{SCHEMES[self.tls]}://{who}{nodes}/{self.name}" + (f"?{urlencode(options)}" if options else "")

    @property
    def shown(self) -> str:
        """The address without its password."""
        nodes = ",".join(f"{host}:{port}" for host, port in self.nodes)
        return f"{SCHEMES[self.tls]}://{nodes}/{self.name}"


def is_address(text: str) -> bool:
    """Return whether a text means a store on Redis."""
    return text.partition("://")[0] in SCHEMES


def address_of(text: str) -> Address:
    """Return the address that a text means, or raise `ConfigError`.

    >>> address_of("redis://127.0.0.1:7000,127.0.0.1:7001/papers").nodes
    (('127.0.0.1', 7000), ('127.0.0.1', 7001))
    """
    form = "redis://HOST:PORT[,HOST:PORT...]/NAME"
    found = _FORM.fullmatch(text)
    if found is None or found["scheme"] not in SCHEMES:
        raise ConfigError(f"the address of a store on Redis has the form {form}")
    if not _NAME.fullmatch(found["name"]):
        raise ConfigError(f"the name of a graph has 1 to 64 letters, digits, dots, dashes and underscores: {form}")
    who: dict[str, Any] = {}
    if found["who"]:
        user, _, password = found["who"].partition(":")
        who = {"username": unquote(user) or None, "password": unquote(password) or None}
    if "@" in found["nodes"]:
        raise ConfigError(f"in a password @ is written %40, : %3A, / %2F and % %25: {form}")
    nodes = tuple(_node(node) for node in found["nodes"].split(","))
    options = _options(found["options"] or "")
    made = Address(nodes, found["name"], tls=found["scheme"] == "rediss", **who, **options)
    if not 1 <= made.partitions <= 4096:
        raise ConfigError(f"partitions must be from 1 to 4,096, not {made.partitions}")
    if made.timeout <= 0 or made.patience < 0 or made.cache < 0:
        raise ConfigError("timeout must be above 0; patience and cache must not be negative")
    return made


def _node(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, "6379"
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"{text!r} is no HOST:PORT")
    return host.strip("[]"), int(port)


def _options(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name not in _OPTIONS:
            raise ConfigError(f"{name} is no option of a store on Redis; there are {', '.join(sorted(_OPTIONS))}")
        try:
            found[name] = _OPTIONS[name](value)
        except (ValueError, KeyError) as error:
            raise ConfigError(f"{value!r} is no value of {name}") from error
    return found
