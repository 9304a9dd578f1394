"""Every error a user can meet, by name. All of them are raised before anything is changed."""

import difflib
from collections.abc import Iterable


class OcglError(Exception):
    """Base of all errors of the package."""


class GraphError(OcglError):
    """The growing graph was asked for something it cannot do."""


class UnknownNodeError(GraphError):
    """A node is named that has not arrived."""


class DuplicateNodeError(GraphError):
    """A node is added a second time."""


class SelfLoopError(GraphError):
    """An edge joins a node to itself."""


class DuplicateEdgeError(GraphError):
    """The same edge is given twice."""


class OldEdgeError(GraphError):
    """An edge joins two nodes that had both arrived before."""


class NotFiniteError(GraphError):
    """A feature is NaN or infinite."""


class NotANumberError(GraphError):
    """Something is given that is no array of real numbers."""


class WrongWidthError(GraphError):
    """Feature rows have another width, or another number, than expected."""


class WrongLookError(GraphError):
    """A look has another depth, or other weights, than the method needs."""


class DiskFullError(GraphError):
    """There is no room for a store on disk."""


class StoreFolderError(GraphError):
    """A store cannot lie in the folder given for it."""


class EmptyBatchError(OcglError):
    """A batch holds nothing."""


class LabelError(OcglError):
    """Labels, or the classes that nodes can have, are not what they must be."""


class StreamError(OcglError):
    """A stream cannot be built, read or cut as asked."""


class BeyondPrefixError(StreamError):
    """Something beyond the end of a prefix was asked for."""


class DatasetError(OcglError):
    """A dataset cannot be loaded."""


class DatasetMissingError(DatasetError):
    """A file of a dataset is not on disk; the message says where to get it and where to put it."""


class DatasetCorruptError(DatasetError):
    """A file of a dataset is truncated, changed, or not of the expected format."""


class ConfigError(OcglError):
    """A setting has no such value."""


class UnknownNameError(ConfigError):
    """No strategy, dataset, stream or key of that name exists."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names)}"
        super().__init__(f"unknown {kind} {name!r}; {hint}")


class NeedsStoreError(OcglError):
    """The method looks into the store, and there is none."""


class StateError(OcglError):
    """A saved state does not fit the object that should take it."""


class ResumeError(OcglError):
    """A directory holds no run that can be continued."""


class CacheError(DatasetError):
    """The folder of parsed graphs cannot be written."""
