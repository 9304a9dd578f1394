"""What replay remembers."""

from ocgl.buffers.reservoir import Reservoir
from ocgl.buffers.subgraphs import SubgraphBuffer
from ocgl.buffers.vectors import VectorBuffer

__all__ = ["Reservoir", "SubgraphBuffer", "VectorBuffer"]
