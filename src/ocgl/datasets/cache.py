"""Cache of parsed graphs as memory-mapped arrays: a second load is fast, and processes share memory.

A cached graph is a folder of `.npy` files and a `manifest.json` with their checksums. A rename publishes it when it is
complete. It is valid while its manifest matches the source files (path, size, modification time) and the loader
version. Every array is compared with its checksum when it is loaded, once per process or for all processes of a sweep;
what is damaged is built again.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ocgl import files
from ocgl.checked import read_sealed, sealed
from ocgl.datasets.paths import cache_root
from ocgl.errors import CacheError, DamagedFileError, FileWarning, GraphError, WriteError
from ocgl.graph import Graph
from ocgl.types import AnyArray, Json

LOADER_VERSION = 2
MANIFEST = "manifest.json"

Signature = tuple[tuple[str, int, int, int], ...]
"""Name, size, modification time and inode of each file of a cached graph."""

_checked: set[Signature] = set()
"""Cached graphs whose checksums were compared, in this process or in the one that started it."""


def checked() -> frozenset[Signature]:
    """Return which cached graphs need no comparison any more; `trust` takes it in another process of this machine."""
    return frozenset(_checked)


def trust(signatures: Iterable[Signature]) -> None:
    """Take over what another process of this machine has compared; a file that was touched since is compared again."""
    _checked.update(signatures)


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
    """Return the manifest of a cached graph, None if it is missing or damaged."""
    try:
        return read_sealed(folder / MANIFEST)
    except DamagedFileError:
        return None


def read(folder: Path, sources: list[Json]) -> Graph | None:
    """Return a memory-mapped graph from the cache, None if it is missing, out of date or damaged.

    Args:
        folder: folder of the cached graph.
        sources: result of `fingerprint` for the current source files.
    """
    content = manifest(folder)
    if content is None or content.get("loader") != LOADER_VERSION:
        return None
    try:
        given = [{key: s[key] for key in ("path", "size", "mtime_ns")} for s in content["sources"]]
        return _map(folder, content) if given == sources else None
    except Exception as error:  # numpy raises anything for a damaged header
        warnings.warn(f"{folder} is damaged and built again: {error}", FileWarning, stacklevel=2)
        return None


def _map(folder: Path, content: Json) -> Graph:
    """Map the arrays of a cached graph, and compare them with their checksums unless that was done before."""
    # asarray drops the numpy.memmap subclass, which is slow to slice and which numba does not support
    columns = {
        name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))
        for name in content["columns"]
    }
    signature = _signature(folder, content["columns"])
    if signature not in _checked:
        for name, column in columns.items():
            if _checksum(column) != content["columns"][name]:
                raise DamagedFileError(folder / f"{name}.npy", "its checksum is wrong: it was changed on disk")
        _checked.add(signature)
    graph = Graph.from_columns(content["name"], columns, tuple(content["notes"]))
    graph.__dict__["content_hash"] = content["content_hash"]
    return graph


def _signature(folder: Path, names: Iterable[str]) -> Signature:
    stats = [(path, path.stat()) for path in (folder / MANIFEST, *(folder / f"{name}.npy" for name in names))]
    return tuple((str(path), s.st_size, s.st_mtime_ns, s.st_ino) for path, s in stats)


def _checksum(column: AnyArray) -> str:
    digest = hashlib.sha256(f"{column.dtype.str}{column.shape}".encode())
    digest.update(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except WriteError as error:
        text = f"the cache of parsed graphs, {cache_root()}, cannot be written ({error.cause.strerror or error.cause})"
        raise CacheError(f"{text}; set OCGL_CACHE to a writable folder") from error


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """Yield a new temporary folder in the cache and delete it afterwards; raise CacheError if it cannot be created."""
    with _writing(), files.scratch(cache_root(), name) as new:
        yield new


def write(folder: Path, build: Callable[[], Graph], extra: Json) -> Graph:
    """Build a graph, write it to the cache in place of an older version, and return it memory-mapped.

    Args:
        folder: folder of the cached graph.
        build: returns the graph; called after it is known that the cache can be written.
        extra: further entries of the manifest.
    """

    def outdated(new: Path) -> bool:
        """Return whether what is there has to go; another process may have written the same graph first."""
        current = manifest(folder)
        if current is None or current != manifest(new):
            return True
        try:
            _map(folder, current)
        except Exception:
            return True
        return False

    with _writing(), files.building(folder, outdated) as new:
        graph = build()
        columns = graph.columns()
        for name, column in columns.items():
            files.write_array(new / f"{name}.npy", column)
        content = extra | {
            "loader": LOADER_VERSION,
            "name": graph.name,
            "notes": list(graph.notes),
            "columns": {name: _checksum(column) for name, column in columns.items()},
            "content_hash": graph.content_hash,
        }
        files.write_json(new / MANIFEST, sealed(content))
        new.chmod(0o755)
    try:
        return _map(folder, content)
    except (OSError, ValueError, GraphError) as error:
        text = f"the cache of parsed graphs, {folder}, cannot be read back ({error})"
        raise CacheError(f"{text}; set OCGL_CACHE to a healthy folder") from error


def cached(name: str, key: Json, build: Callable[[], Graph]) -> Graph:
    """Return a graph from the cache, or build it and add it to the cache.

    Args:
        name: name of the graph.
        key: parameters that determine the graph completely.
        build: function that builds it.
    """
    folder = folder_of(name, key)
    graph = read(folder, [])
    return graph if graph is not None else write(folder, build, {"sources": [], "parameters": key})
