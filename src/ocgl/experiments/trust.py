"""What a stored result may make a command do: nothing but read, unless the user trusts where it comes from."""

import zipfile
from pathlib import Path

from ocgl.datasets import fetch, paths, sbm
from ocgl.datasets.registry import SPECS
from ocgl.errors import ConfigError, UntrustedError
from ocgl.experiments.config import RunConfig

LARGEST_GRAPH = 1_000_000_000
"""Largest graph of the registry that a stored result may load without trust, in bytes of its dense features."""
LARGEST_NAMED = 200_000_000
"""The same for a graph that the result describes or names by itself: a block model, or a file."""
MEMORY = 1_000_000_000
"""Bytes that all processes together may take to re-run results without trust."""


def needs_trust(config: RunConfig, data_root: Path | None = None) -> str | None:
    """Return what re-running a stored config would do that needs trust; None if it needs none.

    Args:
        config: the config of a stored result.
        data_root: folder of the datasets.
    """
    for executed in (config.strategy, config.network or ""):
        if ":" in executed:
            return f"would execute {executed.rpartition(':')[0]}"
    dataset = config.dataset
    if dataset in SPECS:
        spec = SPECS[dataset]
        if fetch.local(paths.data_root(data_root), spec) is None:
            return f"would download {dataset}"
        size = spec.statistics
        return _too_large(dataset, 4 * size.nodes * size.features + 16 * size.edges, LARGEST_GRAPH)
    if dataset.partition(":")[0] == "sbm":
        try:
            wanted = sbm.parameters(dataset)
        except ConfigError:
            return None  # refused when it is loaded
        rows = wanted.nodes * wanted.width * (4 if wanted.density == 1 else 8 * wanted.density)
        return _too_large(dataset, rows + 64 * wanted.edges, LARGEST_NAMED)
    if dataset.endswith(".npz"):
        return _too_large(dataset, _unpacked_bytes(Path(dataset).expanduser()), LARGEST_NAMED)
    return None


def _too_large(dataset: str, size: float, limit: int) -> str | None:
    return f"would load {dataset}, about {size / 1e9:.1f} GB" if size > limit else None


def _unpacked_bytes(path: Path) -> float:
    """Return how many bytes an archive has when it is unpacked; none for what is no archive, which is refused later."""
    if not path.is_file():
        return float("inf") if path.exists() else 0.0
    try:
        with zipfile.ZipFile(path) as archive:
            return float(sum(member.file_size for member in archive.infolist()))
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return 0.0


def require_trust(config: RunConfig, trust: bool, data_root: Path | None = None) -> None:
    """Raise `UntrustedError` if re-running a stored config needs trust that was not given."""
    reason = None if trust else needs_trust(config, data_root)
    if reason is not None:
        raise UntrustedError(f"re-running this result {reason}; if you trust where it comes from, add --trust")
