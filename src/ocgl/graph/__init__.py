"""The growing graph: store, bounded looks, and what a batch may see."""

from ocgl.graph.aggregation import Block
from ocgl.graph.events import UNKNOWN, Arrival, Batch, Labels
from ocgl.graph.look import Cost, Look
from ocgl.graph.neighborhood import Neighborhood, from_arrays, isolated
from ocgl.graph.standing import Standing, can_stand
from ocgl.graph.static import Graph
from ocgl.graph.store import Store

__all__ = [
    "UNKNOWN",
    "Arrival",
    "Batch",
    "Block",
    "Cost",
    "Graph",
    "Labels",
    "Look",
    "Neighborhood",
    "Standing",
    "Store",
    "can_stand",
    "from_arrays",
    "isolated",
]
