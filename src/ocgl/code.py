"""Identity of code: a hash of the files that can move a number, without docstrings, comments and formatting.

Nothing here imports or executes the code that it hashes.
"""

import ast
import hashlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from ocgl.errors import ConfigError, UnknownNameError

ROOMS = ("graph", "streams", "nn", "buffers", "strategies", "evaluation", "kernels", "rng")
"""Parts of the package whose code can move a number when it is imported."""
ROOTS = ("experiments/experiment.py", "experiments/tuning.py", "experiments/offline.py", "streams/build.py")
"""Files that every result depends on, beside its strategy."""
LARGEST = 4 << 20
"""Largest source file that is read, in bytes."""
GROUP = "ocgl.strategies"
"""The entry-point group for strategies of other packages."""


def _package() -> Path:
    return Path(str(files("ocgl")))


def is_file_spec(strategy: str) -> bool:
    """Return whether a strategy is given as `path/to/file.py:Class`.

    >>> is_file_spec("mine.py:Mine"), is_file_spec("er")
    (True, False)
    """
    path, colon, _ = strategy.rpartition(":")
    return bool(colon) and path.endswith(".py")


def file_of_strategy(strategy: str) -> Path:
    """Return the file of a strategy, without importing it."""
    if is_file_spec(strategy):
        return Path(strategy.rpartition(":")[0]).resolve()  # helpers lie beside the file, not beside a link to it
    built_in = _package() / "strategies" / f"{strategy.replace('-', '_')}.py"
    if strategy.replace("-", "").replace("_", "").isalnum() and not strategy.startswith("_") and built_in.is_file():
        return built_in
    for point in entry_points(group=GROUP):
        spec = find_spec(point.module) if point.name == strategy else None
        if spec is not None and spec.origin is not None:
            return Path(spec.origin)
    raise UnknownNameError("strategy", strategy, [p.stem.replace("_", "-") for p in built_in.parent.glob("[a-z]*.py")])


def file_of_network(network: str | None) -> Path | None:
    """Return the file of a network (a value of `backbone`), without importing it.

    None for our own GCN, whose code is part of every strategy, and for a network that is in no file of the user's.
    """
    if network is None or network == "gcn":
        return None
    if is_file_spec(network):
        return Path(network.rpartition(":")[0]).resolve()
    shipped = _package() / "nn" / "backbones" / f"{network}.py"
    return shipped if network.isidentifier() and shipped.is_file() else None


def read_source(path: Path) -> bytes:
    """Return the content of a source file; a pipe, a device, or a very large file raises `ConfigError`."""
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST:
            raise ConfigError(f"{path} is no source file of at most {LARGEST:,} bytes")
        return file.read(LARGEST)


def code_of(strategy: str, network: str | None = None) -> tuple[Path, ...]:
    """List the files that can move a number of this strategy: what the run and the strategy import, step by step.

    For a strategy or a network from a file these are also the modules beside it that it imports. Reports, the command
    line, the loaders of datasets (the content of the stream is hashed by itself), other strategies and other networks
    are not among them.
    """
    return tuple(path for _, path in _named(file_of_strategy(strategy), file_of_network(network)))


def helpers_of(strategy: Path) -> tuple[Path, ...]:
    """List the modules beside a strategy's file that it imports, directly or through each other."""
    own = (path for path in _closure([strategy], strategy) if not path.is_relative_to(_package()))
    return tuple(path for path in own if path != strategy)


def _code_of(strategy: Path) -> tuple[Path, ...]:
    return _closure([*(_package() / root for root in ROOTS), strategy], strategy)


def _closure(waiting: list[Path], strategy: Path) -> tuple[Path, ...]:
    root = root_of(strategy)
    only = None if root is None else _outer_package(strategy, root)
    known: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in known:
            known.add(path)
            waiting += _imports(path, root, only, _stamp(path))
    return tuple(sorted(known))


def root_of(strategy: Path) -> Path | None:
    """Return the folder that a strategy's helper modules are imported from; None for a strategy of this package."""
    folder = strategy.parent
    if folder.is_relative_to(_package()):
        return None
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


def _outer_package(strategy: Path, root: Path) -> str | None:
    """Return the name of the outermost package that a file is in; None for a file in no package."""
    parts = strategy.relative_to(root).parts
    return parts[0] if len(parts) > 1 else None


def _stamp(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_mtime_ns, facts.st_size


@cache
def _tree(path: Path, stamp: tuple[int, int]) -> ast.Module:
    try:
        return ast.parse(read_source(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"{path} is no Python code: {error}") from error


@cache
def _imports(path: Path, root: Path | None, only: str | None, stamp: tuple[int, int]) -> tuple[Path, ...]:
    """Return the files that a file imports: of this package where they can move a number, and below `root`.

    Args:
        path: the file.
        root: folder of the strategy's helper modules, None without any.
        only: the one package below `root` that counts; None for all modules there.
        stamp: time and size of the file.
    """
    found: set[Path] = set()
    for module, names in _import_statements(_tree(path, stamp), path, root):
        for name in (module, *(f"{module}.{name}" for name in names)):
            top = name.split(".")[0]
            if top == "ocgl":
                found |= set(_of_package(name))
            elif root is not None and (top == only if only else top not in sys.stdlib_module_names):
                found |= set(_below(name, root))
    return tuple(sorted(found))


def _import_statements(tree: ast.Module, path: Path, root: Path | None) -> Iterator[tuple[str, list[str]]]:
    """Yield each imported module, absolute, with the names imported from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            if not node.level:
                yield node.module or "", names
            elif root is not None and path.is_relative_to(root):
                parents = path.relative_to(root).parts[: -node.level]
                base = ".".join((*parents, *(node.module or "").split("."))).strip(".")
                if base:
                    yield base, names


def _of_package(name: str) -> Iterator[Path]:
    """Yield the file of a module of this package, a re-exported name followed to its origin."""
    module, _, last = name.rpartition(".")
    init = _package().joinpath(*module.split(".")[1:], "__init__.py") if module else None
    if init is not None and init.is_file():
        name = _exports(init).get(last, name)
    if name.count(".") and name.split(".")[1] in ROOMS:
        path = _package().joinpath(*name.split(".")[1:]).with_suffix(".py")
        if path.is_file():
            yield path


@cache
def _exports(init: Path) -> dict[str, str]:
    """Return which module each name comes from that a package re-exports."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(init.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.asname or alias.name: node.module for alias in node.names}
    return found


def _below(name: str, root: Path) -> Iterator[Path]:
    """Yield the files below a folder that importing a module executes: the module and its packages."""
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        base = root.joinpath(*parts[:depth])
        for path in (base / "__init__.py", base.with_suffix(".py")):
            if path.is_file():
                yield path
                break
        else:
            return


def normalized(source: str) -> str:
    """Return Python code without docstrings, comments and formatting.

    >>> normalized('def f( x ):\\n    "Double."\\n    return 2*x  # twice') == normalized("def f(x): return 2 * x")
    True
    """
    return _without_text(ast.parse(source))


def _without_text(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [line for line in body if not _is_text(line)]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _is_text(line: ast.AST) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


@cache
def _normalized(path: Path, stamp: tuple[int, int]) -> str:
    try:
        return normalized(read_source(path).decode())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"{path} is no Python code: {error}") from error


def code_hash(strategy: str, network: str | None = None) -> str:
    """Hash the code that can move a number of this strategy with this network."""
    return _hash_of(_named(file_of_strategy(strategy), file_of_network(network)))


def code_files(strategy: str, network: str | None = None) -> dict[str, str]:
    """Return a short hash of each file that can move a number of this strategy with this network, by its name."""
    named = _named(file_of_strategy(strategy), file_of_network(network))
    return {name: hashlib.sha256(_normalized(path, _stamp(path)).encode()).hexdigest()[:16] for name, path in named}


def _named(strategy: Path, network: Path | None = None) -> list[tuple[str, Path]]:
    """Name the files: those of this package by their place in it, a user's strategy and network always alike."""
    found = _names(_code_of(strategy), strategy, "strategy.py", "helper")
    if network is not None:
        known = {path for _, path in found}
        added = _names(_closure([network], network), network, "network.py", "network helper")
        found += [(name, path) for name, path in added if path not in known or name == "network.py"]
    return found


def _names(paths: Iterable[Path], own: Path, name: str, helper: str) -> list[tuple[str, Path]]:
    root, found = root_of(own), []
    for path in paths:
        if path.is_relative_to(_package()):
            found.append((str(path.relative_to(_package())), path))
        elif path == own:
            found.append((name, path))
        else:
            found.append((f"{helper} {path.relative_to(root) if root else path.name}", path))
    return found


def _hash_of(named: Iterable[tuple[str, Path]]) -> str:
    return _hash_of_stamped(tuple((name, path, _stamp(path)) for name, path in named))


@cache
def _hash_of_stamped(named: tuple[tuple[str, Path, tuple[int, int]], ...]) -> str:
    digest = hashlib.sha256()
    for name, path, stamp in named:
        digest.update(f"{name}\0{_normalized(path, stamp)}\0".encode())
    return digest.hexdigest()


def code_name(strategy: str, network: str | None = None) -> str | None:
    """Return a short name of the present code of a strategy; None if there is no such strategy (any more)."""
    try:
        return code_of_file(file_of_strategy(strategy), file_of_network(network))
    except ConfigError:
        return None


def code_of_file(file: Path, network: Path | None = None) -> str | None:
    """Return a short name of the present code of a strategy (and a network) in a file; None if it cannot be read."""
    try:
        return _hash_of(_named(file, network))[:16]
    except (ConfigError, OSError, ValueError):
        return None
