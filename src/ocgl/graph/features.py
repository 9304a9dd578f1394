"""Tables of feature rows, dense or sparse, that grow and are summed over neighbourhoods."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.sparse import csr_array, issparse

from ocgl.errors import NotANumberError, NotFiniteError, WrongWidthError
from ocgl.graph.aggregation import Block, dense_rows, gathered, sparse_rows
from ocgl.graph.growable import Growable
from ocgl.graph.sparse import SparseRows
from ocgl.types import AnyArray, FloatArray, IntArray, PositionArray, Rows


class Table(Protocol):
    """Feature rows by position."""

    width: int
    sparse: bool

    def __len__(self) -> int:
        """Count the rows."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...

    @property
    def row_bound(self) -> int:
        """The most bytes a row can have."""
        ...

    def bytes_of(self, nodes: PositionArray) -> int:
        """Count the bytes of these rows."""
        ...

    def make_room(self, rows: Rows) -> None:
        """Reserve what these rows need, so that adding them cannot fail halfway."""
        ...

    def append(self, rows: Rows) -> None:
        """Add checked rows at the end."""
        ...

    def take(self, nodes: PositionArray) -> Rows:
        """Copy rows."""
        ...

    def aggregate(self, nodes: PositionArray, block: Block) -> FloatArray:
        """Sum neighbours' rows as `aggregation.dense_rows` does."""
        ...

    def let_go(self) -> None:
        """Let what lies in a file leave memory."""
        ...


class DenseTable:
    """Rows of float32."""

    sparse = False

    def __init__(self, width: int, folder: Path | None = None) -> None:
        self.width = width
        self._rows = Growable(np.float32, width, folder)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._rows.nbytes

    @property
    def row_bound(self) -> int:
        """The bytes of a row."""
        return 4 * self.width

    def bytes_of(self, nodes: PositionArray) -> int:
        """Count the bytes of these rows."""
        return len(nodes) * self.row_bound

    def make_room(self, rows: Rows) -> None:
        """Reserve what these rows need."""
        self._rows.reserve(len(self) + rows.shape[0])

    def append(self, rows: Rows) -> None:
        """Add checked rows at the end."""
        self._rows.extend(rows)

    def take(self, nodes: PositionArray) -> Rows:
        """Copy rows."""
        rows: FloatArray = self._data[nodes]
        return rows

    def aggregate(self, nodes: PositionArray, block: Block) -> FloatArray:
        """Sum neighbours' rows."""
        return dense_rows(self._data, nodes, block.indptr, block.indices, block.edge, block.own, block.rows)

    def let_go(self) -> None:
        """Let what lies in a file leave memory."""
        self._rows.let_go()

    @property
    def _data(self) -> FloatArray:
        return self._rows.rows


class FixedTable(DenseTable):
    """Rows that lie in an array already and are read in place."""

    def __init__(self, rows: FloatArray) -> None:
        super().__init__(rows.shape[1])
        self._given = rows

    def __len__(self) -> int:
        return len(self._given)

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self._given.nbytes

    @property
    def _data(self) -> FloatArray:
        return self._given


class SparseTable:
    """Rows of which only the nonzero entries are kept (CSR)."""

    sparse = True

    def __init__(self, width: int, folder: Path | None = None) -> None:
        self.width = width
        self._starts = Growable(np.int64)
        self._starts.extend(np.zeros(1, np.int64))
        self._columns = Growable(np.int32, folder=folder)
        self._values = Growable(np.float32, folder=folder)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._starts.nbytes + self._columns.nbytes + self._values.nbytes

    @property
    def row_bound(self) -> int:
        """The bytes of a full row."""
        return 8 * self.width + 8

    def bytes_of(self, nodes: PositionArray) -> int:
        """Count the bytes of these rows."""
        starts = self._starts.rows
        return int((starts[nodes + 1] - starts[nodes]).sum()) * 8 + 8 * len(nodes)

    def make_room(self, rows: Rows) -> None:
        """Reserve what these rows need."""
        assert not isinstance(rows, np.ndarray)
        for part in (self._columns, self._values):
            part.reserve(len(part) + rows.nnz)

    def append(self, rows: Rows) -> None:
        """Add checked rows at the end."""
        assert not isinstance(rows, np.ndarray)
        self._starts.extend(rows.indptr[1:].astype(np.int64) + self._starts.rows[-1])
        self._columns.extend(rows.indices)
        self._values.extend(rows.data)

    def take(self, nodes: PositionArray) -> Rows:
        """Copy rows."""
        parts = gathered(self._starts.rows, self._columns.rows, self._values.rows, nodes)
        return csr_array(parts, shape=(len(nodes), self.width), copy=False)

    def aggregate(self, nodes: PositionArray, block: Block) -> FloatArray:
        """Sum neighbours' rows into dense ones."""
        table = (self._starts.rows, self._columns.rows, self._values.rows, self.width)
        return sparse_rows(*table, nodes, block.indptr, block.indices, block.edge, block.own, block.rows)

    def chosen(self, nodes: PositionArray) -> SparseRows:
        """Give some rows, in place, for products."""
        return SparseRows(self._starts.rows, self._columns.rows, self._values.rows, nodes, self.width)

    def let_go(self) -> None:
        """Let what lies in a file leave memory."""
        self._columns.let_go()
        self._values.let_go()


def make_table(width: int, sparse: bool, folder: Path | None = None) -> Table:
    """Make an empty table, in memory or in files in a folder."""
    return SparseTable(width, folder) if sparse else DenseTable(width, folder)


def table_of(rows: Rows) -> Table:
    """Make a table of these rows."""
    table = make_table(rows.shape[1], issparse(rows))
    table.append(rows)
    return table


def checked_rows(rows: object, count: int, width: int | None, sparse: bool | None) -> Rows:
    """Bring rows to float32 (dense, or CSR), or say by name what is wrong with them."""
    if issparse(rows):
        given = _checked_sparse(rows)
        values = given.data
    else:
        given = values = numbers(rows, "features", np.float32)
    if given.ndim != 2 or given.shape[0] != count:
        raise WrongWidthError(f"features of shape {given.shape} given for {count} nodes")
    if given.shape[1] == 0:
        raise WrongWidthError("features need at least one column")
    if width is not None and given.shape[1] != width:
        raise WrongWidthError(f"features of width {given.shape[1]} given, the graph's have width {width}")
    if not np.isfinite(values).all():
        bad = np.unique(np.nonzero(~np.isfinite(dense(given)))[0])
        raise NotFiniteError(f"features of rows {bad[:5].tolist()} contain NaN or infinity")
    if sparse is None or sparse == issparse(given):
        return given
    return csr_array(given) if sparse else dense(given)


def _checked_sparse(rows: Any) -> Rows:
    """Bring rows to CSR with each entry given once, or say what is wrong with them."""
    if np.iscomplexobj(rows.data):
        raise NotANumberError("features are real numbers, not complex ones")
    given: Rows = csr_array(rows, dtype=np.float32)
    try:
        given.check_format(full_check=True)
    except ValueError as error:
        raise WrongWidthError(f"the sparse features are no CSR matrix of shape {given.shape}: {error}") from error
    if not given.has_canonical_format:
        given = given.copy()
        given.sum_duplicates()
    return given


def numbers(given: object, what: str, dtype: DTypeLike = np.float64) -> AnyArray:
    """Read real numbers, or say that these are none."""
    try:
        array = np.asarray(given)
        if np.iscomplexobj(array):
            raise TypeError("complex numbers")
        return np.asarray(array, dtype=dtype, order="C")
    except (TypeError, ValueError) as error:
        raise NotANumberError(f"{what} must be an array of real numbers: {error}") from error


def integers(given: ArrayLike) -> IntArray | None:
    """Read an array of integers; None if it is none (an empty one has any type)."""
    try:
        array = np.asarray(given)
    except ValueError:  # ragged
        return None
    if array.size and not np.issubdtype(array.dtype, np.integer):
        return None
    return np.asarray(array, np.int64, order="C")


def dense(rows: Rows) -> FloatArray:
    """Write rows out in full."""
    return rows if isinstance(rows, np.ndarray) else rows.toarray().astype(np.float32)
