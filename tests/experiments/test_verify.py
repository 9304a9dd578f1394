import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ocgl.checked import sealed
from ocgl.experiments.result_store import RESULT, ResultStore
from ocgl.experiments.results import ChoiceResult, Origin
from ocgl.experiments.sweep import Sweep, finished, run_sweep
from ocgl.experiments.verify import Verdict, adopt, verify


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results that look as if another version of the code had made them."""
    out = tmp_path_factory.mktemp("older") / "r"
    with ThreadPoolExecutor(1) as pool:
        run_sweep(swept(out), pool)
    results = ResultStore(out)
    results.rename({r.id: r.model_copy(update={"code": "older", "id": f"old-{r.id[4:]}"}) for r in results})
    assert all(result.code == "older" for result in ResultStore(out))
    return out


def swept(out: Path) -> Sweep:
    fast = {"batch_size": 60, "fanout": [3]}
    return Sweep("digits", ("linear",), out, seeds=2, overrides=fast, grids="coarse", tune_seeds=1)


@pytest.fixture
def folder(older: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(older, tmp_path / "r"))


def verdicts(folder: Path, each: int = 1) -> list[Verdict]:
    with ThreadPoolExecutor(1) as pool:
        return list(verify(ResultStore(folder), pool, each, current=False))


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_equal_is_adopted_and_says_why(folder: Path, packed: bool) -> None:
    if packed:
        ResultStore(folder).pack()
    before = {run.seed: run for run in ResultStore(folder).runs}
    curves = {seed: ResultStore(folder).curves(run.id) for seed, run in before.items()}
    found = verdicts(folder)
    assert [len(verdict.equal) for verdict in found] == [1, 1] and all(verdict.holds for verdict in found)
    count = sum(not isinstance(r, ChoiceResult) for r in ResultStore(folder))
    assert adopt(ResultStore(folder), found) == count
    with ThreadPoolExecutor(1) as pool:
        status = run_sweep(swept(folder), pool)
    assert status.reused == status.done == count
    for run in finished(swept(folder)):
        old = before[run.seed]
        assert run.computed_by == Origin(code="older", revision=old.revision)
        assert run.compared is not None and len(run.compared) == 1
        assert run.AAP == old.AAP and run.code != "older"
        assert ResultStore(folder).curves(run.id).equals(curves[run.seed])
    assert verdicts(folder) == []
    run = finished(swept(folder))[0]
    ResultStore(folder).put(run.model_copy(update={"id": "0" * 16, "code": "oldest"}))
    assert verdicts(folder) == [], "the present code's is there already"


def changed(folder: Path, name: str, **values: object) -> None:
    path = folder / name / RESULT
    path.write_text(json.dumps(sealed(json.loads(path.read_text()) | values)))


def test_each_version_of_the_code_is_verified_by_itself(folder: Path) -> None:
    changed(folder, next(ResultStore(folder).runs).id, code="oldest")
    assert sorted(verdict.group[-1] for verdict in verdicts(folder)) == ["older", "older", "oldest"]


def test_what_differs_in_the_last_bit_is_told_and_left(folder: Path) -> None:
    names = set()
    for run in ResultStore(folder).runs:
        assert run.AAP is not None
        changed(folder, run.id, AAP=run.AAP * (1 + 1e-15))
        names.add(run.id)
    found = verdicts(folder, each=2)
    (runs,) = [verdict for verdict in found if verdict.group[0] == "run"]
    assert set(runs.different) == names and not runs.holds
    adopt(ResultStore(folder), found)
    assert {run.id for run in ResultStore(folder).runs} == names
