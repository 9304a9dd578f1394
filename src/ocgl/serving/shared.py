"""The graph of a service on Redis: others may look at it, and follow the service on it."""

import secrets
from collections.abc import Callable
from pathlib import Path

from ocgl.checked import read_sealed, sealed
from ocgl.errors import ConfigError, DiskFullError, GraphError, OcglError, StoreRefusedError, StoreUnreachableError
from ocgl.files import write_json
from ocgl.graph import GraphStore
from ocgl.graph.redis import RedisStore
from ocgl.graph.redis.address import address_of
from ocgl.serving.config import ServiceConfig
from ocgl.types import Json

OWNER = "store.json"
FULLEST = 0.95
"""Share of the memory of a server above which nothing is added any more."""


class SharedGraphs:
    """The graph lies on Redis, where others may look at it.

    Its owner is a secret of the folder, so that no other service writes to it.

    Args:
        folder: folder of the service.
        config: what the service is.
        owner: owner of the graph, for a service that follows it; None for the one that writes to it.
    """

    def __init__(self, folder: Path, config: ServiceConfig, owner: str | None = None) -> None:
        assert config.store is not None
        self.address, self._config = address_of(config.store), config
        self._follows = owner is not None
        self._marked: Json | None = None
        self.shown: str = self.address.shown
        self.owner: str = owner or owner_of(folder, lambda: secrets.token_hex(16))

    def new(self) -> RedisStore:
        """Return an empty graph; one that follows looks at the beginning of what is there."""
        if self._follows:
            return RedisStore.at(self.address, None, self.owner, sends=False)
        try:
            RedisStore.discard(self.address, self.owner)
        except ConfigError as error:
            text = f"{error}, in `store` of config.toml; a copy that takes the place of a service needs its {OWNER} too"
            raise ConfigError(text) from error
        return RedisStore(self.address, self._config.sparse, self.owner)

    def at(self, mark: Json) -> RedisStore:
        """Return the graph as it was."""
        if mark.get("address") != self.address.shown:
            raise ConfigError(f"the snapshot is of another graph than {self.address.shown}")
        return RedisStore.at(self.address, mark["graph"], self.owner, sends=not self._follows)

    def settle(self, store: GraphStore) -> None:
        """Compare the marks of the servers with what was applied."""
        assert isinstance(store, RedisStore)
        if not self._follows and store.then is not None:
            store.settle()

    def is_elsewhere(self, error: BaseException) -> bool:
        """Return whether the servers have lost changes, or have others than were applied."""
        out_of_reach = isinstance(error, StoreUnreachableError | StoreRefusedError)
        return isinstance(error, GraphError) and not out_of_reach and not self._follows

    def mark(self, store: GraphStore) -> Json:
        """Return how far the graph is; the servers make it durable, or the log builds it anew.

        What was sent before the last mark but one will not be sent again.
        """
        assert isinstance(store, RedisStore)
        if self._marked is not None:
            store.forget(self._marked)
        self._marked = store.mark
        return {"address": self.address.shown, "graph": self._marked}

    def heal(self, store: GraphStore) -> OcglError | None:
        """Send the servers what they have lost; return whether they are out of reach, or nearly full."""
        assert isinstance(store, RedisStore)
        try:
            store.heal()
            if store.fullness > FULLEST:
                return DiskFullError(f"the servers of {self.shown} are nearly full: give them more memory")
        except StoreUnreachableError as error:
            return error
        return None

    def close(self, store: GraphStore) -> None:
        """Close the connections."""
        assert isinstance(store, RedisStore)
        store.close()

    release = close


def owner_of(folder: Path, new: Callable[[], str]) -> str:
    """Return who owns the graph of a service on Redis; a first start writes down a new owner."""
    path = folder / OWNER
    if not path.exists():
        write_json(path, sealed({"owner": new()}))
    return str(read_sealed(path)["owner"])
