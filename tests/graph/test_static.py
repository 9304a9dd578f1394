from typing import Any

import numpy as np
import pytest

from ocgl.errors import GraphError, NotFiniteError
from ocgl.graph import Graph

EDGES = np.array([[0, 1], [1, 2]])
Y = np.array([0, 1, 0])


def made(**columns: Any) -> Graph:
    return Graph.from_edges("g", **({"edge_index": EDGES, "y": Y} | columns))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_times_must_be_finite(bad: float) -> None:
    with pytest.raises(NotFiniteError, match=r"time of rows \[1\]"):
        made(time=np.array([0.0, bad, 2.0]))


@pytest.mark.parametrize("bad", [0.5, np.nan, np.inf, 1e300])
def test_domains_must_be_whole(bad: float) -> None:
    with pytest.raises(GraphError, match="domain must be whole numbers"):
        made(domain=np.array([0.0, bad, 1.0]))


@pytest.mark.parametrize("column", ["time", "domain", "x"])
@pytest.mark.parametrize("values", [np.array([1j, 0, 0]), np.array(["a", "b", "c"])])
def test_columns_must_be_real_numbers(column: str, values: Any) -> None:
    with pytest.raises(GraphError, match="real numbers"):
        made(**{column: values[:, None] if column == "x" else values})


def test_labels_beyond_int64_are_refused() -> None:
    with pytest.raises(GraphError, match="y must be whole numbers"):
        made(y=np.array([0, 1, 2**64 - 1], np.uint64))


def test_whole_floats_and_lists_are_taken() -> None:
    graph = made(edge_index=EDGES.tolist(), y=Y.tolist(), time=[2, 1, 0], domain=np.array([1.0, 0.0, 1.0]))
    assert graph.time is not None and graph.time.dtype == np.float64
    assert graph.domain is not None and graph.domain.dtype == np.int64 and graph.domain.tolist() == [1, 0, 1]
    assert made(time=np.arange(3)).content_hash == made(time=np.arange(3.0)).content_hash


def test_labels_are_a_copy() -> None:
    y = Y.copy()
    graph = made(y=y)
    y[0] = 5
    assert graph.y[0] == 0
