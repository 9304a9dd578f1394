from pathlib import Path

import pytest

from ocgl.experiments import OfflineExperiment, configure, make_experiment, run_config, stream_of
from ocgl.experiments.parsing import parse_run
from ocgl.experiments.result_store import RESULT
from tests.helpers import options, scored


def test_the_curve_has_a_value_per_task_and_ends_with_everything(tmp_path: Path) -> None:
    config = configure("digits", "joint", overrides=options("lr=0.01", "epochs=12", "hidden=32"))
    result = run_config(config, out=tmp_path / "r")
    stream = stream_of(config)
    assert result.curve is not None and [step for step, _ in result.curve] == stream.ends.tolist()
    assert all(value is not None and 80 < value <= 100 for _, value in result.curve)
    assert scored(result, "AP") > 85 and result.AAP is result.AF is None
    assert parse_run((tmp_path / "r" / RESULT).read_text()).curve == result.curve


def test_joint_is_above_every_online_method() -> None:
    settings = ["lr=0.01", "hidden=32"]
    joint = configure("digits", "joint", overrides=options(*settings, "epochs=15", "curve=false"))
    online = configure("digits", "bare", overrides=options(*settings))
    above, below = (make_experiment(config, stream_of(config)).finish() for config in (joint, online))
    assert scored(above, "AP") > scored(below, "AP") + 30


def test_training_stops_early_and_keeps_the_best() -> None:
    config = configure(
        "digits", "joint", overrides=options("lr=0.03", "epochs=100", "patience=2", "hidden=16", "curve=false")
    )
    run = make_experiment(config, stream_of(config))
    assert isinstance(run, OfflineExperiment)
    run.finish()
    assert run.updates < 100 * 2
    best = run.evaluator.peek(len(run.stream) - 1, run.learner.predict)
    assert best == pytest.approx(run.evaluator.anytime[-1])


def test_nothing_to_validate_on_is_no_obstacle() -> None:
    settings = ["split=[0.8,0,0.2]", "epochs=2", "hidden=8"]
    config = configure("digits", "joint", overrides=options(*settings))
    result = make_experiment(config, stream_of(config)).finish()
    assert result.curve is not None and all(value is None for _, value in result.curve)
    assert scored(result, "AP") > 0
    most, bound = result.cost_per_update.most, result.cost_per_update.bound
    assert bound is not None and most.within(bound)


def test_labels_that_never_come_are_not_used() -> None:
    settings = ["missing_labels=0.9", "epochs=1", "hidden=8", "joint_batch=1", "curve=false"]
    config = configure("digits", "joint", overrides=options(*settings))
    result = make_experiment(config, stream_of(config)).finish()
    assert result.updates == result.statistics.labels


def test_labels_of_held_out_nodes_are_never_given() -> None:
    from ocgl.errors import StreamError

    stream = stream_of(configure("digits", "joint"))
    with pytest.raises(StreamError):
        stream.labels_of(stream.held_out(2)[:1])
