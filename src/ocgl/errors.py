"""All errors raised by the package. They are raised before any state changes."""

import difflib
from collections.abc import Iterable
from typing import Any


class OcglError(Exception):
    """Base class of all errors of the package. They can be sent from one process to another."""

    def __reduce__(self) -> tuple[Any, ...]:
        number = {"errno": self.errno} if isinstance(self, OSError) else {}
        return _restored, (type(self), self.args, self.__dict__ | number)


def _restored(kind: type[OcglError], arguments: tuple[Any, ...], values: dict[str, Any]) -> OcglError:
    """Make an error again that another process has raised."""
    error = OSError.__new__(kind, *arguments) if issubclass(kind, OSError) else kind.__new__(kind, *arguments)
    error.args = arguments
    for name, value in values.items():
        setattr(error, name, value)
    return error


class DamagedFileError(OcglError, ValueError):
    """A file is truncated, changed, or not what it should be. Nothing of it is used.

    Args:
        path: the file, or the whole message.
        why: what is wrong with the file.
    """

    def __init__(self, path: object, why: str = "") -> None:
        self.path, self.why = path, why
        super().__init__(f"{path} cannot be used: {why}" if why else str(path))


class WriteError(OcglError, OSError):
    """A file or folder cannot be written; the message says why, and what is kept.

    Args:
        path: the file or folder.
        cause: the error of the system.
        kept: what is there now.
    """

    def __init__(self, path: object, cause: OSError, kept: str = "nothing was written") -> None:
        self.path, self.cause, self.kept = path, cause, kept
        self.text = f"cannot write {path}: {cause.strerror or cause}; {kept}"
        super().__init__(self.text)
        self.errno = cause.errno

    def __str__(self) -> str:
        return self.text


class FileWarning(UserWarning):
    """A damaged file was left out, or replaced by what it should be."""


class Interrupted(OcglError):
    """The user, or the system, has stopped the command; the message says how to continue."""


class UntrustedError(OcglError, PermissionError):
    """A stored file names code or data that is not used unless the user says so (`--trust`)."""


class GraphError(OcglError, ValueError):
    """The graph, or a request to it, is invalid."""


class UnknownNodeError(GraphError, LookupError):
    """A node id refers to a node that has not arrived."""


class IdKindError(GraphError, TypeError):
    """Ids are of another kind (integers, or text) than those of the store."""


class DuplicateNodeError(GraphError):
    """A node id occurs twice, or its node has already arrived."""


class SelfLoopError(GraphError):
    """An edge connects a node to itself."""


class DuplicateEdgeError(GraphError):
    """An edge occurs twice."""


class UnknownEdgeError(GraphError):
    """An edge to remove is not there."""


class OldEdgeError(GraphError):
    """An edge connects two nodes that both arrived earlier."""


class NotFiniteError(GraphError):
    """A feature is NaN or infinite."""


class NotANumberError(GraphError, TypeError):
    """A value is not an array of real numbers."""


class WrongWidthError(GraphError):
    """The number of feature rows, or their width, differs from what is expected."""


class WrongSamplingError(GraphError):
    """A neighbourhood was sampled with other hops or weights than the method needs."""


class DiskFullError(GraphError, OSError):
    """The disk has no space left for the graph store."""


class StoreFolderError(GraphError, OSError):
    """The graph store cannot write to its folder."""


class StoreUnreachableError(GraphError, ConnectionError):
    """The servers of a graph cannot be reached, or do not answer in time."""


class StoreRefusedError(GraphError, RuntimeError):
    """The servers of a graph refuse a command or a user."""


class StoreBehindError(GraphError, RuntimeError):
    """A part of a graph lacks changes that it had, or should have: an answer from it would be wrong."""


class StoreChangedError(GraphError, RuntimeError):
    """A graph is looked at as it was, but more than growth has happened to it since."""


class EmptyBatchError(OcglError, ValueError):
    """A batch has no nodes."""


class LabelError(OcglError, ValueError):
    """Labels or candidate classes are invalid."""


class StreamError(OcglError, ValueError):
    """A stream cannot be built, loaded or sliced."""


class BeyondPrefixError(StreamError, IndexError):
    """A step or task beyond the end of a prefix is requested."""


class DatasetError(OcglError):
    """A dataset cannot be loaded."""


class DatasetMissingError(DatasetError, FileNotFoundError):
    """A dataset file is not on disk; the message states its URL and target folder."""


class DatasetCorruptError(DatasetError, DamagedFileError):
    """A dataset file is truncated, modified, or not in the expected format."""


class ConfigError(OcglError, ValueError):
    """An option has an invalid value."""


class UnknownNameError(ConfigError, LookupError):
    """A name of a strategy, dataset, stream or option is unknown; the message suggests similar names.

    Args:
        kind: what the name refers to, for example `"dataset"`.
        name: the unknown name.
        known: all valid names.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names)}"
        super().__init__(f"unknown {kind} {name!r}; {hint}")


class NeedsStoreError(OcglError, RuntimeError):
    """The strategy reads the graph store, but the batch has no handle to it."""


class StateError(OcglError, ValueError):
    """A saved state does not match the object that loads it."""


class StateWarning(UserWarning):
    """A saved state fits, but comes from other code, hyperparameters or another seed."""


class DeviceWarning(UserWarning):
    """A method computes on the CPU although another device was asked for."""


class ResumeError(OcglError, RuntimeError):
    """A directory does not contain a run that can be resumed."""


class CacheError(DatasetError):
    """The cache of parsed graphs cannot be written."""


class ResultError(DamagedFileError):
    """A stored result is damaged, contradicts itself, or has another format."""


class StreamFileError(StreamError, DamagedFileError):
    """A stream file is damaged, contradicts itself, or has another format."""


class MissingExtraError(OcglError, ImportError):
    """An optional package is not installed; the message names the extra that installs it.

    Args:
        what: the feature that needs the package.
        extra: name of the extra of ocgl.
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what} needs the extra "{extra}": pip install "ocgl[{extra}]"')


class ServiceError(OcglError, RuntimeError):
    """A service cannot do what was asked of it."""


class OverloadedError(ServiceError):
    """A service has too much to do right now; try again later."""
