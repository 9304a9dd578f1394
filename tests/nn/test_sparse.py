from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from ocgl.graph import Graph, GraphStore
from ocgl.graph._kernels.sparse_rows import SparseRows
from ocgl.graph.features import SparseTable
from ocgl.nn import GCN, GrowingAdam, SparseGradient, gradients_of, narrow_logits
from ocgl.strategies import Learner, make_strategy, names
from ocgl.streams import class_stream
from ocgl.testing import batches, taught


def sparse(matrix: csr_array) -> SparseRows:
    table = SparseTable(matrix.shape[1])
    table.append(matrix)
    return table.chosen(np.arange(matrix.shape[0], dtype=np.int32))


@given(st.integers(0, 9999), st.integers(1, 30), st.integers(1, 40), st.integers(1, 9))
def test_products_are_the_dense_ones(seed: int, rows: int, width: int, units: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = csr_array(random_array((rows, width), density=0.3, rng=rng, dtype=np.float32))
    weight, grad = rng.normal(size=(width, units)), rng.normal(size=(rows, units))
    ours = sparse(matrix)
    dense = matrix.toarray().astype(np.float64)
    assert ours.times(weight.astype(np.float32)) == pytest.approx(dense @ weight, rel=1e-4, abs=1e-5)
    assert ours.back(grad.astype(np.float32)) == pytest.approx(dense.T @ grad, rel=1e-4, abs=1e-5)


def test_many_rows_and_few_give_the_same_products() -> None:
    rng = np.random.default_rng(0)
    matrix = csr_array(random_array((9000, 50), density=0.1, rng=rng, dtype=np.float32))
    weight = rng.normal(size=(50, 128)).astype(np.float32)
    whole = sparse(matrix).times(weight)  # too many for the cache: row by row
    assert sparse(matrix[:100]).times(weight, learning=True) == pytest.approx(whole[:100], rel=1e-5, abs=1e-5)


@given(st.integers(0, 9999), st.integers(1, 9), st.integers(1, 20), st.integers(1, 12))
def test_narrow_products_are_the_usual_ones(seed: int, rows: int, width: int, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    x, w, b = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, width), (outputs, width), (outputs,)))
    found = narrow_logits(x, w, b)
    assert found == pytest.approx(x.astype(np.float64) @ w.T + b, rel=1e-4, abs=1e-5)
    assert np.array_equal(found[:1], narrow_logits(x[:1], w, b))  # each row by itself


def words(graph: Graph, width: int = 300) -> tuple[Graph, Graph]:
    """Give a graph the same sparse features twice: as sparse rows and written out."""
    rng = np.random.default_rng(0)
    x = (rng.random((graph.nodes, width)) < 0.03) * rng.random((graph.nodes, width)) + 1e-3 * (rng.random(width) < 0.01)
    rows = csr_array(x.astype(np.float32))
    return replace(graph, x=rows), replace(graph, x=rows.toarray())


@pytest.mark.parametrize("norm", ["sum", "sym"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_logits_and_gradients_of_a_gcn_are_those_of_dense_rows(graph: Graph, layers: int, norm: str) -> None:
    found = []
    for version in words(graph):
        stream, store = class_stream(version), GraphStore()
        store.arrive(stream.arrival(stream.order))
        sampling = make_strategy("bare", layers=layers, norm=norm).sampling
        neighborhood = store.sample(stream.label_order[:8], sampling, key=1)
        model = GCN(300, layers, 16, np.random.default_rng(0))
        model.head.grow([0, 1, 2], np.random.default_rng(1))
        logits = model(neighborhood)
        gradients = gradients_of(model, torch.nn.functional.cross_entropy(logits, torch.arange(8) % 3))
        found.append((logits.detach().numpy(), gradients))
    (ours, sparse), (theirs, dense) = found
    assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)
    assert any(isinstance(gradient, SparseGradient) for gradient in sparse) == (layers > 1)
    for left, right in zip(sparse, dense, strict=True):
        assert isinstance(right, torch.Tensor)
        matrix = left.multiplied() if isinstance(left, SparseGradient) else left
        assert matrix.numpy() == pytest.approx(right.numpy(), rel=1e-4, abs=1e-6)


def test_adam_along_sparse_gradients_is_torchs_and_leaves_what_never_moved() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = (GCN(40, 2, 8, np.random.default_rng(1)) for _ in range(2))
    for model in (ours, theirs):
        model.head.grow([0, 1], np.random.default_rng(2))
    adam, reference = GrowingAdam(ours, 0.01), torch.optim.Adam(theirs.parameters(), lr=0.01)
    start = ours.first.detach().clone()
    for step in range(30):
        matrix = random_array((6, 40), density=0.05, rng=rng, dtype=np.float32).toarray()
        matrix[:, 35:] = 0
        right = rng.normal(size=(6, 8)).astype(np.float32)
        head = torch.from_numpy(rng.normal(size=(2, 8)).astype(np.float32))
        by_first: dict[int, object] = {id(ours.first): SparseGradient(sparse(csr_array(matrix)), right)}
        if step == 20:  # a dense one now and then
            by_first = {id(ours.first): torch.from_numpy(matrix.T @ right)}
        adam.apply([by_first.get(id(p), head) for p in ours.parameters()])  # type: ignore[misc]
        theirs.first.grad, theirs.head.weight.grad = torch.from_numpy(matrix.T @ right), head
        reference.step()
    for left, right_ in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert left.detach().numpy() == pytest.approx(right_.detach().numpy(), abs=2e-5)
    assert torch.equal(ours.first[35:], start[35:])


@pytest.mark.parametrize("name", [name for name in names() if name != "joint"])
def test_every_method_learns_from_sparse_rows_what_it_learns_from_dense_ones(graph: Graph, name: str) -> None:
    scores = []
    for version in words(graph):
        learner = Learner(make_strategy(name))
        for number, batch in enumerate(batches(learner, class_stream(version))):
            learner.learn(batch)
            if number == 3:
                break
        neighborhood = learner.store.sample(learner.store.ids[:30], learner.query_sampling, key=5)
        scores.append(learner.strategy.scores(neighborhood))
    assert scores[0] == pytest.approx(scores[1], rel=2e-3, abs=2e-3 * float(np.abs(scores[1]).max()))


def test_a_saved_state_goes_on_with_sparse_rows(graph: Graph) -> None:
    stream = class_stream(words(graph)[0])
    whole, resumed = make_strategy("bare"), make_strategy("bare")
    for number, batch in enumerate(batches(Learner(make_strategy("bare")), stream)):
        whole.learn(batch)
        if number == 2:
            resumed.load_state(whole.state())
        elif number > 2:
            resumed.learn(batch)
    states = whole.state(), resumed.state()
    assert states[0].facts == states[1].facts
    assert all(np.array_equal(states[0].arrays[key], states[1].arrays[key]) for key in states[0].arrays)
    assert len(taught(make_strategy("bare"), stream).strategy.labels)


@pytest.mark.parametrize("name", ["bare", "er", "ewc"])
def test_a_saved_state_declares_the_memory_it_was_taken_with(graph: Graph, name: str) -> None:
    learner = taught(make_strategy(name), class_stream(words(graph)[0]), 4)
    twin = make_strategy(name)
    twin.load_state(learner.strategy.state())
    assert twin.memory_bytes == learner.strategy.memory_bytes > 0
