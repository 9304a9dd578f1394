import numpy as np
import torch
from torch import nn

from ocgl.graph import Graph
from ocgl.nn import GCN
from ocgl.strategies import Learner
from ocgl.strategies.bare import Bare
from ocgl.streams import class_stream
from ocgl.testing import batches
from tests.nn.test_models import slow


def test_equals_a_hand_written_adam_loop(graph: Graph) -> None:
    """Three batches of a task, two passes each, with torch's Adam on the slow model."""
    bare = Bare(lr=0.01, passes=2, hidden=7, fanout=3, seed=1)
    reference: GCN | None = None
    for number, batch in enumerate(batches(Learner(bare), class_stream(graph, batch_size=10))):
        if number == 3:
            break
        if reference is None:
            bare.build(5)
            bare.trainer.add_outputs(np.array([0, 1]))
            reference = GCN(5, 2, 7, np.random.default_rng(0))
            reference.head.grow([0, 1], np.random.default_rng(0))
            reference.load_state_dict(bare.model.state_dict())
            adam = torch.optim.Adam(reference.parameters(), lr=0.01)
        bare.learn(batch)
        for _ in range(2):
            adam.zero_grad()
            loss = nn.functional.cross_entropy(slow(reference, batch.neighborhood), torch.from_numpy(batch.labels))
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
    assert reference is not None
    for ours, theirs in zip(bare.model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=2e-4)


def test_ablations_change_the_model(graph: Graph) -> None:
    for layers, hidden in ((1, 4), (2, 8), (3, 6)):
        bare = Bare(layers=layers, hidden=hidden)
        assert bare.sampling.hops == layers
        for batch in batches(Learner(bare), class_stream(graph)):
            bare.learn(batch)
        assert tuple(bare.head.weight.shape) == (6, 5 if layers == 1 else hidden)  # type: ignore[attr-defined]
        assert len(list(bare.model.parameters())) == layers


def test_divergence_is_counted(graph: Graph) -> None:
    bare = Bare(lr=1e30, passes=3)
    for batch in batches(Learner(bare), class_stream(graph)):
        bare.learn(batch)
    assert bare.nonfinite_losses > 0
