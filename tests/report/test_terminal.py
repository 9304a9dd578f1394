import io

import numpy as np
import pytest
from rich.console import Console, RenderableType

from ocgl.benchmark import configure, run_of, stream_of
from ocgl.benchmark.expansion import Expansion
from ocgl.benchmark.sweep import Standing, Tally
from ocgl.report.terminal import bench_table, expansion_table, result_table, standing_table
from ocgl.types import Json


def printed(shown: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(shown)
    return " ".join(out.getvalue().split())


def finished(*settings: str, seed: int = 0) -> Json:
    config = configure("digits", "linear", seed=seed, settings=["batch_size=120", *settings])
    result: Json = run_of(config, stream_of(config)).finish()
    return result | {"setting": "main", "buffer": "4%"}


@pytest.fixture(scope="module")
def estimated() -> Json:
    return finished("eval_cap=1")


def test_an_estimate_is_said_with_and_without_its_interval(estimated: Json) -> None:
    low, high = estimated["evaluation"]["AAP_interval"]
    text = printed(result_table(estimated))
    assert "AAP (estimate)" in text and f"{low:.2f} to {high:.2f} (95%, bootstrap)" in text
    without = estimated | {"evaluation": estimated["evaluation"] | {"AAP_interval": None}}
    assert "AAP is an estimate from 120 of 359 validation nodes" in printed(result_table(without))
    assert "no interval" in printed(result_table(without))
    exact = printed(result_table(finished("eval_cap=100000")))
    assert "estimate" not in exact and "exact: all validation nodes" in exact


def test_the_table_of_a_bench_has_the_interval_below_aap_and_says_what_the_mark_is(estimated: Json) -> None:
    low, high = estimated["evaluation"]["AAP_interval"]
    text = printed(bench_table([estimated, estimated | {"seed": 1}]))
    assert f"{estimated['AAP']:.2f} ± 0.00 †" in text and f"({low:.2f} to {high:.2f})" in text
    assert "† AAP is an estimate from about 24 validation nodes a task" in text
    assert "†" not in printed(bench_table([finished()]))


def test_a_sweep_under_way_marks_estimates(estimated: Json) -> None:
    class Group:
        strategy, setting, buffer = "linear", "main", "4%"

    tally = Tally()
    tally.groups = {Group(): Standing(1, runs=[estimated])}  # type: ignore[dict-item]
    assert f"{estimated['AAP']:.2f} † (" in printed(standing_table(tally, 1.0))
    assert "† AAP is an estimate" in printed(standing_table(tally, 1.0))


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
