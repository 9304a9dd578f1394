"""All errors raised by the package. They are raised before any state changes."""

import difflib
from collections.abc import Iterable


class OcglError(Exception):
    """Base class of all errors of the package."""


class GraphError(OcglError, ValueError):
    """The graph, or a request to it, is invalid."""


class UnknownNodeError(GraphError, LookupError):
    """A node id refers to a node that has not arrived."""


class DuplicateNodeError(GraphError):
    """A node id occurs twice, or its node has already arrived."""


class SelfLoopError(GraphError):
    """An edge connects a node to itself."""


class DuplicateEdgeError(GraphError):
    """An edge occurs twice."""


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


class DatasetCorruptError(DatasetError):
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


class ResumeError(OcglError, RuntimeError):
    """A directory does not contain a run that can be resumed."""


class CacheError(DatasetError):
    """The cache of parsed graphs cannot be written."""


class ResultError(OcglError, ValueError):
    """A stored result cannot be read or written."""


class MissingExtraError(OcglError, ImportError):
    """An optional package is not installed; the message names the extra that installs it.

    Args:
        what: the feature that needs the package.
        extra: name of the extra of ocgl.
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what} needs the extra "{extra}": pip install "ocgl[{extra}]"')
