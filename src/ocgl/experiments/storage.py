"""Choice of the graph store of a run: in memory, or on disk if the graph is too large."""

import os
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from ocgl.datasets.paths import cache_root
from ocgl.errors import StoreFolderError, UnknownNameError
from ocgl.graph import Graph

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


def _machine_bytes() -> float:
    if not hasattr(os, "sysconf"):
        return float("inf")
    return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
