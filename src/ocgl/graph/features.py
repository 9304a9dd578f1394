"""Growing tables of feature rows, dense or sparse, with aggregation over neighbourhoods."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.sparse import csr_array, issparse

from ocgl.errors import NotANumberError, NotFiniteError, WrongWidthError
from ocgl.graph._kernels.aggregation import Block, dense_rows, gathered, sparse_rows
from ocgl.graph._kernels.sparse_rows import SparseRows
from ocgl.graph.growable import Growable
from ocgl.types import AnyArray, FloatArray, IntArray, PositionArray, Rows


class Table(Protocol):
    """Feature rows, indexed by position of arrival."""

    width: int
    sparse: bool

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        ...

    @property
    def row_bound(self) -> int:
        """Upper bound on the bytes of a row."""
        ...

    def bytes_of(self, nodes: PositionArray) -> int:
        """Return the number of bytes of these rows."""
        ...

    def make_room(self, rows: Rows, replacing: bool = False) -> None:
        """Reserve space for these rows, so that `append` (or `replace`) cannot fail halfway."""
        ...

    def append(self, rows: Rows) -> None:
        """Append rows returned by `checked_rows`."""
        ...

    def replace(self, nodes: PositionArray, rows: Rows) -> None:
        """Replace rows by others returned by `checked_rows`."""
        ...

    def erase(self, nodes: PositionArray) -> None:
        """Set rows to zero."""
        ...

    def take(self, nodes: PositionArray) -> Rows:
        """Return a copy of rows."""
        ...

    def aggregate(self, nodes: PositionArray, block: Block) -> FloatArray:
        """Return weighted sums of neighbours' rows; see `aggregation.dense_rows`."""
        ...

    def release_pages(self) -> None:
        """Drop file-backed pages from memory; reads load them again."""
        ...


class DenseTable:
    """Dense float32 rows.

    Args:
        width: number of features.
        folder: where to store the rows in a memory-mapped file; None for memory.
    """

    sparse = False

    def __init__(self, width: int, folder: Path | None = None) -> None:
        self.width = width
        self._rows = Growable(np.float32, width, folder)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self._rows.nbytes

    @property
    def row_bound(self) -> int:
        """Bytes of a row."""
        return 4 * self.width

    def bytes_of(self, nodes: PositionArray) -> int:
        """Return the number of bytes of these rows."""
        return len(nodes) * self.row_bound

    def make_room(self, rows: Rows, replacing: bool = False) -> None:
        """Reserve space for these rows; those that replace others need none."""
        self._rows.reserve(len(self) + (0 if replacing else rows.shape[0]))

    def append(self, rows: Rows) -> None:
        """Append rows returned by `checked_rows`."""
        self._rows.extend(rows)

    def replace(self, nodes: PositionArray, rows: Rows) -> None:
        """Replace rows by others returned by `checked_rows`."""
        self._rows.rows[nodes] = rows

    def erase(self, nodes: PositionArray) -> None:
        """Set rows to zero."""
        self._rows.rows[nodes] = 0

    def take(self, nodes: PositionArray) -> Rows:
        """Return a copy of rows."""
        rows: FloatArray = self._data[nodes]
        return rows

    def aggregate(self, nodes: PositionArray, block: Block) -> FloatArray:
        """Return weighted sums of neighbours' rows."""
        return dense_rows(
            self._data, nodes, block.indptr, block.indices, block.edge_weight, block.self_weight, block.rows
        )

    def release_pages(self) -> None:
        """Drop file-backed pages from memory; reads load them again."""
        self._rows.release_pages()

    @property
    def _data(self) -> FloatArray:
        return self._rows.rows


class FixedTable(DenseTable):
    """A read-only table over an existing array, without a copy."""

    def __init__(self, rows: FloatArray) -> None:
        super().__init__(rows.shape[1])
        self._given = rows

    def __len__(self) -> int:
        return len(self._given)

    @property
    def nbytes(self) -> int:
        """Memory of the array in bytes."""
        return self._given.nbytes

    @property
    def _data(self) -> FloatArray:
        return self._given


class SparseTable:
    """Sparse float32 rows.

    Rows lie one after the other. A row that is replaced by a longer one moves to the end, with room to grow by a half;
    its old place is not used again.

    Args:
        width: number of features.
        folder: where to store the rows in memory-mapped files; None for memory.
    """

    sparse = True

    def __init__(self, width: int, folder: Path | None = None) -> None:
        self.width = width
        self._starts = Growable(np.int64)
        self._starts.extend(np.zeros(1, np.int64))
        self._ends: Growable | None = None  # rows end where the next one starts, until one is replaced
        self._room: dict[int, int] = {}
        self._columns = Growable(np.int32, folder=folder)
        self._values = Growable(np.float32, folder=folder)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        ends = 0 if self._ends is None else self._ends.nbytes
        return self._starts.nbytes + ends + self._columns.nbytes + self._values.nbytes

    @property
    def row_bound(self) -> int:
        """Bytes of a row without zeros."""
        return 8 * self.width + 8

    def bytes_of(self, nodes: PositionArray) -> int:
        """Return the number of bytes of these rows."""
        begins, ends = self._bounds
        return int((ends[nodes] - begins[nodes]).sum()) * 8 + 8 * len(nodes)

    def make_room(self, rows: Rows, replacing: bool = False) -> None:
        """Reserve space for these rows; those that replace others may need half as much more."""
        assert not isinstance(rows, np.ndarray)
        for part in (self._columns, self._values):
            part.reserve(len(part) + rows.nnz * 3 // 2 if replacing else len(part) + rows.nnz)

    def append(self, rows: Rows) -> None:
        """Append rows returned by `checked_rows`."""
        assert not isinstance(rows, np.ndarray)
        ends = rows.indptr[1:].astype(np.int64) + len(self._columns)
        if self._ends is None:
            self._starts.extend(ends)
        else:
            self._starts.rows[-1] = len(self._columns)
            self._starts.extend(ends)
            self._ends.extend(ends)
        self._columns.extend(rows.indices)
        self._values.extend(rows.data)

    def replace(self, nodes: PositionArray, rows: Rows) -> None:
        """Replace rows by others returned by `checked_rows`."""
        assert not isinstance(rows, np.ndarray)
        if self._ends is None:
            self._ends = Growable(np.int64)
            self._ends.extend(self._starts.rows[1:])
        begins, ends = self._bounds
        for number, node in enumerate(nodes.tolist()):
            part = slice(rows.indptr[number], rows.indptr[number + 1])
            size = part.stop - part.start
            if size > self._room.get(node, ends[node] - begins[node]):
                room = size * 3 // 2
                begins[node] = len(self._columns)
                for held in (self._columns, self._values):
                    held.extend(np.zeros(room, held.dtype))
                self._room[node] = room
            else:
                self._room.setdefault(node, int(ends[node] - begins[node]))
            ends[node] = begins[node] + size
            self._columns.rows[begins[node] : ends[node]] = rows.indices[part]
            self._values.rows[begins[node] : ends[node]] = rows.data[part]

    def erase(self, nodes: PositionArray) -> None:
        """Set rows to zero."""
        begins, ends = self._bounds
        for node in nodes.tolist():
            self._values.rows[begins[node] : ends[node]] = 0
            self._columns.rows[begins[node] : ends[node]] = 0

    def take(self, nodes: PositionArray) -> Rows:
        """Return a copy of rows."""
        parts = gathered(*self._bounds, self._columns.rows, self._values.rows, nodes)
        return csr_array(parts, shape=(len(nodes), self.width), copy=False)

    def aggregate(self, nodes: PositionArray, block: Block) -> FloatArray:
        """Return weighted sums of neighbours' rows, as dense rows."""
        table = (*self._bounds, self._columns.rows, self._values.rows, self.width)
        return sparse_rows(*table, nodes, block.indptr, block.indices, block.edge_weight, block.self_weight, block.rows)

    def chosen(self, nodes: PositionArray) -> SparseRows:
        """Return selected rows for matrix products, without a copy."""
        return SparseRows(*self._bounds, self._columns.rows, self._values.rows, nodes, self.width)

    def release_pages(self) -> None:
        """Drop file-backed pages from memory; reads load them again."""
        self._columns.release_pages()
        self._values.release_pages()

    @property
    def _bounds(self) -> tuple[IntArray, IntArray]:
        """Where each row begins and ends."""
        starts = self._starts.rows
        return starts[:-1], starts[1:] if self._ends is None else self._ends.rows


def make_table(width: int, sparse: bool, folder: Path | None = None) -> Table:
    """Return an empty table, in memory or in files in a folder."""
    return SparseTable(width, folder) if sparse else DenseTable(width, folder)


def table_of(rows: Rows) -> Table:
    """Return a table that contains these rows."""
    table = make_table(rows.shape[1], issparse(rows))
    table.append(rows)
    return table


def checked_rows(rows: object, count: int, width: int | None, sparse: bool | None) -> Rows:
    """Return features as float32 rows, dense or CSR, or raise an error that states the problem.

    Args:
        rows: features, of shape [count, width].
        count: expected number of rows.
        width: expected number of columns; None for any.
        sparse: whether to return CSR; None to keep the input's format.
    """
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
        raise WrongWidthError(f"features have width {given.shape[1]}, but the graph has features of width {width}")
    if not np.isfinite(values).all():
        bad = np.unique(np.nonzero(~np.isfinite(dense(given)))[0])
        raise NotFiniteError(f"features of rows {bad[:5].tolist()} contain NaN or infinity")
    if sparse is None or sparse == issparse(given):
        return given
    return csr_array(given) if sparse else dense(given)


def _checked_sparse(rows: Any) -> Rows:
    """Return rows as CSR without duplicate entries, or raise an error that states the problem."""
    if np.iscomplexobj(rows.data):
        raise NotANumberError("features must be real numbers, not complex")
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
    """Return a value as an array of real numbers, or raise NotANumberError.

    Args:
        given: the value.
        what: its name in the error message.
        dtype: type of the result.
    """
    try:
        array = np.asarray(detached(given))
        if np.iscomplexobj(array):
            raise TypeError("complex numbers")
        return np.asarray(array, dtype=dtype, order="C")
    except (TypeError, ValueError, RuntimeError) as error:
        raise NotANumberError(f"{what} must be an array of real numbers: {error}") from error


def detached(given: Any) -> Any:
    """Return a tensor of torch without its gradient, on the CPU, and anything else as it is."""
    if not (hasattr(given, "detach") and hasattr(given, "cpu")):
        return given
    tensor = given.detach().cpu()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def integers(given: ArrayLike) -> IntArray | None:
    """Return a value as an int64 array, or None if it is not an array of integers (an empty one may have any type)."""
    try:
        array = np.asarray(detached(given))
    except (ValueError, TypeError, RuntimeError):  # ragged, or a tensor that numpy cannot read
        return None
    if array.size and not np.issubdtype(array.dtype, np.integer):
        return None
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        return None
    return np.asarray(array, np.int64, order="C")


def dense(rows: Rows) -> FloatArray:
    """Return rows as a dense matrix."""
    return rows if isinstance(rows, np.ndarray) else rows.toarray().astype(np.float32)
