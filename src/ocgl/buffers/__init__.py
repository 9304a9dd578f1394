"""What replay remembers. Every buffer holds a uniform sample of what it was offered, in a fixed number of slots."""

from ocgl.buffers.nodes import NodeBuffer
from ocgl.buffers.reservoir import Reservoir
from ocgl.buffers.revisits import RevisitBuffer
from ocgl.buffers.subgraphs import SubgraphBuffer
from ocgl.buffers.vectors import VectorBuffer

__all__ = ["NodeBuffer", "Reservoir", "RevisitBuffer", "SubgraphBuffer", "VectorBuffer"]
