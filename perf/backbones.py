"""Updates of the shipped networks through our trainer against the same layers in a loop by hand, and `to_pyg`."""

import numpy as np
import torch
from torch import Tensor, nn

from ocgl.graph import Batch
from ocgl.nn import GraphNetwork
from ocgl.nn.backbones import NAMES
from ocgl.strategies import GradientStrategy
from ocgl.strategies._core.backbones import title_of_backbone
from perf.timing import Call, medians
from perf.updates import Grown, Row


class ByHand:
    """The loop as one writes it: the same PyG layers and a linear head, autograd, fused Adam."""

    def __init__(self, like: GradientStrategy) -> None:
        model = like.clone().model
        assert isinstance(model, GraphNetwork)
        self.layers, self.head = model.layers, nn.Linear(like.hidden, len(like.labels))
        with torch.no_grad():
            for own, theirs in zip(self.head.parameters(), model.head.parameters(), strict=True):  # type: ignore[union-attr]
                own.copy_(theirs)
        self.takes_hops = model._takes_hops
        parameters = [*self.layers.parameters(), *self.head.parameters()]
        self.adam = torch.optim.Adam(parameters, lr=like.lr, fused=True)

    def logits(self, batch: Batch) -> Tensor:
        neighborhood = batch.neighborhood
        rows = neighborhood.rows()
        assert isinstance(rows, np.ndarray)
        receivers = np.repeat(np.arange(len(neighborhood.indptr) - 1), np.diff(neighborhood.indptr))
        edges = torch.from_numpy(np.stack([neighborhood.indices.astype(np.int64), receivers]))
        hops = neighborhood.per_hop if self.takes_hops else ()
        hidden = self.layers(torch.from_numpy(rows), edges, *hops)[: neighborhood.seeds]
        logits: Tensor = self.head(hidden)
        return logits

    def update(self, batch: Batch, targets: Tensor) -> None:
        self.adam.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(self.logits(batch), targets).backward()  # type: ignore[no-untyped-call]
        self.adam.step()


def pair(grown: Grown, name: str) -> tuple[Call, Call]:
    """Return our update and the one by hand, from the same parameters, each on neighbourhoods sampled beforehand."""
    ours = grown.ready("bare", backbone=name)  # type: ignore[arg-type]
    assert isinstance(ours, GradientStrategy)
    hand = ByHand(ours)
    given = [[grown.batch(ours, ids, i) for i, ids in enumerate(grown.batches)] for _ in range(2)]
    with torch.no_grad():
        same = torch.allclose(ours.logits(given[0][0].neighborhood), hand.logits(given[0][0]), rtol=1e-4, atol=1e-4)
    assert same, "not the same model"
    targets = [torch.from_numpy(ours.head.targets(batch.labels)) for batch in given[1]]
    return lambda i: ours.learn(given[0][i]), lambda i: hand.update(given[1][i], targets[i])


def measure() -> list[Row]:
    torch.set_num_threads(1)
    grown = Grown()
    rows = []
    for name in NAMES:
        ours, hand = pair(grown, name)
        ms = {key: 1000 * seconds for key, seconds in medians({"ours": ours, "hand": hand}).items()}
        what = f"bare with {title_of_backbone(name)}, 1 pass"
        rows.append(Row(what, ms["ours"], "the same PyG layers by hand, same subgraph", ms["hand"], 1.15, at_most=True))
    sampling = grown.ready("bare").sampling
    sampled = [grown.store.sample(ids, sampling, i) for i, ids in enumerate(grown.batches)]
    calls: dict[str, Call] = {"to_pyg": lambda i: sampled[i].to_pyg(), "copy": lambda i: sampled[i].rows()}
    ms = {key: 1000 * seconds for key, seconds in medians(calls).items()}
    rows.append(Row("to_pyg, 767 features", ms["to_pyg"], "copy of its feature rows", ms["copy"], 1.6, at_most=True))
    return rows


if __name__ == "__main__":
    for row in measure():
        print(*row.cells, row.met)
