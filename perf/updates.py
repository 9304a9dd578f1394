"""Updates on the grown Amazon Computer graph against PyG's, and against the matrix products they cannot avoid."""

from dataclasses import asdict, dataclass, fields
from typing import Self

import numpy as np
import torch

from ocgl.datasets import load_dataset
from ocgl.graph import Batch, GraphStore, MeteredStore
from ocgl.strategies import GradientStrategy, Strategy, make_strategy
from ocgl.streams import class_stream
from ocgl.types import IntArray, Json
from perf.pyg_reference import PyGUpdate, subgraph
from perf.timing import Call, medians

BATCHES = 180
HEADS = ("measured", "ours", "reference", "theirs", "ratio", "wanted", "")


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, against what, and which ratio is wanted.

    Attributes:
        name: the name by which the short page finds the row; empty where it does not cite it.
    """

    what: str
    ours: float
    reference: str
    theirs: float
    wanted: float | None = None
    unit: str = "ms"
    at_most: bool = False
    name: str = ""

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs if self.at_most else self.theirs / self.ours

    @property
    def cells(self) -> tuple[str, ...]:
        """What was measured, ours, the reference, theirs, the ratio, and which was wanted."""
        wanted = "" if self.wanted is None else f"{'≤' if self.at_most else '≥'} {self.wanted:g}"
        ours, theirs = (f"{value:,.2f} {self.unit}" for value in (self.ours, self.theirs))
        return self.what, ours, self.reference, theirs, f"{self.ratio:.2f}", wanted

    @property
    def met(self) -> bool | None:
        if self.wanted is None:
            return None
        return self.ratio <= self.wanted if self.at_most else self.ratio >= self.wanted

    @property
    def record(self) -> Json:
        """Everything, for a file."""
        return asdict(self) | {"ratio": self.ratio, "met": self.met}

    @classmethod
    def from_record(cls, record: Json) -> Self:
        """Make the row that a record was written of."""
        return cls(**{field.name: record[field.name] for field in fields(cls)})


class Grown:
    """The whole graph in a store, and batches of training nodes."""

    def __init__(self) -> None:
        self.stream = class_stream(load_dataset("amazon-computer"))
        self.store = GraphStore()
        self.store.arrive(self.stream.arrival(self.stream.order))
        train = np.random.default_rng(0).permutation(self.stream.label_order)
        self.batches = np.split(train[: 10 * BATCHES], BATCHES)

    def ready(self, name: str, **settings: int) -> Strategy:
        """Make a strategy that knows all classes."""
        strategy = make_strategy(name, **settings)
        first = np.array([np.nonzero(self.stream.graph.y == label)[0][0] for label in range(10)])
        strategy.learn(self.batch(strategy, first, 0))
        return strategy

    def batch(self, strategy: Strategy, ids: IntArray, key: int) -> Batch:
        handle = MeteredStore(self.store) if strategy.needs_store else None
        return Batch(self.store.sample(ids, strategy.sampling, key), self.stream.graph.y[ids], store=handle)

    def update(self, strategy: Strategy) -> Call:
        return lambda i: strategy.learn(self.batch(strategy, self.batches[i], i))

    def pyg(self, like: Strategy, passes: int) -> Call:
        """Give PyG's update from the same parameters on the same subgraphs; sampling them is not counted."""
        assert isinstance(like, GradientStrategy)
        samples = [self.batch(like, ids, i) for i, ids in enumerate(self.batches)]
        weights = [p.detach().clone() for p in like.model.parameters()]
        reference = PyGUpdate(weights, like.lr, passes)
        ours = like.logits(samples[0].neighborhood).detach()
        with torch.no_grad():
            theirs = reference(*subgraph(samples[0].neighborhood))[: len(ours)]
        assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3 * float(ours.abs().max())), "not the same model"
        targets = [torch.from_numpy(like.head.targets(batch.labels)) for batch in samples]
        return lambda i: reference.update(samples[i].neighborhood, targets[i])

    def conversion(self) -> Call:
        """PyG's conversion of the grown graph for its neighbour sampler."""
        from torch_geometric.data import Data
        from torch_geometric.sampler.utils import to_csc

        graph = self.stream.graph
        sources = np.repeat(np.arange(graph.nodes), np.diff(graph.indptr))
        edges = torch.from_numpy(np.stack([sources, graph.indices.astype(np.int64)]))
        order = torch.randperm(edges.shape[1], generator=torch.Generator().manual_seed(0))
        data = Data(edge_index=edges[:, order], num_nodes=graph.nodes)
        return lambda _: to_csc(data, device=torch.device("cpu"))

    def floor(self, strategy: Strategy, passes: int) -> Call:
        """The products with the weights, forward and backward, on ready inputs."""
        assert isinstance(strategy, GradientStrategy)
        first, head = (p.detach().numpy() for p in strategy.model.parameters())
        inputs = [self.store.sample(ids, strategy.sampling, i).aggregated for i, ids in enumerate(self.batches)]
        rng = np.random.default_rng(0)
        hidden, out = (rng.random((10, width), np.float32) for width in (first.shape[1], len(head)))
        grads = [rng.random((len(x), first.shape[1]), np.float32) for x in inputs]

        def products(i: int) -> None:
            for _ in range(passes):
                inputs[i] @ first
                hidden @ head.T
                out.T @ hidden
                out @ head
                inputs[i].T @ grads[i]

        return products


def measure() -> list[Row]:
    torch.set_num_threads(1)
    grown = Grown()
    once, five = grown.ready("bare"), grown.ready("bare", passes=5)
    linear = grown.ready("linear", memory_proportion=3, buffer_size=550)
    calls = {
        "bare": grown.update(once),
        "pyg": grown.pyg(once.clone(), 1),
        "floor": grown.floor(once, 1),
        "linear": grown.update(linear),
        "bare5": grown.update(five),
        "pyg5": grown.pyg(five.clone(), 5),
        "floor5": grown.floor(five, 5),
        "convert": grown.conversion(),
    }
    ms = {name: 1000 * seconds for name, seconds in medians(calls).items()}
    return [
        Row("bare, 1 pass", ms["bare"], "PyG GCNConv, same subgraph", ms["pyg"], 4, name="update"),
        Row("bare, 5 passes", ms["bare5"], "PyG GCNConv, same subgraph", ms["pyg5"], 5, name="update-5"),
        Row("bare, 1 pass", ms["bare"], "PyG with to_csc of the grown graph", ms["pyg"] + ms["convert"], 10),
        Row("linear, 1 pass", ms["linear"], "PyG GCNConv, same subgraph", ms["pyg"], 20, name="linear"),
        Row("bare, 1 pass", ms["bare"], "floor: matrix products alone", ms["floor"], at_most=True),
        Row("bare, 5 passes", ms["bare5"], "floor: matrix products alone", ms["floor5"], at_most=True),
    ]
