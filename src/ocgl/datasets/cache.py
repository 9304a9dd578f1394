"""Cache of parsed graphs as memory-mapped arrays: a second load is fast, and processes share memory.

A cached graph is a folder of `.npy` files and a `manifest.json`. A rename publishes it when it is complete. It is
valid while its manifest matches the source files (path, size, modification time) and the loader version.
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
    """Return the cache folder of a graph.

    Args:
        name: name of the dataset.
        key: what distinguishes graphs of the same name, for example file paths or parameters.
    """
    text = json.dumps(key, sort_keys=True)
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)
    return cache_root() / f"{safe}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def fingerprint(paths: Iterable[Path]) -> list[Json]:
    """Return the path, size and modification time of each file."""
    stats = [(path, path.stat()) for path in paths]
    return [{"path": str(path), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns} for path, stat in stats]


def manifest(folder: Path) -> Json | None:
    """Return the manifest of a cached graph, None if it is missing or unreadable."""
    try:
        content = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def read(folder: Path, sources: list[Json]) -> Graph | None:
    """Return a memory-mapped graph from the cache, None if it is missing or out of date.

    Args:
        folder: folder of the cached graph.
        sources: result of `fingerprint` for the current source files.
    """
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
    # asarray drops the numpy.memmap subclass, which is slow to slice and which numba does not support
    columns = {name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in content["columns"]}
    graph = Graph.from_columns(content["name"], columns, tuple(content["notes"]))
    graph.__dict__["content_hash"] = content["content_hash"]
    return graph


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = f"the cache of parsed graphs, {cache_root()}, cannot be written ({error.strerror or error})"
        raise CacheError(f"{text}; set OCGL_CACHE to a writable folder") from error


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Yield a new temporary folder in the cache and delete it afterwards; raise CacheError if it cannot be created."""
    with _writing():
        cache_root().mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=prefix, dir=cache_root()))
    try:
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


def write(folder: Path, graph: Graph, extra: Json) -> Graph:
    """Write a graph to the cache, replacing an older version, and return it memory-mapped.

    Args:
        folder: folder of the cached graph.
        graph: the graph.
        extra: further entries of the manifest.
    """
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
    # another process may have written the same graph first; leave it, since it may be in use
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
    """Return a graph from the cache, or build it and add it to the cache.

    Args:
        name: name of the graph.
        key: parameters that determine the graph completely.
        build: function that builds it.
    """
    folder = folder_of(name, key)
    graph = read(folder, [])
    if graph is not None:
        return graph
    with scratch(f".building-{folder.name}-") as new:  # before the expensive build: this may fail
        return _fill(new, folder, build(), {"sources": [], "parameters": key})
