"""The growing graph store, bounded neighbourhood sampling, and the batches built from it."""

from ocgl.graph._kernels.aggregation import Block
from ocgl.graph.aggregate_cache import AggregateCache, is_cacheable
from ocgl.graph.events import UNKNOWN, Arrival, Batch, Labels
from ocgl.graph.metered import MeteredStore
from ocgl.graph.neighbor_sampling import Cost, NeighborSampling
from ocgl.graph.neighborhood import Neighborhood, from_arrays, isolated
from ocgl.graph.static import Graph
from ocgl.graph.store import GraphStore

__all__ = [
    "UNKNOWN",
    "AggregateCache",
    "Arrival",
    "Batch",
    "Block",
    "Cost",
    "Graph",
    "GraphStore",
    "Labels",
    "MeteredStore",
    "NeighborSampling",
    "Neighborhood",
    "from_arrays",
    "is_cacheable",
    "isolated",
]
