import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ocgl.benchmark.keep import RESULT
from ocgl.benchmark.results import Results
from ocgl.benchmark.sweep import Sweep, carry_out, finished
from ocgl.benchmark.verify import Verdict, adopt, verify
from ocgl.types import Json


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results that look as if other code had made them."""
    out = tmp_path_factory.mktemp("older") / "r"
    with ThreadPoolExecutor(1) as pool:
        carry_out(swept(out), pool)
    Results(out).rename({r["id"]: r | {"code": "older", "id": f"0{r['id'][1:]}"} for r in Results(out)})
    assert all(result["code"] == "older" for result in Results(out))
    return out


def swept(out: Path) -> Sweep:
    return Sweep("digits", ("linear",), out, seeds=2, overrides=("batch_size=60", "fanout=[3]"), grids="coarse")


@pytest.fixture
def folder(older: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(older, tmp_path / "r"))


def verdicts(folder: Path, each: int = 1) -> list[Verdict]:
    with ThreadPoolExecutor(1) as pool:
        return list(verify(folder, pool, each))


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_equal_stands_for_the_present_code_and_says_why(folder: Path, packed: bool) -> None:
    if packed:
        Results(folder).pack()
    before = {r["seed"]: r for r in Results(folder) if r["kind"] == "run"}
    curves = {seed: Results(folder).curves(r["id"]) for seed, r in before.items()}
    found = verdicts(folder)
    assert [len(verdict.equal) for verdict in found] == [1, 1] and all(verdict.holds for verdict in found)
    count = sum(r["kind"] != "choice" for r in Results(folder))
    assert adopt(folder, found) == count
    with ThreadPoolExecutor(1) as pool:
        tally = carry_out(swept(folder), pool)
    assert tally.reused == tally.done == count
    for run in finished(swept(folder)):
        old = before[run["seed"]]
        assert run["computed_by"] == {"code": "older", "revision": old["revision"]} and len(run["compared"]) == 1
        assert run["AAP"] == old["AAP"] and run["code"] != "older"
        assert Results(folder).curves(run["id"]).equals(curves[run["seed"]])
    assert verdicts(folder) == []
    run = finished(swept(folder))[0]
    Results(folder).put("0" * 16, run | {"code": "oldest"})
    assert verdicts(folder) == [], "the present code's is there already"


def test_each_code_is_proven_by_itself(folder: Path) -> None:
    one = next(result for result in Results(folder) if result["kind"] == "run")
    (folder / one["id"] / RESULT).write_text(json.dumps(one | {"code": "oldest"}))
    assert sorted(verdict.place[-1] for verdict in verdicts(folder)) == ["older", "older", "oldest"]


def test_what_differs_in_the_last_bit_is_told_and_left(folder: Path) -> None:
    results = Results(folder)
    changed: list[Json] = [r | {"AAP": r["AAP"] * (1 + 1e-15)} for r in results if r["kind"] == "run"]
    for result in changed:
        (folder / result["id"] / RESULT).write_text(json.dumps(result))
    found = verdicts(folder, each=2)
    (runs,) = [verdict for verdict in found if verdict.place[0] == "run"]
    assert set(runs.different) == {r["id"] for r in changed} and not runs.holds
    adopt(folder, found)
    assert {r["id"] for r in Results(folder) if r["kind"] == "run"} == set(runs.different)
