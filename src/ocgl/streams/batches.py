"""A stream as batches of torch_geometric, for a training loop of one's own."""

from collections.abc import Iterator
from typing import Any

from numpy.typing import ArrayLike

from ocgl.graph import GraphStore, NeighborSampling
from ocgl.graph.neighborhood import checked_device
from ocgl.rng import generator, key
from ocgl.streams.stream import Step, Stream


class Batches:
    """Lets the nodes of a stream arrive and yields each step with its batch, sampled as `ocgl.Learner` does.

    A batch is a `torch_geometric.data.Data` (see `Neighborhood.to_pyg`) with `y`, the labels of its seeds; no other
    label can be reached from it. It is None in a step that brings no labels. Iterating again begins with an empty
    graph.

    Args:
        stream: the stream.
        sampling: hops, fan-outs and weights of the neighbourhoods.
        seed: seed of the samples.
        device: where to move batches; the CPU if None.
    """

    def __init__(self, stream: Stream, sampling: NeighborSampling, seed: int = 0, device: str | None = None) -> None:
        self.stream, self.sampling = stream, sampling
        self.device = None if device is None else checked_device(device)
        self.store = GraphStore()
        self._seed = seed
        self._query_key = key(generator(seed, "evaluation"))

    def __len__(self) -> int:
        return len(self.stream)

    def __iter__(self) -> Iterator[tuple[Step, Any]]:
        import torch

        self.store = GraphStore()
        rng = generator(self._seed, "neighbors")
        for step in self.stream:
            step.apply(self.store)
            labels = step.labels
            if labels is None:
                yield step, None
                continue
            batch = self.store.sample(labels.ids, self.sampling, key(rng)).to_pyg(self.device)
            batch.y = torch.from_numpy(labels.labels.copy()).to(batch.x.device)
            yield step, batch

    def sample(self, ids: ArrayLike) -> Any:
        """Return the neighbourhood of distinct nodes that have arrived, to predict for them.

        It depends on the nodes and their degrees alone, and sampling it changes nothing.
        """
        return self.store.sample(ids, self.sampling, self._query_key).to_pyg(self.device)


def batches(stream: Stream, sampling: NeighborSampling, seed: int = 0, device: str | None = None) -> Batches:
    """Return the steps of a stream with their batches as torch_geometric objects, for a training loop of one's own.

    Args:
        stream: the stream.
        sampling: hops, fan-outs and weights of the neighbourhoods.
        seed: seed of the samples.
        device: where to move batches; the CPU if None.

    >>> import ocgl
    >>> loop = batches(ocgl.class_stream(ocgl.load_dataset("digits")), NeighborSampling(hops=2, fanout=10))
    >>> step, batch = next(iter(loop))
    >>> batch.batch_size == len(batch.y), batch.num_features
    (True, 64)
    """
    return Batches(stream, sampling, seed, device)
