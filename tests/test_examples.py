"""Every script in examples/ runs; the page that shows one shows it as it is."""

import subprocess
import sys
from pathlib import Path

import pytest

from ocgl.graph import Graph, NeighborSampling
from ocgl.strategies import Bare, Learner
from ocgl.streams import batches, class_stream
from ocgl.testing.strategies import batches as learner_batches

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_example(script: Path, tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_the_loop_of_ones_own_has_25_lines_and_is_on_its_page() -> None:
    loop = (ROOT / "examples" / "own_loop.py").read_text()
    assert len(loop.splitlines()) <= 25
    assert f"```python\n{loop}```" in (ROOT / "docs" / "networks.md").read_text()


def test_transactions_have_20_lines_and_are_on_their_page() -> None:
    example = (ROOT / "examples" / "transactions.py").read_text()
    assert len(example.splitlines()) <= 20
    assert f"```python\n{example}```" in (ROOT / "docs" / "living-graph.md").read_text()


def test_batches_are_those_of_a_learner(graph: Graph) -> None:
    stream = class_stream(graph)
    loop = batches(stream, NeighborSampling(2, 10), seed=4)
    theirs = iter(learner_batches(Learner(Bare(seed=4)), stream))
    count = 0
    for step, batch in loop:
        if step.labels is None:
            assert batch is None
            continue
        expected = next(theirs)
        count += 1
        assert batch.n_id.tolist() == expected.neighborhood.nodes.tolist()
        assert batch.y.tolist() == expected.labels.tolist() and len(batch.y) == batch.batch_size
        assert batch.ids[: batch.batch_size].tolist() == step.labels.ids.tolist()
    assert count == len([step for step in stream if step.labels is not None]) and count > 5
    learner = Learner(Bare(seed=4))
    for step in stream:
        learner.arrive(step.arrival)
    asked = loop.sample(stream.order[:5])
    same = learner.store.sample(stream.order[:5], learner.query_sampling, learner.query_key)
    assert asked.n_id.tolist() == same.nodes.tolist()
    first = next(iter(loop))[0]
    assert first.index == 0 and len(loop.store) == len(first.ids)  # iterating again begins with an empty graph
