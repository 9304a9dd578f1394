"""Where the graph of a service is: in its folder, or on Redis. The log can build it anew."""

import shutil
import warnings
from pathlib import Path
from typing import Protocol

from ocgl.errors import ConfigError, OcglError
from ocgl.graph import GraphStore
from ocgl.graph.durable import DurableStore
from ocgl.graph.redis.address import address_of, is_address
from ocgl.serving.config import ServiceConfig
from ocgl.types import Json

GRAPH = "graph"
FOLDER = "folder"
"""How a user says that the graph is in the folder of the service."""


class Graphs(Protocol):
    """The graph of a service, as of the moment that a start needs."""

    @property
    def shown(self) -> str | None:
        """Address of the graph, without a password; None for the folder of the service."""

    @property
    def owner(self) -> str | None:
        """Its owner there; None for the folder of the service."""

    def new(self) -> GraphStore:
        """Return an empty graph; what was there is deleted."""

    def at(self, mark: Json) -> GraphStore:
        """Return the graph as of a mark, to which the records after it are applied."""

    def settle(self, store: GraphStore) -> None:
        """Called when all records are applied; raises `GraphError` if the graph is not what follows from them."""

    def is_elsewhere(self, error: BaseException) -> bool:
        """Return whether an error says that the graph is not the one of a mark, so that it has to be built anew."""

    def mark(self, store: GraphStore) -> Json:
        """Make a graph durable as far as that is ours to do; return what `at` needs to come back to this moment."""

    def heal(self, store: GraphStore) -> OcglError | None:
        """Restore what was lost where the graph is; return why nothing can be added to it now."""

    def close(self, store: GraphStore) -> None:
        """Close a graph in order."""

    def release(self, store: GraphStore) -> None:
        """Let go of a graph, whatever state it is in."""


class FolderGraphs:
    """The graph lies in the folder of the service.

    Args:
        folder: folder of the service.
        config: what the service is.
    """

    def __init__(self, folder: Path, config: ServiceConfig) -> None:
        self._folder, self._config = folder / GRAPH, config
        self.shown: str | None = None
        self.owner: str | None = None

    def new(self) -> DurableStore:
        """Return an empty graph."""
        shutil.rmtree(self._folder, ignore_errors=True)
        return DurableStore(self._folder, sparse=self._config.sparse)

    def at(self, mark: Json) -> DurableStore:
        """Return the graph as of a flush; later changes are dropped."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # changes after the snapshot are in the log
            return DurableStore(self._folder, flushed=mark)

    def settle(self, store: GraphStore) -> None:
        """Nothing can differ."""

    def is_elsewhere(self, error: BaseException) -> bool:
        """Return False: nobody else has changed it."""
        return False

    def mark(self, store: GraphStore) -> Json:
        """Flush the graph."""
        assert isinstance(store, DurableStore)
        store.flush()
        return store.mark

    def heal(self, store: GraphStore) -> OcglError | None:
        """Nothing can be lost while the service runs."""
        return None

    def close(self, store: GraphStore) -> None:
        """Flush, and close the files."""
        assert isinstance(store, DurableStore)
        store.close()

    def release(self, store: GraphStore) -> None:
        """Close the files."""
        assert isinstance(store, DurableStore)
        store._release()


def graphs_of(folder: Path, config: ServiceConfig, owner: str | None = None) -> Graphs:
    """Return where the graph of a service is.

    Args:
        folder: folder of the service.
        config: what the service is.
        owner: owner of the graph that a service follows; None for a service that writes.
    """
    if config.store is None:
        return FolderGraphs(folder, config)
    from ocgl.serving.shared import SharedGraphs  # needs the extra `redis`

    return SharedGraphs(folder, config, owner)


def checked_store(address: str | None) -> str | None:
    """Return the address of a store, None for the folder; raise `ConfigError` if it is neither."""
    if address is None:
        return None
    if address == FOLDER:
        return None
    if not is_address(address):
        raise ConfigError(f"the store of a service is `{FOLDER}` or redis://HOST:PORT[,HOST:PORT...]/NAME")
    return address_of(address).text
