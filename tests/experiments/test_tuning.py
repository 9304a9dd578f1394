from typing import Any

import numpy as np
import pytest

from ocgl.datasets import load_dataset
from ocgl.errors import BeyondPrefixError
from ocgl.evaluation import Evaluator, evaluator
from ocgl.experiments import Experiment, RunConfig, configure, stream_of, tuning
from ocgl.experiments.trials import for_tuning, tuning_score
from ocgl.experiments.tuning import score
from ocgl.strategies import make_strategy
from ocgl.streams import TEST, Stream, class_stream
from ocgl.testing import taught
from tests.helpers import options


def test_the_score_is_the_validation_ap_at_the_end_of_the_prefix_and_tests_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = configure("digits", "linear", overrides=options("batch_size=20"))
    prefix = stream_of(config).prefix(2)
    expected = score(config, prefix)
    held_out = Stream.held_out

    def guarded(self: Stream, role: int) -> object:
        if role == TEST:
            raise AssertionError("test nodes were read")
        return held_out(self, role)

    monkeypatch.setattr(Stream, "held_out", guarded)
    monkeypatch.setattr(Stream, "statistics", lambda self: {})
    assert score(config, prefix) == expected
    assert evaluator.Evaluator(prefix, test=False)._test is None


def test_a_diverged_configuration_loses() -> None:
    config = configure("digits", "bare", overrides=options("lr=1e30", "batch_size=40"))
    assert score(config, stream_of(config).prefix(2)) == float("-inf")


def test_the_tuner_asked_for_anything_beyond_the_prefix_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Experiment] = []

    class Caught(Experiment):
        def __init__(self, config: RunConfig, stream: Stream, **more: Any) -> None:
            super().__init__(config, stream, **more)
            given.append(self)

    monkeypatch.setattr(tuning, "Experiment", Caught)
    config = configure("digits", "linear", overrides=options("batch_size=60"))
    tuning_score(config, None)
    (run,) = given
    whole, neighborhood = stream_of(config), run.stream
    with pytest.raises(BeyondPrefixError):
        run.step()  # it has gone to the end of the prefix: there is no next step
    with pytest.raises(BeyondPrefixError):
        neighborhood.step(len(neighborhood))
    with pytest.raises(BeyondPrefixError):
        neighborhood.prefix(3)
    arrived = whole.cuts[whole.ends[1]]  # nothing that comes later is there to be asked for
    assert neighborhood.graph.nodes == len(neighborhood.order) == arrived < whole.graph.nodes
    np.testing.assert_array_equal(np.sort(whole.graph.y[whole.order[:arrived]]), np.sort(neighborhood.graph.y))
    assert run.evaluator._test is None


def test_selection_is_exact_where_runs_are_estimated() -> None:
    capped, exact = (configure("digits", "bare", eval_cap=cap) for cap in (30, None))
    assert for_tuning(capped) == for_tuning(exact)


def test_early_stopping_is_exact_where_curves_are_estimated() -> None:
    stream = class_stream(load_dataset("digits"))
    learner = taught(make_strategy("linear"), stream)
    evaluators = [Evaluator(stream, cap=cap) for cap in (30, None)]
    exact = [evaluator.peek(len(stream) - 1, learner.predict) for evaluator in evaluators]
    assert exact[0] == exact[1]
