"""Parsed graphs as memory-mapped arrays, so that a second load costs nothing and processes share memory.

A cached graph is a folder of `.npy` files and a `manifest.json`. It appears in one rename when it is complete, and is
used only while its manifest fits the source files (path, size, modification time) and the loader version.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from ocgl.datasets.paths import cache_root
from ocgl.errors import CacheError
from ocgl.graph import Graph
from ocgl.types import Json

LOADER_VERSION = 1
MANIFEST = "manifest.json"


def folder_of(name: str, key: Json) -> Path:
    """Give the folder of a graph; `key` tells graphs of the same name apart (files' paths, parameters)."""
    text = json.dumps(key, sort_keys=True)
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)
    return cache_root() / f"{safe}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def fingerprint(paths: Iterable[Path]) -> list[Json]:
    """Tell which files, as they are now, a graph comes from."""
    stats = [(path, path.stat()) for path in paths]
    return [{"path": str(path), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns} for path, stat in stats]


def manifest(folder: Path) -> Json | None:
    """Read a cached graph's manifest, None if there is no whole one."""
    try:
        content = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def read(folder: Path, sources: list[Json]) -> Graph | None:
    """Map a cached graph, None if there is none of these sources and this loader."""
    content = manifest(folder)
    if content is None or content.get("loader") != LOADER_VERSION:
        return None
    if [{key: s[key] for key in ("path", "size", "mtime_ns")} for s in content["sources"]] != sources:
        return None
    return _try_map(folder, content)


def _try_map(folder: Path, content: Json) -> Graph | None:
    try:
        return _map(folder, content)
    except (OSError, ValueError, KeyError):
        return None


def _map(folder: Path, content: Json) -> Graph:
    # a plain view of the memory map: numpy.memmap itself is slow to slice, and unknown to kernels
    columns = {name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in content["columns"]}
    graph = Graph.from_columns(content["name"], columns, tuple(content["notes"]))
    graph.__dict__["content_hash"] = content["content_hash"]
    return graph


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = f"the folder of parsed graphs, {cache_root()}, cannot be written ({error.strerror or error})"
        raise CacheError(f"{text}; set OCGL_CACHE to one that can") from error


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Give a new folder in the cache, gone afterwards; CacheError if there can be none."""
    with _writing():
        cache_root().mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=prefix, dir=cache_root()))
    try:
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


def write(folder: Path, graph: Graph, extra: Json) -> Graph:
    """Put a graph in the cache, in the place of an older one, and give it memory-mapped."""
    with scratch(f".building-{folder.name}-") as new:
        return _fill(new, folder, graph, extra)


def _fill(new: Path, folder: Path, graph: Graph, extra: Json) -> Graph:
    columns = graph.columns()
    content = extra | {
        "loader": LOADER_VERSION,
        "name": graph.name,
        "notes": list(graph.notes),
        "columns": list(columns),
        "content_hash": graph.content_hash,
    }
    with _writing():
        for name, column in columns.items():
            np.save(new / f"{name}.npy", column, allow_pickle=False)
        (new / MANIFEST).write_text(json.dumps(content, indent=1))
        new.chmod(0o755)
        _swap(new, folder)
        return _map(folder, content)


def _swap(new: Path, folder: Path) -> None:
    # if another process was faster, its graph is as good as this one, and may be in use
    current = manifest(folder)
    if current is not None and current == manifest(new) and _try_map(folder, current) is not None:
        return
    aside = new.with_name(f"{new.name}-old")
    with suppress(FileNotFoundError):
        folder.rename(aside)
    with suppress(OSError):
        new.rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


def cached(name: str, key: Json, build: Callable[[], Graph]) -> Graph:
    """Give a graph that depends on nothing but `key`: mapped, or built and put in the cache."""
    folder = folder_of(name, key)
    graph = read(folder, [])
    if graph is not None:
        return graph
    with scratch(f".building-{folder.name}-") as new:  # before the work of building: it may fail
        return _fill(new, folder, build(), {"sources": [], "parameters": key})
