"""What a run is called: a hash of everything that can move its number."""

import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path

from ocgl.benchmark.config import RunConfig
from ocgl.types import Json

ROOMS = ("graph", "streams", "models", "buffers", "strategies", "evaluation")
FILES = ("kernels.py", "rng.py", "benchmark/run.py", "benchmark/joint.py")


@cache
def code_hash() -> str:
    """Hash the code that can move a number: not the docs, the report, the command line or the datasets' loaders."""
    package = Path(str(files("ocgl")))
    paths = [path for room in ROOMS for path in sorted((package / room).rglob("*.py"))]
    digest = hashlib.sha256()
    for path in [*paths, *(package / name for name in FILES)]:
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def canonical(config: RunConfig) -> Json:
    """Give the config as JSON; a strategy from a file counts by what the file says, not by where it lies."""
    values = config.model_dump(mode="json")
    path, found, name = config.strategy.rpartition(":")
    if found and path.endswith(".py"):
        values["strategy"] = f"{hashlib.sha256(Path(path).read_bytes()).hexdigest()}:{name}"
    return values


def run_id(config: RunConfig, stream_hash: str, prefix: int | None = None) -> str:
    """Name a run (or a tuning trial over a prefix) by config, stream content and code."""
    what = [canonical(config), stream_hash, prefix, code_hash()]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
