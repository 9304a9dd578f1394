"""The options in which readings of the paper differ, each by hand on a tiny graph."""

from typing import Any

import numpy as np
import pytest
import torch

from ocgl.buffers.reservoir import Reservoir
from ocgl.buffers.subgraphs import examples
from ocgl.errors import ConfigError, NeedsStoreError
from ocgl.graph import Batch, Cost, Graph, GraphStore, Neighborhood
from ocgl.nn import GrowingHead, softmax_gradient
from ocgl.strategies import ER, MAS, PDGNN, SSMER, Learner, Linear, LwF, Strategy, make_strategy
from ocgl.strategies._core.gradient import GradientStrategy
from ocgl.strategies.pdgnn import by_block_degrees
from ocgl.streams import class_stream
from ocgl.testing import batches


def path_store(nodes: int = 4, width: int = 2) -> GraphStore:
    """Nodes 0 - 1 - 2 - ..., node i with the features (i + 1, -i)."""
    store = GraphStore()
    x = np.array([[i + 1.0, -float(i)] for i in range(nodes)])[:, :width]
    store.add(np.arange(nodes), x, np.array([np.arange(nodes - 1), np.arange(1, nodes)]))
    return store


def learned(strategy: Strategy, graph: Graph, steps: int = 7) -> tuple[Learner, list[Batch]]:
    """Teach the first batches of a stream of one class after the other; return the learner and the next batches."""
    learner = Learner(strategy)
    given: list[Batch] = []
    for step, batch in enumerate(batches(learner, class_stream(graph, batch_size=5, classes_per_task=1))):
        given.append(batch)
        if step < steps:
            strategy.learn(batch)
    return learner, given[steps:]


# S1: the loss of replay is a sum of two means


@pytest.mark.parametrize("kind", [ER, SSMER])
def test_the_gradient_of_replay_is_the_sum_of_two_means(graph: Graph, kind: Any) -> None:
    strategy = kind(memory_proportion=2, hidden=4, buffer_size=120, seed=1)
    _, (batch, *_) = learned(strategy, graph)
    now = strategy.examples(batch)
    memories = strategy.memories(strategy.buffer.draw_nodes(10))
    assert len(memories) == 1 and memories[0].labelled == min(10, len(strategy.buffer)) > now.labelled
    together = strategy.gradients(strategy.replayed("sum_of_means", now, *memories))
    first, second = (strategy.gradients(strategy.cross_entropy(group)) for group in (now, *memories))
    one = strategy.gradients(strategy.replayed("one_mean", now, *memories))
    share = now.labelled / (now.labelled + memories[0].labelled)
    for both, by_batch, by_memory, by_one in zip(together, first, second, one, strict=True):
        torch.testing.assert_close(both, by_batch + by_memory)
        torch.testing.assert_close(by_one, share * by_batch + (1 - share) * by_memory)


def test_the_closed_gradient_of_linear_is_the_sum_of_two_means() -> None:
    rng = np.random.default_rng(0)
    z, weight, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((7, 3), (4, 3), (4,)))
    targets = np.array([0, 1, -100, 2, 3, 3, 1])  # the third node of the batch has no label
    both = softmax_gradient(z, weight, bias, targets, batch=3)
    parts = [softmax_gradient(z[part], weight, bias, targets[part]) for part in (slice(0, 3), slice(3, 7))]
    for got, first, second in zip(both, *parts, strict=True):
        np.testing.assert_allclose(got, first + second, rtol=1e-5, atol=1e-6)
    alone = softmax_gradient(z[:3], weight, bias, targets[:3], batch=3)  # nothing remembered yet
    np.testing.assert_array_equal(alone[0], parts[0][0])


@pytest.mark.parametrize("kind", [Linear, PDGNN])
def test_the_gradient_of_feature_replay_is_the_sum_of_two_means(graph: Graph, kind: Any) -> None:
    strategy = kind(memory_proportion=3, buffer_size=20, seed=1)
    _, (batch, *_) = learned(strategy, graph)
    z, labels = strategy.features(batch.neighborhood), batch.labels
    kept, nothing = strategy.buffer.draw(12), strategy.buffer.draw(0)

    def gradient(rows: Any, given: Any, memories: tuple[Any, Any]) -> torch.Tensor:
        """Return the gradient that one step follows."""
        followed: list[torch.Tensor] = []
        strategy.buffer.draw = lambda _: memories
        strategy.trainer.apply = lambda gradients: followed.extend(gradients)
        strategy.trainer.descend = lambda loss: followed.extend(strategy.trainer.gradients(loss))
        strategy.step(rows, strategy.head.targets(given), None)
        return torch.cat([part.flatten() for part in followed])

    assert len(kept[1]) == 12 != len(labels)
    both = gradient(z, labels, kept)
    torch.testing.assert_close(both, gradient(z, labels, nothing) + gradient(kept[0], kept[1], nothing))
    strategy.replay_loss = "one_mean"
    assert not torch.allclose(both, gradient(z, labels, kept))


# S3: LwF distils the classes that the batch lacks


def test_distillation_reaches_no_output_of_a_class_of_the_batch(graph: Graph) -> None:
    strategy = LwF(lambda_dist=3.0, temperature=50.0, update_every=2, hidden=4, passes=2, seed=1)
    _, (batch, *_) = learned(strategy, graph, steps=8)
    now = strategy.examples(batch)
    strategy.before_batch(now)
    assert strategy._taught is not None
    q, columns = strategy._taught
    logits = strategy.teacher.logits(now.neighborhood)
    assert logits is not None
    given = logits.shape[1]
    present = sorted(set(now.targets.tolist()))
    assert columns.tolist() == [c for c in range(given) if c not in present] and 0 < len(columns) < given
    torch.testing.assert_close(q.sum(1), torch.ones(len(q)))
    strategy.teacher.fresh = False
    strategy.head.weight.data *= 1.5  # type: ignore[attr-defined]  # the student has moved since the copy was taken
    distilled = strategy.loss(now) - strategy.cross_entropy(now)
    by_head = strategy.gradients(distilled)[[n for n, _ in strategy.model.named_parameters()].index("head.weight")]
    assert torch.allclose(by_head[present], torch.zeros(()), atol=1e-6)
    assert (by_head[columns].abs().sum(1) > 1e-4).any()


def test_nothing_is_distilled_where_the_batch_has_all_classes() -> None:
    store, strategy = path_store(), LwF(update_every=1, hidden=4, passes=2)
    learner = Learner(strategy, store=store)
    for _ in range(2):
        strategy.learn(Batch(store.sample([0, 1], strategy.sampling, 0), np.array([0, 1])))
    now = strategy.examples(Batch(store.sample([0, 1], learner.strategy.sampling, 0), np.array([0, 1])))
    strategy.before_batch(now)
    assert strategy._taught is None
    torch.testing.assert_close(strategy.loss(now), strategy.cross_entropy(now))


def test_kaiming_weights_have_variance_two_by_inputs() -> None:
    strategy = LwF(hidden=200, seed=3)
    strategy.build(400)
    head = strategy.head
    head.grow(list(range(300)), np.random.default_rng(0))
    (inner,) = strategy.model.inner  # type: ignore[misc]
    assert float(inner.detach().var()) == pytest.approx(2 / 400, rel=0.02)
    assert float(head.weight.detach().var()) == pytest.approx(2 / 200, rel=0.02)  # type: ignore[attr-defined]
    plain = GrowingHead(200, bias=False)
    plain.grow([0, 1], np.random.default_rng(0))
    assert float(plain.weight.detach().abs().max()) <= np.sqrt(6 / 202)


# S4: SSM cuts its subgraphs out of the batch's sample


def sampled_edges(neighborhood: Neighborhood) -> set[tuple[int, int]]:
    """Return (receiver, sender) of every sampled edge, by position in the store."""
    receivers = np.repeat(np.arange(len(neighborhood.indptr) - 1), np.diff(neighborhood.indptr))
    return set(
        zip(neighborhood.nodes[receivers].tolist(), neighborhood.nodes[neighborhood.indices].tolist(), strict=True)
    )


@pytest.mark.parametrize("budget", [(2, 3), (5, 5), (0, 0)])
def test_stored_nodes_and_edges_are_a_subset_of_the_sample(graph: Graph, budget: tuple[int, int]) -> None:
    strategy = SSMER(neighbors_budget=budget, buffer_size=10_000, fanout=4, hidden=4)
    assert not strategy.needs_store and strategy.extra_bound(5, 20) == Cost()
    learner = Learner(strategy)
    slot = 0
    for batch in batches(learner, class_stream(graph, batch_size=5)):
        strategy.learn(batch)
        edges, rows = sampled_edges(batch.neighborhood), batch.neighborhood.rows()
        for _ in range(int(batch.known.sum())):
            size = int((strategy.buffer._ring[slot] >= 0).sum())
            kept = strategy.buffer._rows[slot, :size]
            where = [np.nonzero((rows == row).all(1))[0] for row in kept]
            assert size <= 1 + sum(budget) and all(len(at) == 1 for at in where)
            positions = [int(batch.neighborhood.nodes[at[0]]) for at in where]
            joined = np.argwhere(strategy.buffer._joined[slot])
            assert {(positions[i], positions[j]) for i, j in joined} <= edges
            near = strategy.buffer._ring[slot, :size] == 1
            drawn = sum(receiver == positions[0] for receiver, _ in edges)
            assert near.sum() >= min(budget[0], drawn)
            slot += 1
    assert len(strategy.buffer) == slot


def test_the_number_of_stored_subgraphs_is_as_stated(graph: Graph) -> None:
    assert examples(40, (5, 5), "on_top") == 4 and examples(40, (5, 5), "counted") == 3
    assert examples(40, (0, 0), "on_top") == 40 == examples(40, (0, 0), "counted")
    strategy = SSMER(neighbors_budget=(5, 5), buffer_size=40, hidden=4)
    learned(strategy, graph)
    assert len(strategy.buffer) == 4 and strategy.memory_nodes <= 40 * (1 + 1 / 10)


# S5: a new sample for every pass


class Counted(ER):
    """Notes the neighbourhood of every pass."""

    name = "counted"

    def step(self, examples: Any) -> None:
        self.__dict__.setdefault("noted", []).append(examples.neighborhood)
        super().step(examples)


def test_every_pass_has_its_own_sample_and_each_counts(graph: Graph) -> None:
    strategy = Counted(passes=3, resample_passes=True, fanout=2, hidden=4)
    learner, (batch, *_) = learned(strategy, graph)
    noted: list[Neighborhood] = strategy.__dict__["noted"][-3:]
    assert strategy.needs_store and len({id(neighborhood) for neighborhood in noted}) == 3
    assert len({neighborhood.nodes.tobytes() for neighborhood in noted}) > 1
    for neighborhood in noted:
        np.testing.assert_array_equal(neighborhood.nodes[: noted[0].seeds], noted[0].nodes[: noted[0].seeds])
    strategy.learn(batch)
    assert batch.extra_cost.nodes > 0
    row = learner.store.features.row_bound
    assert batch.cost.within(strategy.update_bound(batch.neighborhood.seeds, row))
    once = Counted(passes=3, fanout=2, hidden=4).update_bound(5, row)
    assert strategy.update_bound(5, row) == Cost(3 * once.nodes, 3 * once.edges, 3 * once.bytes)


def test_a_pass_is_sampled_by_the_key_of_its_batch() -> None:
    store = path_store(30)
    learner = Learner(ER(resample_passes=True, fanout=1), store=store)
    batch = learner.batch(_labels([5, 9, 12]))
    sampling = learner.strategy.sampling
    first, second = (batch.resampled(sampling, 1).nodes for _ in range(2))
    np.testing.assert_array_equal(first, second)
    others = [batch.resampled(sampling, number).nodes.tobytes() for number in range(1, 9)]
    assert len(set(others)) > 1
    with pytest.raises(NeedsStoreError):
        Batch(batch.neighborhood, batch.labels).resampled(sampling, 1)


def _labels(ids: list[int]) -> Any:
    from ocgl.graph import Labels

    return Labels(np.array(ids), np.zeros(len(ids), np.int64))


# S6: a reservoir that draws from one slot too few


def test_off_by_one_keeps_the_first_late_item_always() -> None:
    kept = {"uniform": 0, "off_by_one": 0}
    for name in kept:
        for seed in range(400):
            slots = Reservoir(3, np.random.default_rng(seed), name)  # type: ignore[arg-type]
            slots.offer(3)
            kept[name] += int(slots.offer(1)[0] >= 0)
    assert kept["off_by_one"] == 400  # j is drawn from 0..2
    assert 250 < kept["uniform"] < 350  # from 0..3: three times out of four


# S7: degrees of a block


def test_block_degrees_by_hand() -> None:
    """On 0 - 1 - 2 with both hops whole: z_1 = (x_0 / sqrt(1 * 2)) + (x_2 / sqrt(1 * 2)) after one hop."""
    store = path_store(3)
    strategy = PDGNN(layers=1, sgc_degrees="block")
    neighborhood = store.sample([1], strategy.sampling, 0)
    x = np.array([[1, 0], [2, -1], [3, -2]], np.float32)
    expected = (x[0] + x[2]) / np.sqrt(2)
    np.testing.assert_allclose(strategy.own_features(neighborhood)[0], expected, rtol=1e-6)
    block = by_block_degrees(neighborhood.block(1))
    assert block.self_weight.tolist() == [0.0]
    np.testing.assert_allclose(block.edge_weight, 1 / np.sqrt(2), rtol=1e-6)
    both = store.sample([0, 1], strategy.sampling, 0)  # node 1 sends to 0; node 0 and 2 send to 1
    np.testing.assert_allclose(strategy.own_features(both), [x[1], expected], rtol=1e-6)
    assert not strategy.supports_cached_aggregates(store.features)


def test_block_degrees_over_two_hops_by_hand() -> None:
    store = path_store(3)
    strategy = PDGNN(layers=2, sgc_degrees="block")
    neighborhood = store.sample([0], strategy.sampling, 0)  # 0 receives from 1; 1 receives from 0 and 2
    x = np.array([[1, 0], [2, -1], [3, -2]], np.float64)
    hidden_1 = x[0] / np.sqrt(1 * 2) + x[2] / np.sqrt(1 * 2)  # block 1: nodes 0 and 2 send one message each
    np.testing.assert_allclose(strategy.own_features(neighborhood)[0], hidden_1 / np.sqrt(1 * 1), rtol=1e-6)


# S8: the node counts among the sampled


def test_the_node_counts_among_the_averaged() -> None:
    store = path_store(9)
    strategy = Linear(fanout=2, self_counts=True)
    z = strategy.own_features(store.sample([4], strategy.sampling, 0))
    neighborhood = store.sample([4], strategy.sampling, 0)
    assert strategy.sampling.fanouts == (1,) and len(neighborhood.nodes) == 2
    np.testing.assert_allclose(z[0], neighborhood.rows().mean(0), rtol=1e-6)
    for wrong in ({"fanout": 1}, {"fanout": "all"}, {"view": "self+mean1"}):
        with pytest.raises(ConfigError, match="self_counts"):
            make_strategy("linear", self_counts=True, **wrong)


# S9: the sensitivity of MAS


def test_mas_averages_over_outputs_and_squares() -> None:
    store = path_store()
    found = {}
    variants: dict[str, Any] = {"plain": {}, "mean": {"average_outputs": True}, "squared": {"power": 2}}
    for name, options in variants.items():
        strategy = MAS(hidden=4, seed=2, **options)
        strategy.learn(Batch(store.sample([0, 1, 2], strategy.sampling, 0), np.array([0, 1, 2])))
        found[name] = strategy.importances._weights["sensitivity"]
    for plain, mean, squared in zip(*found.values(), strict=True):
        torch.testing.assert_close(mean, plain / 3)  # three outputs
        torch.testing.assert_close(squared, plain**2)


def test_gradient_methods_have_the_same_options() -> None:
    for kind in GradientStrategy.__subclasses__():
        assert {"init", "resample_passes"} <= set(kind.__dataclass_fields__)
