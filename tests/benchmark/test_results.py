from pathlib import Path

import pytest

from ocgl.benchmark import configure
from ocgl.benchmark.results import COLUMNS, Results, estimate_in, interval_in, stamp
from ocgl.types import Json

OLD = ("id", "dataset", "stream", "strategy", "profile", "setting", "buffer", "seed", "AAP", "AP", "AF", "AF_T")
SCORES: Json = {"dataset": "digits", "stream": "class", "strategy": "linear", "profile": "paper", "seed": 0, "AP": 1.0}


def evaluated(aap: float | None, interval: list[float] | None) -> Json:
    said = {"anytime": "estimate", "nodes": 24, "of": 90, "AAP_interval": interval, "coverage": 0.95}
    return SCORES | {"AAP": aap, "evaluation": said}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (evaluated(50.0, [45.0, 54.0]), ("estimate", 45.0, 54.0)),
        (evaluated(50.0, None), ("estimate", None, None)),
        (evaluated(None, None), (None, None, None)),
        (SCORES | {"AAP": 50.0, "evaluation": {"anytime": "exact", "nodes": 90, "of": 90}}, ("exact", None, None)),
        (SCORES | {"AAP": 50.0}, ("exact", None, None)),
    ],
)
def test_rows_say_whether_aap_is_an_estimate_after_the_columns_there_were(
    result: Json, said: tuple[str | float | None, ...], tmp_path: Path
) -> None:
    results = Results(tmp_path)
    results.put("a", stamp(result, "a", "run", "main", configure("digits", "linear")))
    (row,) = results.rows()
    assert tuple(row) == COLUMNS == (*OLD, "AAP_kind", "AAP_low", "AAP_high")
    assert (row["AAP_kind"], row["AAP_low"], row["AAP_high"]) == said
    assert (estimate_in(result) is not None) == (said[0] == "estimate")
    assert interval_in(result) == (None if said[1] is None else said[1:])
