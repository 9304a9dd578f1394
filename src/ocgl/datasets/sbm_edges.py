"""Edges of a degree-corrected stochastic block model, with an exact number of distinct edges.

The stub array contains each node as often as its weight, which follows a power law. The stubs of a class are
contiguous, so one random integer draws an end of a given class, or of any other class.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ocgl.errors import ConfigError
from ocgl.types import IntArray, PositionArray

EXPONENT = 1.5
HEAVIEST = 100.0
ROUNDS = 100


@dataclass(frozen=True)
class _Stubs:
    """The stub array.

    Args:
        nodes: number of nodes.
        node: node of each stub.
        of_class: class of each stub.
        start: first stub of each class.
        size: number of stubs of each class.
    """

    nodes: int
    node: PositionArray
    of_class: PositionArray
    start: IntArray
    size: IntArray


def draw_edges(y: IntArray, count: int, homophily: float, source: np.random.Generator) -> PositionArray:
    """Return exactly `count` distinct undirected edges without self-loops, of shape [2, count].

    Args:
        y: class of each node.
        count: number of edges.
        homophily: fraction of edges within a class.
        source: generator of all draws.
    """
    stubs = _stubs(y, source)
    nodes, within = len(y), round(count * homophily)
    same = _distinct(within, nodes, lambda n: _draw(stubs, n, True, source), source)
    other = _distinct(count - within, nodes, lambda n: _draw(stubs, n, False, source), source)
    keys = np.concatenate([same, other])
    del same, other
    edges = np.empty((2, count), np.int32)
    np.floor_divide(keys, nodes, out=edges[0], casting="unsafe")
    np.remainder(keys, nodes, out=edges[1], casting="unsafe")
    return edges


def _stubs(y: IntArray, source: np.random.Generator) -> _Stubs:
    order = np.argsort(y, kind="stable").astype(np.int32)
    weight = np.minimum((1 - source.random(len(y))) ** (-1 / EXPONENT), HEAVIEST).astype(np.int64)
    node = np.repeat(order, weight)
    of_class = y[node].astype(np.int32)
    size = np.bincount(of_class, minlength=int(y.max()) + 1)
    return _Stubs(len(y), node, of_class, np.cumsum(size) - size, size)


def _draw(stubs: _Stubs, count: int, same: bool, source: np.random.Generator) -> IntArray:
    """Draw `count` edges and return those that are not self-loops, as low * nodes + high."""
    first = source.integers(len(stubs.node), size=count)
    label = stubs.of_class[first]
    start, size = stubs.start[label], stubs.size[label]
    if same:
        second = start + source.integers(size)
    else:
        second = source.integers(len(stubs.node) - size)
        second += np.where(second >= start, size, 0)
    one, two = stubs.node[first], stubs.node[second]
    low, high = np.minimum(one, two)[one != two], np.maximum(one, two)[one != two]
    return _key(low, high, stubs.nodes)


def _key(low: PositionArray, high: PositionArray, nodes: int) -> IntArray:
    keys = low.astype(np.int64)
    keys *= nodes
    keys += high
    return keys


def _distinct(count: int, nodes: int, draw: Callable[[int], IntArray], source: np.random.Generator) -> IntArray:
    """Draw edge keys until `count` of them are distinct; drop surplus ones at random."""
    keys = np.empty(0, np.int64)
    for _ in range(ROUNDS):
        if len(keys) >= count:
            return _dropped(keys, len(keys) - count, source)
        lacking = count - len(keys)
        keys = _merged(keys, draw(lacking + lacking // 8 + 16))
    raise ConfigError(f"sbm: {count} edges do not fit {nodes} nodes at this homophily; set fewer edges")


def _merged(keys: IntArray, new: IntArray) -> IntArray:
    new.sort()
    both = np.concatenate([keys, new])
    # the stable sort merges two sorted runs in one pass
    both.sort(kind="stable")
    return both[np.concatenate(([True], both[1:] != both[:-1]))] if len(both) else both


def _dropped(keys: IntArray, surplus: int, source: np.random.Generator) -> IntArray:
    selected = np.ones(len(keys), np.bool_)
    selected[source.choice(len(keys), surplus, replace=False, shuffle=False)] = False
    return keys[selected]
