"""What a run is called: a hash of everything that can move its number."""

import ast
import hashlib
import inspect
import json
from functools import cache
from importlib.resources import files
from pathlib import Path

from ocgl.benchmark.config import RunConfig
from ocgl.errors import OcglError
from ocgl.strategies import find
from ocgl.types import Json

ROOMS = ("graph", "streams", "models", "buffers", "strategies", "evaluation", "kernels", "rng")
ROOTS = ("benchmark/run.py", "streams/build.py")
OFFLINE_ROOTS = ("benchmark/joint.py",)


def _imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "ocgl" and name.split(".")[1:2] and _moves(name)}


def _moves(module: str) -> bool:
    return module.split(".")[1] in ROOMS


def _files_of(package: Path, module: str) -> list[Path]:
    """Give the file of a module and those of the packages it lies in; a name that is no module has none."""
    parts = module.split(".")[1:]
    inner = [package.joinpath(*parts[:depth], "__init__.py") for depth in range(1, len(parts) + 1)]
    return [path for path in [*inner, package.joinpath(*parts).with_suffix(".py")] if path.is_file()]


@cache
def code_of(strategy: str) -> tuple[Path, ...]:
    """List the files that can move a number of this strategy.

    These are what the run and the strategy import, directly or not, from the rooms where numbers are made: not the
    docs, the report, the command line, the datasets' loaders (the stream's content has a hash of its own), nor other
    strategies.
    """
    package = Path(str(files("ocgl")))
    known: set[Path] = set()
    kind = find(strategy)
    roots = ROOTS + (OFFLINE_ROOTS if kind.offline else ())
    waiting = [*(package / root for root in roots), Path(inspect.getfile(kind))]
    while waiting:
        path = waiting.pop()
        if path not in known:
            known.add(path)
            waiting += [file for module in _imported(path) for file in _files_of(package, module)]
    return tuple(sorted(path for path in known if path.is_relative_to(package)))


@cache
def code_hash(strategy: str) -> str:
    """Hash the code that can move a number of this strategy."""
    package = Path(str(files("ocgl")))
    digest = hashlib.sha256()
    for path in code_of(strategy):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def code_name(strategy: str) -> str | None:
    """Give a short name of the present code of a strategy; None if there is no such strategy (any more)."""
    try:
        return code_hash(strategy)[:16]
    except OcglError:
        return None


def canonical(config: RunConfig) -> Json:
    """Give the config as JSON; a strategy from a file counts by what the file says, not by where it lies."""
    values = config.model_dump(mode="json")
    path, found, name = config.strategy.rpartition(":")
    if found and path.endswith(".py"):
        values["strategy"] = f"{hashlib.sha256(Path(path).read_bytes()).hexdigest()}:{name}"
    return values


def run_id(config: RunConfig, stream_hash: str, prefix: int | None = None, share: float = 1.0) -> str:
    """Name a run (or a tuning trial over a share of a prefix) by config, stream content and code."""
    return digest_of([canonical(config), stream_hash, prefix, share, code_hash(config.strategy)])


def digest_of(what: object) -> str:
    """Give a short name to something that JSON can say."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
