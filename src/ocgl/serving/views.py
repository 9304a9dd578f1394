"""Views of the graph of a service: its content as bytes, and the neighbourhood of a node that is not in it."""

import json
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ocgl.checked import canonical_json
from ocgl.graph import GraphStore, Neighborhood, NeighborSampling, from_arrays
from ocgl.graph.features import dense
from ocgl.graph.neighborhood import weigh
from ocgl.serving.checks import ids_array
from ocgl.serving.events import Id
from ocgl.types import AnyArray, PositionArray

_CHUNK = 4096


def graph_size(store: GraphStore) -> bytes:
    """Return the numbers of nodes and edges of a graph."""
    return canonical_json([store.arrived, len(store), store.edges])


def graph_bytes(store: GraphStore) -> Iterable[bytes]:
    """Return the content of a graph, some nodes at a time."""
    arrived = store.arrived
    yield graph_size(store)
    if not arrived:
        return
    gone, times = store.was_removed(np.arange(arrived)), store.all_times
    for begin in range(0, arrived, _CHUNK):
        chosen = np.arange(begin, min(begin + _CHUNK, arrived), dtype=np.int32)
        there = chosen[~gone[chosen]]
        yield json.dumps(store.ids_at(there).tolist()).encode()
        rows = _rows(store, there)
        degrees = np.array([len(row) for row in rows], np.int64)
        yield gone[chosen].tobytes() + times[there].tobytes() + degrees.tobytes()
        yield dense(store.features.take(there)).tobytes()
        for row in rows:
            yield row.tobytes()


def _rows(store: GraphStore, positions: PositionArray) -> list[PositionArray]:
    """Return the neighbours of nodes, by positions of arrival."""
    elsewhere = getattr(store, "rows_at", None)
    if elsewhere is not None:  # on Redis
        return elsewhere(positions)  # type: ignore[no-any-return]
    heads, pool = store.adjacency
    return [pool[start : start + degree] for start, degree in heads[positions].tolist()]


def time_of(store: GraphStore, position: int) -> float:
    """Return when the node at a position arrived."""
    elsewhere = getattr(store, "time_at", None)
    return float(store.all_times[position] if elsewhere is None else elsewhere(position))


def around(store: GraphStore, x: AnyArray, neighbors: list[Id], sampling: NeighborSampling, key: int) -> Neighborhood:
    """Return the sampled neighbourhood of a node that is not there."""
    caps = sampling.fanouts
    chosen = list(dict.fromkeys(neighbors)) if sampling.hops else []
    if sampling.hops and caps[0] >= 0 and len(chosen) > caps[0]:
        drawn = np.random.default_rng(key).choice(len(chosen), caps[0], replace=False)
        chosen = [chosen[place] for place in drawn.tolist()]
    if not chosen:
        sizes, indptr = np.ones(sampling.hops + 1, np.int64), np.zeros(1 + min(sampling.hops, 1), np.int64)
        indices, rows = np.empty(0, np.int32), x[None]
    else:
        inner = replace(
            sampling, hops=sampling.hops - 1, fanout=tuple(None if cap < 0 else cap for cap in caps[1:]) or 1
        )
        found = store.sample(ids_array(chosen), inner, key)
        sizes = np.array([1, *(1 + size for size in found.sizes)], np.int64)
        indptr = np.concatenate([[0, len(chosen)], len(chosen) + found.indptr[1:].astype(np.int64)])
        indices = np.concatenate([np.arange(1, 1 + len(chosen)), 1 + found.indices]).astype(np.int32)
        rows = np.concatenate([x[None], dense(found.rows())])
    edge_weight, self_weight = weigh(sampling, sizes, indptr, indices, None)
    arrays = {"x": rows, "sizes": sizes, "indptr": indptr, "indices": indices, "norm": np.array(sampling.norm)}
    return from_arrays(arrays | {"edge_weight": edge_weight, "self_weight": self_weight})
