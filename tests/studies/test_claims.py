"""The page of claims: every rule decides as it says, on made-up numbers and on the published ones."""

from pathlib import Path

import pytest
from studies.claims import ABLATED, BENCHMARKS, CLAIMS, COMPUTER, GNN, TEN, YEARS, Benchmark, Published

from ocgl.experiments import Sweep, run_sweep
from ocgl.experiments.executors import make_executor
from ocgl.experiments.result_store import ResultStore
from studies import claims, results_page


class Made:
    """Numbers that are made up: 50 everywhere, but for what is given."""

    def __init__(self, **given: float) -> None:
        self.given = given
        self.only: set[Benchmark] | None = None

    def get(self, where: Benchmark, method: str, metric: str, setting: str = "main") -> float | None:
        if self.only is not None and where not in self.only:
            return None
        name = f"{where[0]} {where[1]} {setting} {method} {metric}"
        return next((value for key, value in self.given.items() if key in name), 50.0)


def first_on(count: int, years: float) -> Made:
    """LINEAR first on the first `count` benchmarks, second elsewhere."""
    given: dict[str, float] = {f"{YEARS[0]} {YEARS[1]} main linear AAP": years}
    for number, (dataset, stream) in enumerate(BENCHMARKS):
        given.setdefault(f"{dataset} {stream} main linear AAP", 60.0)
        if number >= count:
            given[f"{dataset} {stream} main pdgnn AAP"] = 70.0
    return Made(**given)


def test_there_are_sixteen_claims_with_rules() -> None:
    assert len(CLAIMS) == 16
    assert all(claim.text.endswith(".") and claim.rule for claim in CLAIMS)


def test_claim_1_wants_four_firsts_and_three_places() -> None:
    assert claims.linear_is_first(first_on(4, years=0.0)).answer == "holds"
    assert claims.linear_is_first(first_on(3, years=0.0)).answer == "does not hold"
    assert claims.linear_is_first(first_on(4, years=60.0)).answer == "does not hold"  # among the first three there too


def test_claim_2_wants_gains_and_a_competitive_bare() -> None:
    gains = {f"{YEARS[0]} {YEARS[1]} main {name} AF": 1.0 for name in TEN[:6]}
    assert claims.years_do_not_forget(Made(**gains | {" AF": -1.0})).answer == "holds"
    assert claims.years_do_not_forget(Made(**{" AF": -1.0})).answer == "does not hold"
    behind = gains | {" AF": -1.0, "main bare AAP": 40.0}
    assert claims.years_do_not_forget(Made(**behind)).answer == "does not hold"


def test_claims_3_and_4_compare_groups_on_every_stream() -> None:
    assert claims.replay_is_ahead(Made(**{"er AAP": 60.0})).answer == "holds"
    assert claims.replay_is_ahead(Made(**{"mas AAP": 60.0})).answer == "does not hold"
    ahead = {"main ssm-er AAP": 60.0, "main pdgnn AAP": 60.0, "main linear AAP": 60.0}
    assert claims.topology_beats_er(Made(**ahead)).answer == "holds"
    assert claims.topology_beats_er(Made(**{"reddit class main ssm-er AAP": 40.0} | ahead)).answer == "does not hold"


def test_claim_5_is_about_three_points() -> None:
    near = {"joint AP": 80.0, "linear AP": 77.5}
    assert claims.linear_is_near_joint(Made(**near)).answer == "holds"
    assert claims.linear_is_near_joint(Made(**near | {"linear AP": 76.5})).answer == "does not hold"


def test_claims_8_to_12_compare_settings() -> None:
    cora = {f"corafull class larger-batch {name} AAP": 55.0 for name in ("ewc", "twp")}
    cora |= {"corafull class larger-batch mas AAP": 60.0}
    assert claims.larger_batches(Made(**cora)).answer == "holds"
    ewc_most = cora | {"corafull class larger-batch ewc AAP": 70.0}
    assert claims.larger_batches(Made(**ewc_most)).answer == "does not hold"
    assert claims.full_neighbourhoods(Made(**{"full-neighborhood er": 40.0})).answer == "holds"
    assert claims.full_neighbourhoods(Made()).answer == "does not hold"  # no method loses
    assert claims.hidden_units(Made()).answer == "holds"
    assert claims.hidden_units(Made(**{"hidden-128": 40.0})).answer == "does not hold"
    assert claims.three_layers(Made(**{"layers-3": 49.0})).answer == "holds"
    assert claims.three_layers(Made(**{"layers-3": 51.0})).answer == "does not hold"
    mixed = {"layers-1 er": 55.0, "layers-1 mas": 45.0, "main linear AAP": 60.0}
    assert claims.one_layer(Made(**mixed)).answer == "holds"
    assert claims.one_layer(Made(**mixed | {"main linear AAP": 52.0})).answer == "does not hold"
    assert {where[0] for where in ABLATED} == {"corafull", "amazon-computer", "arxiv"} and "linear" not in GNN


def test_claim_13_wants_a_large_distance() -> None:
    assert claims.roman_empire(Made(**{"joint AP": 61.0})).answer == "holds"
    assert claims.roman_empire(Made(**{"joint AP": 59.0})).answer == "does not hold"


def test_without_numbers_there_is_no_verdict() -> None:
    nothing = Made()
    nothing.only = set()
    assert {claim.check(nothing).answer for claim in CLAIMS} == {"no data"}
    some = first_on(8, years=70.0)
    some.only = {COMPUTER}
    assert claims.linear_is_first(some).answer == "holds"


def test_the_published_numbers_decide_as_printed() -> None:
    answers = {i: claim.check(Published()).answer for i, claim in enumerate(CLAIMS, 1)}
    assert {i for i, answer in answers.items() if answer == "no data"} == {6, 7, 14, 15, 16}
    assert answers[1] == answers[5] == answers[13] == "holds"
    assert answers[4] == "does not hold"  # SSM-ER is behind ER on CoraFull and Products
    assert answers[8] == "does not hold"  # on CoraFull EWC gains more than MAS


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    overrides = {"batch_size": 60, "fanout": 3, "hidden": 8}
    replay = Sweep("digits", ("er",), folder / "digits", seeds=2, grids="coarse", overrides=overrides, tune_seeds=2)
    bound = Sweep("digits", ("joint",), folder / "digits", seeds=2, grids="coarse", tune_seeds=1)
    parts = [
        replay,
        Sweep("digits", ("linear",), folder / "digits", seeds=2, grids="coarse", overrides={"batch_size": 60}),
        Sweep("digits", ("er",), folder / "digits", seeds=2, grids="coarse", overrides=overrides, buffers=("1%",)),
    ]
    with make_executor(0) as pool:
        for sweep in parts:
            assert not run_sweep(sweep, pool).failed
        quick = {"epochs": 2, "curve": False}
        assert not run_sweep(Sweep(**vars(bound) | {"overrides": quick}), pool).failed
    return folder


def test_the_command_writes_the_page(small: Path, tmp_path: Path) -> None:
    page = tmp_path / "claims.md"
    claims.write(small, page)
    text = page.read_text()
    assert text.count("\n## ") == 16 and "digits (class)" in text
    assert text.count("Our results: **no data**") >= 10 and "5 passes takes" in text
    assert "The paper's own numbers contradict its text here." in text


def test_the_results_page_is_written_from_any_results(small: Path, tmp_path: Path) -> None:
    source = results_page.Source(small, "digits")
    results_page.write(source, tmp_path / "results.md")
    text = (tmp_path / "results.md").read_text()
    assert "| LINEAR" in text and "| ER" in text and "The AP of LINEAR is" in text
    assert f"{len(list(ResultStore(small / 'digits').runs))} runs" in text
    assert (tmp_path / "results" / "anytime.png").stat().st_size > 10_000
    assert "first reading it is" not in text and "## Not computed yet" in text
