from pathlib import Path

import pytest

from ocgl.experiments import configure
from ocgl.experiments.result_store import COLUMNS, ResultStore
from ocgl.experiments.results import Evaluation, RunResult

OLD = ("id", "dataset", "stream", "strategy", "profile", "setting", "buffer", "seed", "AAP", "AP", "AF", "AF_T")
EXACT = Evaluation(nodes=90, of=90)


def run(aap: float | None, evaluation: Evaluation) -> RunResult:
    names = {"dataset": "digits", "stream": "class", "strategy": "linear", "profile": "paper"}
    config = configure("digits", "linear")
    return RunResult(id="a", **names, seed=0, hyperparameters={}, AP=1.0, AAP=aap, evaluation=evaluation, config=config)


def estimate(interval: tuple[float, float] | None) -> Evaluation:
    return Evaluation(anytime="estimate", nodes=24, of=90, AAP_interval=interval, coverage=0.95)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (run(50.0, estimate((45.0, 54.0))), ("estimate", 45.0, 54.0)),
        (run(50.0, estimate(None)), ("estimate", None, None)),
        (run(None, estimate(None)), (None, None, None)),
        (run(50.0, EXACT), ("exact", None, None)),
        (run(50.0, Evaluation()), ("exact", None, None)),
    ],
)
def test_rows_say_whether_aap_is_an_estimate_after_the_columns_there_were(
    result: RunResult, said: tuple[str | float | None, ...], tmp_path: Path
) -> None:
    results = ResultStore(tmp_path)
    results.put(result)
    (row,) = results.rows()
    assert tuple(row) == COLUMNS == (*OLD, "AAP_kind", "AAP_low", "AAP_high", "checksum", "selection")
    assert (row["AAP_kind"], row["AAP_low"], row["AAP_high"]) == said
    assert result.estimated == (said[0] == "estimate")
    assert result.AAP_interval == (None if said[1] is None else said[1:])


def test_a_stored_result_comes_back_equal(tmp_path: Path) -> None:
    result = run(100 / 3, estimate((0.1, 1e-17)))
    ResultStore(tmp_path).put(result)
    assert ResultStore(tmp_path).get("a") == result
