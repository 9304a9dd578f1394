import io

import numpy as np
import pytest
from rich.console import Console, RenderableType

from ocgl.experiments import configure, make_experiment, stream_of
from ocgl.experiments.expansion import Expansion
from ocgl.experiments.results import RunResult
from ocgl.experiments.sweep import Group, GroupStatus, SweepStatus
from ocgl.reporting.terminal import bench_table, expansion_table, result_table, status_table
from tests.helpers import options


def printed(shown: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(shown)
    return " ".join(out.getvalue().split())


def finished(*texts: str, seed: int = 0) -> RunResult:
    config = configure("digits", "linear", seed=seed, overrides=options("batch_size=120", *texts))
    return make_experiment(config, stream_of(config)).finish()


@pytest.fixture(scope="module")
def estimated() -> RunResult:
    return finished("eval_cap=1")


def without_interval(run: RunResult) -> RunResult:
    evaluation = run.evaluation.model_copy(update={"AAP_interval": None})
    return run.model_copy(update={"evaluation": evaluation})


def test_an_estimate_is_said_with_and_without_its_interval(estimated: RunResult) -> None:
    low, high = estimated.AAP_interval or (0, 0)
    text = printed(result_table(estimated))
    assert "AAP (estimate)" in text and f"{low:.2f} to {high:.2f} (95%, bootstrap)" in text
    without = printed(result_table(without_interval(estimated)))
    assert "AAP is an estimate from 120 of 359 validation nodes" in without and "no interval" in without
    exact = printed(result_table(finished("eval_cap=100000")))
    assert "estimate" not in exact and "exact: all validation nodes" in exact


def test_the_table_of_a_bench_has_the_interval_below_aap_and_says_what_the_mark_is(estimated: RunResult) -> None:
    low, high = estimated.AAP_interval or (0, 0)
    text = printed(bench_table([estimated, estimated.model_copy(update={"seed": 1})]))
    assert f"{estimated.AAP:.2f} ± 0.00 †" in text and f"({low:.2f} to {high:.2f})" in text
    assert "† AAP is an estimate from about 24 validation nodes a task" in text
    assert "†" not in printed(bench_table([finished()]))


def test_a_sweep_in_progress_marks_estimates(estimated: RunResult) -> None:
    status = SweepStatus(groups={Group("linear", "main", "4%"): GroupStatus(1, runs=[estimated])})
    assert f"{estimated.AAP:.2f} † (" in printed(status_table(status, 1.0))
    assert "† AAP is an estimate" in printed(status_table(status, 1.0))


def test_no_time_per_update_is_printed_where_there_was_none() -> None:
    text = printed(result_table(finished("missing_labels=1")))
    assert "updates 0 evaluation" in text
    assert " ms " in printed(result_table(finished()))


def test_expansion_shows_the_largest_batch_and_the_largest_mean_of_ten() -> None:
    sizes = np.array([100, 300] * 20)
    measured = Expansion("toy", (1,), 5, {1: sizes}, {1: sizes // 10}, np.full(40, 400), {1: 60})
    text = printed(expansion_table(measured))
    assert "all: most in one batch" in text and "all: most, mean of 10 batches" in text
    assert "300 (75.0% of nodes) │ 200 (50.0% of nodes)" in text
