"""Choice of the graph store of a run: in memory, on disk if the graph is too large, or on Redis."""

import os
import uuid
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from ocgl.datasets.paths import cache_root
from ocgl.errors import StoreFolderError, UnknownNameError
from ocgl.graph import Graph, GraphStore
from ocgl.graph.redis.address import address_of, is_address
from ocgl.strategies import CachedPredictor, Learner
from ocgl.types import IntArray

Storage = Literal["auto", "memory", "disk"]
MEMORY_FRACTION = 0.5
"""Fraction of the machine's memory above which `auto` stores a graph on disk."""


def raw_bytes(graph: Graph) -> int:
    """Return the bytes of the features of a graph and of its edges in both directions."""
    neighbours = 4 * len(graph.indices)
    if graph.x is None:
        return neighbours
    return neighbours + (4 * graph.x.size if isinstance(graph.x, np.ndarray) else 8 * int(graph.x.nnz))


def storage_folder(storage: str, graph: Graph) -> Path | None:
    """Return the folder for a graph store on disk, or None for a store in memory.

    The folder is the cache of parsed graphs (`OCGL_CACHE`). The files of the store are unnamed, so the system deletes
    them when the process ends.

    Args:
        storage: `memory`, `disk`, or `auto`: on disk if the raw arrays exceed half of the machine's memory.
        graph: the graph to store.
    """
    if storage not in get_args(Storage):
        raise UnknownNameError("store", storage, get_args(Storage))
    if storage == "memory" or (storage == "auto" and raw_bytes(graph) <= MEMORY_FRACTION * _machine_bytes()):
        return None
    folder = cache_root()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFolderError(
            f"the graph store cannot be written to {folder}; set OCGL_CACHE to another folder: {error}"
        ) from error
    return folder


def store_for(storage: str, graph: Graph) -> GraphStore:
    """Return an empty store for a run.

    Args:
        storage: `memory`, `disk`, `auto`, or the address of a store on Redis. There the run has a graph of its own,
            whose name begins with the given one, until `release` deletes it.
        graph: the graph to store.
    """
    if not is_address(storage):
        return GraphStore(storage_folder(storage, graph))
    address = address_of(storage)
    from ocgl.graph.redis import RedisStore

    return RedisStore(address.named(f"{address.name[:50]}-{uuid.uuid4().hex[:12]}"))


def release(store: GraphStore) -> None:
    """Delete the graph of a run that has ended, where it would outlive the process."""
    drop = getattr(store, "drop", None)
    if drop is not None:
        drop()


def shown(storage: str) -> str:
    """Return where a store lies, without a password."""
    return address_of(storage).shown if is_address(storage) else storage


def kind_of(store: GraphStore) -> str:
    """Return `memory`, `disk` or `redis`."""
    return "redis" if hasattr(store, "drop") else "memory" if store.folder is None else "disk"


class SampledPredictor(CachedPredictor):
    """Predicts from new samples always, where the rows of the graph are not here to look at."""

    def _answered(self, ids: IntArray, candidates: IntArray | None) -> IntArray:
        return self._learner.predict(ids, candidates)


def predictor_for(learner: Learner) -> CachedPredictor:
    """Return what predicts for nodes that are asked about again and again."""
    return SampledPredictor(learner) if kind_of(learner.store) == "redis" else CachedPredictor(learner)


def _machine_bytes() -> float:
    if not hasattr(os, "sysconf"):
        return float("inf")
    return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
