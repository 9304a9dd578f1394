"""Where the graph store of a run lies: in memory, or on disk if the graph is too large for that."""

import os
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from ocgl.datasets.paths import cache_root
from ocgl.errors import StoreFolderError, UnknownNameError
from ocgl.graph import Graph

Storage = Literal["auto", "memory", "disk"]
MEMORY_FRACTION = 0.5
"""Part of the machine's memory that a graph may fill before its store goes to disk."""


def raw_bytes(graph: Graph) -> int:
    """Return the bytes of a graph's features and of both directions of its edges."""
    neighbours = 4 * len(graph.indices)
    if graph.x is None:
        return neighbours
    return neighbours + (4 * graph.x.size if isinstance(graph.x, np.ndarray) else 8 * int(graph.x.nnz))


def storage_folder(storage: str, graph: Graph) -> Path | None:
    """Return the folder for a store on disk, or None for one in memory.

    `auto` goes to disk if the raw arrays would fill more than half of the machine's memory. The folder is that of the
    parsed graphs (`OCGL_CACHE`). The files have no names and disappear with the run.
    """
    if storage not in get_args(Storage):
        raise UnknownNameError("store", storage, get_args(Storage))
    if storage == "memory" or (storage == "auto" and raw_bytes(graph) <= MEMORY_FRACTION * _machine_bytes()):
        return None
    folder = cache_root()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFolderError(f"no store can be kept in {folder} (set OCGL_CACHE to another): {error}") from error
    return folder


def _machine_bytes() -> float:
    if not hasattr(os, "sysconf"):
        return float("inf")
    return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
