"""Handwritten digits (UCI test set, as in scikit-learn) as a nearest-neighbour graph. Needs no download."""

from importlib import resources

import numpy as np

from ocgl.graph import Graph
from ocgl.types import AnyArray, IntArray

NEIGHBORS = 8
NOTE = "the graph joins each digit to its 8 nearest"


def load() -> Graph:
    """Return the graph of 1,797 digits of 8 x 8 pixels (0 to 16), each connected to its 8 nearest neighbours.

    >>> graph = load()
    >>> graph.nodes, graph.width, graph.classes
    (1797, 64, 10)
    """
    file = resources.files("ocgl.datasets") / "data" / "digits.npz"
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
        x, y = arrays["x"], arrays["y"]
    return Graph.from_edges("digits", nearest(x, NEIGHBORS), y, x, notes=(NOTE,))


def nearest(x: AnyArray, neighbors: int) -> IntArray:
    """Return the edges from each row to its nearest rows, of shape [2, num_edges]; ties go to the lower index.

    Args:
        x: rows of small integers.
        neighbors: number of neighbours of each row.
    """
    rows = x.astype(np.float64)
    square = (rows**2).sum(1)
    # integers far below 2^53: the distances are exact in any order of summation
    distance = (square[:, None] + square[None, :] - 2 * rows @ rows.T).astype(np.int64)
    keys = distance * len(x) + np.arange(len(x))
    np.fill_diagonal(keys, np.iinfo(np.int64).max)
    found = np.partition(keys, neighbors, axis=1)[:, :neighbors] % len(x)
    return np.stack([np.repeat(np.arange(len(x)), neighbors), np.sort(found, axis=1).ravel()])
