"""The name of a result: a hash of everything that can move its number.

That is the config, the resolved hyperparameters, the content of the stream, and the code, without docstrings, comments
and formatting. Nothing here imports the code that it hashes.
"""

import ast
import hashlib
import json
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from ocgl.errors import UnknownNameError
from ocgl.experiments.config import RunConfig
from ocgl.types import Json

ROOMS = ("graph", "streams", "nn", "buffers", "strategies", "evaluation", "kernels", "rng")
"""Parts of the package whose code can move a number when it is imported."""
ROOTS = ("experiments/experiment.py", "experiments/tuning.py", "experiments/offline.py", "streams/build.py")
"""Files that every result depends on, beside its strategy."""


def _package() -> Path:
    return Path(str(files("ocgl")))


@cache
def _exports(init: Path) -> dict[str, str]:
    """Return which module each name comes from that a package re-exports."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(init.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.asname or alias.name: node.module for alias in node.names}
    return found


def _file_of(module: str) -> Path | None:
    """Return the file of a module of this package; None for a package or for no module."""
    path = _package().joinpath(*module.split(".")[1:]).with_suffix(".py")
    return path if path.is_file() else None


def _modules(path: Path) -> set[str]:
    """Return the modules of this package that a file imports from, re-exported names followed to their origin."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            init = _package().joinpath(*node.module.split(".")[1:], "__init__.py")
            exported = _exports(init) if node.module.split(".")[0] == "ocgl" and init.is_file() else {}
            for alias in node.names:
                found |= {exported.get(alias.name, node.module), f"{node.module}.{alias.name}"}
    return {name for name in found if name.startswith("ocgl.") and name.split(".")[1] in ROOMS}


def file_of_strategy(strategy: str) -> Path:
    """Return the file of a strategy, without importing it."""
    path, colon, _ = strategy.rpartition(":")
    if colon and path.endswith(".py"):
        return Path(path)
    built_in = _package() / "strategies" / f"{strategy.replace('-', '_')}.py"
    if built_in.is_file() and not strategy.startswith("_"):
        return built_in
    for point in entry_points(group="ocgl.strategies"):
        spec = find_spec(point.module) if point.name == strategy else None
        if spec is not None and spec.origin is not None:
            return Path(spec.origin)
    raise UnknownNameError("strategy", strategy, [p.stem.replace("_", "-") for p in built_in.parent.glob("[a-z]*.py")])


def code_of(strategy: str) -> tuple[Path, ...]:
    """List the files that can move a number of this strategy: what the run and the strategy import, step by step.

    Reports, the command line, the loaders of datasets (the content of the stream is hashed by itself) and other
    strategies are not among them.
    """
    return _code_of(file_of_strategy(strategy))


@cache
def _code_of(strategy: Path) -> tuple[Path, ...]:
    waiting = [*(_package() / root for root in ROOTS), strategy]
    known: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in known:
            known.add(path)
            waiting += [file for module in _modules(path) if (file := _file_of(module)) is not None]
    return tuple(sorted(known))


def normalized(source: str) -> str:
    """Return Python code without docstrings, comments and formatting.

    >>> normalized('def f( x ):\\n    "Double."\\n    return 2*x  # twice') == normalized("def f(x): return 2 * x")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [line for line in body if not _is_text(line)]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _is_text(line: ast.AST) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


def code_hash(strategy: str) -> str:
    """Hash the code that can move a number of this strategy."""
    return _code_hash(file_of_strategy(strategy))


@cache
def _code_hash(strategy: Path) -> str:
    digest = hashlib.sha256()
    for path in _code_of(strategy):
        name = path.relative_to(_package()) if path.is_relative_to(_package()) else Path("strategy.py")
        digest.update(f"{name}\0{normalized(path.read_text())}\0".encode())
    return digest.hexdigest()


def code_name(strategy: str) -> str | None:
    """Return a short name of the present code of a strategy; None if there is no such strategy (any more)."""
    try:
        return code_hash(strategy)[:16]
    except (UnknownNameError, OSError, SyntaxError):
        return None


def canonical(config: RunConfig) -> Json:
    """Return what of a config can move a number; a strategy from a file counts by its class, its code by itself."""
    values = config.model_dump(mode="json")
    path, colon, name = config.strategy.rpartition(":")
    if colon and path.endswith(".py"):
        values["strategy"] = f"file:{name}"
    if config.prequential == "evaluated" or config.eval_every == 1:  # the same question is asked
        values.pop("prequential")
    return values


def run_id(config: RunConfig, resolved: Json, stream_hash: str, prefix: int | None = None, share: float = 1.0) -> str:
    """Name a run, or a tuning trial over a share of a prefix, by everything that can move its number.

    Args:
        config: the config of the run.
        resolved: the hyperparameters that the strategy is made with (`RunConfig.resolved`).
        stream_hash: content hash of the whole stream.
        prefix: tasks of the prefix that a trial sees; None for a run.
        share: part of the prefix that a trial is run over.
    """
    return digest_of([canonical(config), resolved, stream_hash, prefix, share, code_hash(config.strategy)])


def digest_of(what: object) -> str:
    """Return a short hash of anything that JSON can express."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
