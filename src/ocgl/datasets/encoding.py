"""Turns columns of a table into features: numbers are scaled, categories become columns of their own.

What scaling and categories are is learned from the first part of the stream only, so that nothing of the future enters
the features of the past.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from ocgl.errors import DatasetError
from ocgl.types import AnyArray, DoubleArray, FloatArray

MOST_CATEGORIES = 50
"""Most categories of a column that get a feature of their own; the most frequent ones do."""


@dataclass(frozen=True)
class Column:
    """How one column is encoded.

    Args:
        name: name of the column.
        mean: mean of a column of numbers, over the first part.
        scale: its standard deviation, 1 if it does not vary.
        categories: categories of a column of text; the features are one for each, and one for any other.
    """

    name: str
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] | None = None

    def encode(self, values: AnyArray) -> FloatArray:
        """Return the features of a column, of shape [num_rows, num_features]."""
        if self.categories is None:
            numbers = as_numbers(values, self.name)
            found = np.where(np.isnan(numbers), 0.0, (numbers - self.mean) / self.scale)
            return found[:, None].astype(np.float32)
        place = {category: number for number, category in enumerate(self.categories)}
        codes = [place.get(text, len(place)) for text in as_texts(values)]
        return np.eye(len(place) + 1, dtype=np.float32)[codes]


class FeatureEncoder:
    """Encodes the columns of a table as features. It is fitted once, on the first part of the data.

    A missing number becomes the mean; a missing or new category becomes "other".

    >>> import numpy as np
    >>> table = {"amount": np.array([1.0, 3.0, 100.0]), "country": np.array(["it", "ch", "fr"])}
    >>> encoder = FeatureEncoder.fit(table, rows=slice(0, 2))
    >>> encoder.transform(table).tolist()
    [[-1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [98.0, 0.0, 0.0, 1.0]]
    """

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self.columns = columns

    @classmethod
    def fit(cls, table: Any, columns: "list[str] | None" = None, rows: Any = slice(None)) -> "FeatureEncoder":
        """Learn means, scales and categories from some rows of a table.

        Args:
            table: a data frame of pandas or polars, or a mapping of names to columns.
            columns: columns to use; all if not given.
            rows: the rows to learn from, as an index or a mask.
        """
        chosen = names_of(table) if columns is None else list(columns)
        if not chosen:
            raise DatasetError("there is no column to make features of")
        return cls(tuple(_fitted(name, column_of(table, name)[rows]) for name in chosen))

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(1 if column.categories is None else len(column.categories) + 1 for column in self.columns)

    def transform(self, table: Any) -> FloatArray:
        """Return the features of a table, of shape [num_rows, width]."""
        parts = [column.encode(column_of(table, column.name)) for column in self.columns]
        found: FloatArray = np.concatenate(parts, axis=1)
        return found

    def description(self) -> str:
        """Say in one sentence what becomes of the columns."""
        numeric = [str(column.name) for column in self.columns if column.categories is None]
        texts = [f"{c.name} ({len(c.categories)} categories)" for c in self.columns if c.categories is not None]
        parts = [f"scaled: {', '.join(numeric)}"] if numeric else []
        parts += [f"one feature per category: {', '.join(texts)}"] if texts else []
        return "; ".join(parts)


def _fitted(name: str, values: AnyArray) -> Column:
    example = next((value for value in values.tolist() if not is_missing(value)), "")
    if not isinstance(example, str | int | float | bool | np.generic):
        raise DatasetError(f"column {name!r} holds {type(example).__name__}, which is neither a number nor text")
    if values.dtype.kind == "c":
        raise DatasetError(f"column {name!r} holds complex numbers")
    if is_numeric(values):
        numbers = as_numbers(values, name)
        known = numbers[~np.isnan(numbers)]
        mean, scale = (float(known.mean()), float(known.std())) if len(known) else (0.0, 1.0)
        return Column(name, mean, scale if scale > 0 else 1.0)
    texts = [text for text in as_texts(values) if text]
    categories, counts = np.unique(np.array(texts, object).astype(str), return_counts=True)
    most = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
    return Column(name, categories=tuple(categories[most].tolist()))


def column_of(table: Any, name: str) -> AnyArray:
    """Return a column of a data frame, or of a mapping, as an array; dates become seconds since 1970."""
    names = names_of(table)
    if name not in names:
        raise DatasetError(f"the table has no column {name!r}; it has {', '.join(map(str, names))}")
    column = table[name]
    values: AnyArray = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.ndim != 1:
        raise DatasetError(f"the table has more than one column {name!r}, or it holds vectors: {values.shape}")
    return _plain(values)


def names_of(table: Any) -> list[Any]:
    """Return the names of the columns of a data frame, or of a mapping."""
    if hasattr(table, "collect") and hasattr(table, "lazy"):
        raise DatasetError("the table is lazy; call collect() on it first")
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        return list(table.columns)
    if isinstance(table, Mapping):
        return list(table)
    raise DatasetError(f"a table is a data frame of pandas or polars, not a {type(table).__name__}")


def is_missing(value: Any) -> bool:
    """Return whether a value of a table is missing: None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _plain(values: AnyArray) -> AnyArray:
    """Return Python's dates and decimal numbers as numbers; other columns as they are."""
    if values.dtype != object:
        return values
    known = [value for value in values.tolist() if not is_missing(value)]
    if known and all(isinstance(value, date) for value in known):
        return np.array([np.nan if is_missing(value) else _seconds(value) for value in values.tolist()])
    if known and all(isinstance(value, Decimal) for value in known):
        return np.array([np.nan if is_missing(value) else float(value) for value in values.tolist()])
    return values


def _seconds(moment: date) -> float:
    """Return seconds since 1970; a date without a time zone counts as UTC."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, datetime.min.time())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()


def is_numeric(values: AnyArray) -> bool:
    """Return whether a column holds numbers, truth values, or times."""
    if values.dtype.kind in "iufbmM":
        return True
    if values.dtype.kind != "O":
        return False
    known = [value for value in values.tolist() if not is_missing(value)]
    return bool(known) and all(isinstance(value, int | float | np.number | np.bool_) for value in known)


def as_numbers(values: AnyArray, name: str) -> DoubleArray:
    """Return a column as numbers; times are seconds since 1970, and what is missing is NaN."""
    if values.dtype.kind in "mM":
        unit, count = np.datetime_data(values.dtype)
        if unit in ("Y", "M"):
            values, unit, count = values.astype("datetime64[D]"), "D", 1
        seconds = values.astype(np.int64) * (count * _UNITS[unit])
        found: DoubleArray = np.where(np.isnat(values), np.nan, seconds)
        return found
    try:
        listed = [np.nan if is_missing(v) else v for v in values.tolist()] if values.dtype == object else values
        return np.asarray(listed, np.float64)
    except (TypeError, ValueError) as error:
        raise DatasetError(f"column {name!r} must hold numbers or times: {error}") from error


_UNITS = {"W": 604800.0, "D": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds of the units of numpy's times."""


def as_texts(values: AnyArray) -> list[str]:
    """Return a column as text; what is missing is empty."""
    return ["" if is_missing(value) else str(value) for value in values.tolist()]
