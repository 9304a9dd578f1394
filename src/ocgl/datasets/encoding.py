"""Turns columns of a table into features: numbers are scaled, categories become columns of their own.

What scaling and categories are is learned from the first part of the stream only, so that nothing of the future enters
the features of the past.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ocgl.errors import DatasetError
from ocgl.types import AnyArray, FloatArray

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
        names = list(table.columns) if hasattr(table, "columns") else list(table)
        chosen = names if columns is None else list(columns)
        for name in chosen:
            if name not in names:
                raise DatasetError(f"the table has no column {name!r}; it has {', '.join(map(str, names))}")
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
        numeric = [column.name for column in self.columns if column.categories is None]
        texts = [f"{c.name} ({len(c.categories)} categories)" for c in self.columns if c.categories is not None]
        parts = [f"scaled: {', '.join(numeric)}"] if numeric else []
        parts += [f"one feature per category: {', '.join(texts)}"] if texts else []
        return "; ".join(parts)


def _fitted(name: str, values: AnyArray) -> Column:
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
    """Return a column of a data frame, or of a mapping, as an array."""
    try:
        column = table[name]
    except KeyError as error:
        names = list(table.columns) if hasattr(table, "columns") else list(table)
        raise DatasetError(f"the table has no column {name!r}; it has {', '.join(map(str, names))}") from error
    except Exception as error:
        if type(error).__name__ == "ColumnNotFoundError":  # polars
            raise DatasetError(f"the table has no column {name!r}; it has {', '.join(table.columns)}") from error
        raise
    return column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)


def is_numeric(values: AnyArray) -> bool:
    """Return whether a column holds numbers, truth values, or times."""
    if values.dtype.kind in "iufbmM":
        return True
    if values.dtype.kind != "O":
        return False
    known = [value for value in values.tolist() if value is not None and value == value]
    return bool(known) and all(isinstance(value, int | float | np.number) for value in known)


def as_numbers(values: AnyArray, name: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return a column as numbers; times are seconds since 1970, and what is missing is NaN."""
    if values.dtype.kind in "mM":
        seconds = values.astype(f"{'datetime' if values.dtype.kind == 'M' else 'timedelta'}64[ns]")
        return np.where(np.isnat(values), np.nan, seconds.astype(np.int64) / 1e9)
    try:
        missing = (
            [np.nan if value is None else value for value in values.tolist()] if values.dtype == object else values
        )
        return np.asarray(missing, np.float64)
    except (TypeError, ValueError) as error:
        raise DatasetError(f"column {name!r} must hold numbers or times: {error}") from error


def as_texts(values: AnyArray) -> list[str]:
    """Return a column as text; what is missing is empty."""
    return ["" if value is None or value != value else str(value) for value in values.tolist()]
