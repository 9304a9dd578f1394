"""Executes a user's strategy file and the modules beside it, from the very bytes that identify it."""

import hashlib
import importlib
import re
import sys
import traceback
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ocgl.code import helpers_of, read_source, root_of
from ocgl.errors import ConfigError


class _Loader(SourceFileLoader):
    """Compiles the file as it is: bytecode on disk may be that of an edit within the same second."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(read_source(Path(path)), path)


class _Helpers(MetaPathFinder):
    """Finds the modules that strategy files import from beside them."""

    def __init__(self) -> None:
        self.folders: dict[str, Path] = {}
        """The folder of each known top-level module."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        folder = self.folders.get(fullname.split(".", maxsplit=1)[0])
        if folder is None:
            return None
        spec = PathFinder.find_spec(fullname, [str(folder)] if path is None else path)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = _Loader(fullname, spec.origin)
            spec.cached = None
        return spec


_HELPERS = _Helpers()
_loaded: dict[str, ModuleType] = {}


def load_module(file: Path) -> ModuleType:
    """Execute a user's file, once per process and content of the file and of its helper modules.

    An exception in the file becomes a `ConfigError` that says where it was raised.
    """
    file = file.resolve()
    try:
        helpers = helpers_of(file)
        contents = [read_source(path) for path in (file, *helpers)]
    except OSError as error:
        raise ConfigError(f"the strategy file {file} cannot be read: {error}") from error
    digest = hashlib.sha256(file.as_posix().encode())
    for content in contents:
        digest.update(hashlib.sha256(content).digest())
    name = f"ocgl_user_{file.stem}_{digest.hexdigest()[:12]}"
    if name not in _loaded:
        _register(file, helpers)
        _loaded[name] = _executed(name, file, helpers)
    return _loaded[name]


def _register(file: Path, helpers: tuple[Path, ...]) -> None:
    """Let the helper modules of a file be found, unless one of another folder has the same name."""
    if _HELPERS not in sys.meta_path:
        sys.meta_path.insert(0, _HELPERS)
    root = root_of(file) or file.parent
    tops = {path.relative_to(root).parts[0].removesuffix(".py") for path in helpers}
    if file.parent != root:
        tops.add(file.relative_to(root).parts[0])
    for top in sorted(tops):
        known = sys.modules.get(top)
        origin = getattr(known, "__file__", None)
        if _HELPERS.folders.get(top, root) != root or (origin and not Path(origin).resolve().is_relative_to(root)):
            text = f"{file} imports {top} from beside it, but another module of that name is loaded already"
            raise ConfigError(f"{text} ({origin or _HELPERS.folders[top]}); rename one of them")
        _HELPERS.folders[top] = root
        for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
            if isinstance(getattr(sys.modules[name], "__loader__", None), _Loader):
                del sys.modules[name]  # this finder has loaded it, and it may have changed since


def _executed(name: str, file: Path, helpers: tuple[Path, ...]) -> ModuleType:
    before = set(sys.modules)
    root = root_of(file) or file.parent
    try:
        if file.parent != root:  # inside a package, with relative imports
            module = importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))
        else:
            spec = spec_from_file_location(name, file, loader=_Loader(name, str(file)))
            assert spec is not None and spec.loader is not None
            module = module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise ConfigError(f"{file} cannot be imported: {located(error, file.parent)}") from error
    _refuse_unseen(file, helpers, set(sys.modules) - before)
    return module


def _refuse_unseen(file: Path, helpers: tuple[Path, ...], new: set[str]) -> None:
    """Raise if the file has imported a module beside it in a way that its identity does not cover."""
    root = root_of(file) or file.parent
    inside = root if file.parent == root else root / file.relative_to(root).parts[0]
    for name in sorted(new):
        origin = getattr(sys.modules.get(name), "__file__", None)
        path = None if origin is None or not origin.endswith(".py") else Path(origin).resolve()
        if path is None or not path.is_relative_to(inside) or "site-packages" in path.relative_to(inside).parts:
            continue
        if path != file and path not in helpers:
            text = f"{file} imports {name} in a way that cannot be seen without executing it"
            raise ConfigError(f"{text}; write a plain import, so that it is part of a result's identity")


def located(error: BaseException, folder: Path | None = None) -> str:
    """Describe an exception in one line, with the last line of code outside this package that it passed.

    Args:
        error: the exception.
        folder: prefer lines of files in this folder.
    """
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if folder is not None and Path(f.filename).is_relative_to(folder)]
    places = inside or [f for f in frames if "importlib" not in f.filename]
    where = f" ({Path(places[-1].filename).name}, line {places[-1].lineno}, in {places[-1].name})" if places else ""
    remote = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', str(getattr(error.__cause__, "tb", "")))
    if remote:  # the exception comes from another process
        where = f" ({Path(remote[-1][0]).name}, line {remote[-1][1]}, in {remote[-1][2]})"
    if isinstance(error, SyntaxError):
        where = f" (line {error.lineno})"
    text = str(error.msg if isinstance(error, SyntaxError) else error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}{where}"
