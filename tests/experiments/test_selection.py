"""Selection of hyperparameters with one seed, and in two stages with several."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ocgl.experiments import ChoiceResult, ResultStore, Sweep, run_sweep
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.forecast import forecast
from ocgl.experiments.results import TrialResult
from ocgl.experiments.selection import Selector, Tried, Wanted
from ocgl.experiments.sweep import finished
from ocgl.reporting.collect import collect
from ocgl.reporting.tables import markdown
from ocgl.reporting.terminal import forecast_text
from ocgl.strategies import find

GRID = [{"lr": 10.0**-k, "passes": passes} for k in range(8) for passes in (1, 5)]


def select(scores: dict[tuple[int, int], float], grid: list[Any] = GRID, seeds: int = 5, **more: Any) -> Selector:
    """Run a selection whose trial of configuration i with seed s has the score `scores[i, s]`, else i with any seed."""
    selector = Selector(find("bare"), grid, more.pop("halving", False), seeds)
    waiting = selector.begin()
    while waiting:
        wanted = waiting.pop(more.get("at", 0))
        index = grid.index(dict(wanted.configuration))
        value = scores.get((index, wanted.seed), float(index))
        waiting += selector.take(wanted, value, f"{index} {wanted.seed} {wanted.share}")
    assert selector.done
    return selector


def test_ties_go_to_the_first() -> None:
    selector = select({(i, 0): [2.0, 3.0, 3.0][i] for i in range(3)}, GRID[:3], seeds=1)
    assert selector.chosen().configuration == GRID[1] and selector.tied() == []


def test_all_configurations_have_seed_0_and_the_best_quarter_at_least_six_the_others() -> None:
    selector = select({})
    assert selector.planned == len(selector.names) == 16 + 6 * 4
    assert [len(tried.scores) for tried in selector.table()] == [1] * 10 + [5] * 6
    many = [{"lr": 1.0 / (k + 1)} for k in range(40)]
    assert [len(tried.scores) for tried in select({}, many).table()] == [1] * 30 + [5] * 10
    few = select({}, GRID[:3])
    assert few.planned == 15 and [len(tried.scores) for tried in few.table()] == [5] * 3


def test_the_best_mean_of_stage_two_wins() -> None:
    lucky = {(15, 0): 99.0} | {(15, seed): 10.0 for seed in range(1, 5)}
    steady = {(12, seed): 60.0 for seed in range(5)}
    chosen = select(lucky | steady).chosen()
    assert chosen.configuration == GRID[12] and chosen.mean == 60.0 and chosen.error == 0.0
    assert select(lucky | steady, seeds=1).chosen().configuration == GRID[15]


def test_permuting_the_other_seeds_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    values = {(i, seed): float(rng.uniform(40, 60)) for i in range(16) for seed in range(5)}
    first = select(values)
    for order in itertools.permutations(range(1, 5)):
        names = (0, *order)
        other = select({(i, names[seed]): value for (i, seed), value in values.items()})
        assert other.chosen().configuration == first.chosen().configuration
        assert other.chosen().mean == first.chosen().mean  # to the bit
        assert [t.configuration for t in other.tied()] == [t.configuration for t in first.tied()]


def test_the_order_of_arrival_of_trials_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    values = {(i, seed): float(rng.uniform(40, 60)) for i in range(16) for seed in range(5)}
    first, last = select(values), select(values, at=-1)
    assert first.table() == last.table() and first.chosen() == last.chosen()


def test_configurations_within_one_standard_error_are_tied() -> None:
    best = {(15, seed): score for seed, score in enumerate((90.0, 92.0, 94.0, 96.0, 98.0))}
    error = np.std([90, 92, 94, 96, 98], ddof=1) / np.sqrt(5)
    near = {(14, seed): 94.0 - 0.9 * error for seed in range(5)}
    nearer = {(11, seed): 94.0 - 0.5 * error for seed in range(5)}
    far = {(13, seed): 94.0 - 1.1 * error for seed in range(5)}
    selector = select(best | near | nearer | far)
    assert selector.chosen().configuration == GRID[15]
    assert selector.chosen().error == pytest.approx(error)
    assert [tried.configuration for tried in selector.tied()] == [GRID[11], GRID[14]]


def test_a_configuration_that_diverges_with_one_seed_loses() -> None:
    selector = select({(15, 3): float("-inf"), (14, 0): float("-inf")})
    table = {GRID.index(tried.configuration): tried for tried in selector.table()}
    assert table[15].mean == float("-inf") and table[15].error is None
    assert len(table[14].scores) == 1 and selector.chosen().configuration == GRID[13]
    assert Tried({}, (1.0,), 1.0).error is None


def test_all_diverged_is_no_error() -> None:
    selector = select({(i, 0): float("-inf") for i in range(16)})
    assert selector.chosen().mean == float("-inf") and selector.tied() == []


def test_halving_ends_in_stage_two() -> None:
    selector = select({}, halving=True)
    assert selector.planned == len(selector.names) == 16 + 6 + 2 + 2 * 4
    assert [len(tried.scores) for tried in selector.table() if tried.share == 1.0] == [5, 5]
    assert selector.chosen().configuration == GRID[15]


def test_equal_runs_are_tried_once_and_are_not_tied_with_each_other() -> None:
    grid = [{"passes": 1, "strength": strength} for strength in (1.0, 1e2, 1e4)]
    selector = Selector(find("ewc"), grid, False, 5)
    waiting = selector.begin()
    assert len(waiting) == 1
    while waiting:
        waiting += selector.take(waiting.pop(), 50.0, "x")
    assert selector.chosen().configuration == grid[0] and selector.tied() == []
    assert isinstance(Wanted((), 0, 1.0), Wanted)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    out = tmp_path_factory.mktemp("tuned") / "r"
    overrides = {"batch_size": 60, "fanout": 3, "passes": 1}
    sweep = Sweep("digits", ("linear",), out, seeds=2, overrides=overrides, tune_seeds=3, ties=2)
    assert forecast_text(forecast(sweep), 2).startswith("24 trials and 2 runs to compute: ")
    with LocalExecutor(2) as pool:
        status = run_sweep(sweep, pool)
    assert status.done == status.planned and not status.failed
    return sweep


def test_a_sweep_says_how_it_selected(tuned: Sweep) -> None:
    (choice,) = [result for result in ResultStore(tuned.out) if isinstance(result, ChoiceResult)]
    trials = {
        (str(sorted(result.config.hyperparameters.items())), result.config.seed): result.score
        for result in ResultStore(tuned.out)
        if isinstance(result, TrialResult)
    }
    assert choice.selection.seeds == 3 and len(trials) == choice.selection.trials == 12 + 6 * 2
    finals = [row for row in choice.table if len(row.scores) == 3]
    assert len(finals) == 6
    best = max(finals, key=lambda row: row.mean or 0.0)
    assert best.configuration == choice.settings and choice.selection.score == best.mean
    assert best.tied and best.error == choice.selection.error and best.error is not None
    near = [row for row in finals if row.mean is not None and best.mean and row.mean >= best.mean - best.error]
    assert [row.tied for row in choice.table] == [row in near for row in choice.table]
    assert choice.selection.ties == len(near) - 1 and len(choice.ties) == min(2, len(near) - 1)


def test_tied_configurations_are_a_range_and_no_rows(tuned: Sweep) -> None:
    runs = finished(tuned)
    assert sorted(run.seed for run in runs) == [0, 1]
    assert all("with 3 seeds" in run.protocol["selection"] for run in runs)
    (bench,) = collect([tuned.out])
    (entry,) = bench.entries
    (choice,) = [result for result in ResultStore(tuned.out) if isinstance(result, ChoiceResult)]
    assert [run.id for run in entry.runs] == [run.id for run in sorted(runs, key=lambda run: run.seed)]
    assert len(entry.ties) == len(choice.ties) and entry.left_out == 0
    for tie in entry.ties:
        assert all(run.selection is not None and run.selection.tied for run in tie.runs) and len(tie.runs) == 2
    text = markdown(bench)
    if entry.ties:
        low, high = (f(each.mean("AP") for each in (entry, *entry.ties)) for f in (min, max))
        assert f"{low:.2f} to {high:.2f}" in text and "tied" in text


def test_a_finished_sweep_has_nothing_to_compute(tuned: Sweep) -> None:
    assert forecast_text(forecast(tuned), 2) == "nothing to compute: all trials and runs are there"
    with LocalExecutor(1) as pool:
        status = run_sweep(tuned, pool)
    assert status.reused == status.done == status.planned


def test_a_forecast_counts_what_is_missing(tmp_path: Path) -> None:
    sweep = Sweep("digits", ("linear", "joint"), tmp_path / "r", seeds=2, overrides={"lr": 0.01}, tune_seeds=1)
    expected = forecast(sweep)
    assert expected.trials == 6 + 1 and expected.runs == 4 and expected.tied_seconds == 0
    longer = forecast(replace(sweep, seeds=200))
    assert longer.runs == 400 and longer.seconds > expected.seconds > 0
    assert forecast(replace(sweep, halving=True)).trials == 6 + 2 + 1 + 1
    two = replace(sweep, strategies=("er",), buffers=("1%", "2%"), seeds=1)
    assert forecast(replace(two, select_at="4%")).trials * 2 == forecast(two).trials > 0  # both use the same trials


def test_a_method_that_fails_is_left_to_the_sweep(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        "from ocgl.strategies import ER\n\n\nclass Wrong(ER):\n    name = 'wrong'\n\n"
        "    def update(self, batch):\n        raise RuntimeError('no')\n"
    )
    sweep = Sweep("digits", (f"{file}:Wrong",), tmp_path / "r", seeds=1, tune_seeds=1)
    found = forecast(sweep)
    assert found.unknown == (f"{file}:Wrong",) and found.trials == 24
    assert "without" in forecast_text(found, 2)


def test_a_stream_of_a_few_steps_has_a_forecast(tmp_path: Path) -> None:
    graph = "sbm:nodes=40,edges=80,classes=4,width=4"
    for size in (40, 10, 5):
        sweep = Sweep(graph, ("slda", "joint"), tmp_path / "r", seeds=1, overrides={"batch_size": size}, tune_seeds=1)
        assert forecast(sweep).unknown == () and forecast(sweep).seconds > 0
