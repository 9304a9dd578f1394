"""Loads a dataset of the registry: finds or downloads its files, verifies, parses and caches them."""

import zipfile
import zlib
from dataclasses import asdict, replace
from pathlib import Path

from ocgl.datasets import cache, fetch, npz
from ocgl.datasets.spec import Download, Parsed, Spec, Statistics, Used, check_statistics
from ocgl.errors import CacheError, DatasetCorruptError, GraphError
from ocgl.graph import Graph
from ocgl.types import Json

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    IndexError,
    RuntimeError,
    MemoryError,
    TypeError,
    SyntaxError,
    zipfile.BadZipFile,
    zlib.error,
    GraphError,
)


def load(spec: Spec, root: Path, structure_only: bool, download: bool) -> Graph:
    """Return the graph of a dataset, memory-mapped.

    A file without a published checksum is trusted on its first successful load. The cache's manifest stores its
    SHA-256, and later loads refuse different content under the same path.

    Args:
        spec: the dataset.
        root: folder of all raw files.
        structure_only: whether to return the graph without features if the raw files are missing.
        download: whether to download missing files.
    """
    structure = spec.structure_file(root)
    if structure_only and fetch.local(root, spec) is None and structure.is_file():
        return _structure(spec, structure)
    files = fetch.obtain(root, spec, download)
    sources = cache.fingerprint(files)
    folder = cache.folder_of(spec.name, {"sources": [source["path"] for source in sources]})
    graph = cache.read(folder, sources)
    return graph if graph is not None else _build(spec, files, sources, folder)


def _structure(spec: Spec, path: Path) -> Graph:
    parsed = npz.parse(spec.name, path)
    # these files list the edges as the paper counts them
    expected = replace(spec.statistics, features=0, counted="raw")
    _check(parsed, expected, spec.used, str(path))
    return parsed.graph


def _build(spec: Spec, files: dict[Path, Download], sources: list[Json], folder: Path) -> Graph:
    known = {source["path"]: source for source in (cache.manifest(folder) or {}).get("sources", [])}
    for (path, item), source in zip(files.items(), sources, strict=True):
        source["sha256"] = _verified(path, item, known.get(source["path"], {}).get("sha256"), folder)
    statistics: Json = {}

    def parse() -> Graph:
        parsed = _parse(spec, files)
        found = _check(parsed, spec.statistics, spec.used, ", ".join(str(path) for path in files))
        statistics.update(asdict(found))
        return parsed.graph

    return cache.write(folder, parse, {"sources": sources, "statistics": statistics})


def _verified(path: Path, item: Download, trusted: str | None, folder: Path) -> str:
    digest = fetch.sha256(path)
    if path.name == item.file:
        fetch.check(path, item, digest)
    if trusted not in (None, digest):
        text = f"{path} is not the file first loaded (sha256 {trusted}, now {digest})"
        raise DatasetCorruptError(f"{text}; restore the first file, or delete {folder} to trust the new one")
    return digest


def _parse(spec: Spec, files: dict[Path, Download]) -> Parsed:
    try:
        with fetch.workspace(spec, files) as raw:
            return spec.parse(spec.name, raw)
    except CacheError:
        raise
    except UNREADABLE as error:
        names = ", ".join(str(path) for path in files)
        raise DatasetCorruptError(f"{spec.name} cannot be read from {names}: {error}") from error


def _check(parsed: Parsed, expected: Statistics, used: Used, source: str) -> Statistics:
    found = parsed.statistics(expected)
    check_statistics(found, expected, source)
    check_statistics(parsed.used(expected), used, f"{source}, as streams use it,")
    return found
