"""Where a run keeps its store: in memory, or on disk when the graph is too large for that."""

import os
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from ocgl.datasets.paths import cache_root
from ocgl.errors import StoreFolderError, UnknownNameError
from ocgl.graph import Graph

Placing = Literal["auto", "memory", "disk"]
SHARE = 0.5


def raw_bytes(graph: Graph) -> int:
    """Count the bytes of a graph's features and of both directions of its edges."""
    neighbours = 4 * len(graph.indices)
    if graph.x is None:
        return neighbours
    return neighbours + (4 * graph.x.size if isinstance(graph.x, np.ndarray) else 8 * int(graph.x.nnz))


def folder_of(placing: str, graph: Graph) -> Path | None:
    """Give the folder for a store on disk, or None for one in memory.

    `auto` goes to disk when the raw arrays would take more than half of the machine's memory. The folder is that of
    the parsed graphs (`OCGL_CACHE`); the files have no names and are gone with the run.
    """
    if placing not in get_args(Placing):
        raise UnknownNameError("store", placing, get_args(Placing))
    if placing == "memory" or (placing == "auto" and raw_bytes(graph) <= SHARE * _machine_bytes()):
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
