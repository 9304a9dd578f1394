"""About how long a sweep will take, measured on a few batches of each method before it begins."""

from dataclasses import dataclass
from pathlib import Path

from ocgl.experiments.config import RunConfig
from ocgl.experiments.experiment import Experiment
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.runner import make_experiment
from ocgl.experiments.selection import Selector
from ocgl.experiments.sweep import Group, Sweep, finished
from ocgl.experiments.trials import for_tuning, name_of, shared
from ocgl.experiments.tuning import GRIDS, RUNGS, tune_tasks
from ocgl.strategies import find
from ocgl.strategies.joint import Joint
from ocgl.types import Json

MEASURED = 3
"""Steps of a method that are measured."""


@dataclass(frozen=True)
class Forecast:
    """About how much a sweep has to compute.

    Attributes:
        seconds: seconds of one core, without tied configurations.
        tied_seconds: seconds of one core for tied configurations, if every method has as many as are run.
        trials: trials that are missing.
        runs: runs that are missing.
        unknown: methods that could not be measured; the sweep says why.
    """

    seconds: float
    tied_seconds: float
    trials: int
    runs: int
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepCost:
    """Seconds of one update, and of one evaluation, in the middle of a stream."""

    update: float
    evaluation: float


def forecast(sweep: Sweep) -> Forecast:
    """Measure a few batches of each method that has something to compute, in the middle of its stream.

    The estimate is rough. A configuration of average passes stands for all of a method, and an offline bound is
    expected to stop after half of its epochs.
    """
    store = ResultStore(sweep.out)
    done = finished(sweep, store)
    seconds, tied = 0.0, 0.0
    trials, runs = 0, 0
    unknown = []
    counted: set[Group] = set()
    for group in sweep.groups():
        grid, at = sweep.grid(group), sweep.tuned_as(group)
        selector = Selector(find(group.strategy), grid, sweep.halving, sweep.seeds_of_tuning)
        first = [for_tuning(sweep.config(at, dict(wanted.configuration))) for wanted in selector.begin()]
        share = RUNGS[0] if sweep.halving and not find(group.strategy).offline else 1.0
        missing = 0 if at in counted else sum(name_of(c, share, sweep.data_root) not in store for c in first)
        counted.add(at)
        left = sweep.seeds - len({run.seed for run in done if Group(run.strategy, run.setting, run.buffer) == group})
        if not missing and left <= 0:
            continue
        try:
            trial, run = _seconds(sweep, group)
        except Exception:  # whatever a user's method raises: the sweep keeps it with its traceback
            trial = run = 0.0
            unknown.append(group.strategy)
        if sweep.halving and not find(group.strategy).offline:
            trial *= _mean_share(len(first))
        wanted = round(selector.planned * missing / len(first))
        trials, runs = trials + wanted, runs + max(left, 0)
        seconds += wanted * trial + max(left, 0) * run
        tied += sweep.ties * sweep.seeds * run if sweep.seeds_of_tuning > 1 else 0.0
    return Forecast(seconds, tied, trials, runs, tuple(dict.fromkeys(unknown)))


def _mean_share(count: int) -> float:
    """Return the mean share of the prefix over the trials of successive halving."""
    total = weighted = 0.0
    for share in RUNGS:
        total, weighted, count = total + count, weighted + share * count, -(-count // 3)
    return weighted / total


def _seconds(sweep: Sweep, group: Group) -> tuple[float, float]:
    """Return about how many seconds of one core a trial and a run of a group take."""
    grid = {key: values for key, values in find(group.strategy).grid.items() if key not in sweep.overrides}
    typical = {key: values[-1] for key, values in GRIDS["coarse"](grid).items()}
    passes: list[Json] = [{"passes": value} for value in grid.get("passes", ())] or [{}]
    costs = [measured(sweep.config(group, typical | each), sweep.data_root) for each in passes]
    update = sum(cost.update for cost in costs) / len(costs)
    evaluation = sum(cost.evaluation for cost in costs) / len(costs)
    config = sweep.config(group, {})
    stream = shared(config, sweep.data_root)
    if find(group.strategy).offline:
        return _offline(config, update, evaluation, stream.tasks, len(stream.label_order))
    steps, prefix = len(stream), int(stream.ends[tune_tasks(stream.tasks) - 1]) + 1
    return prefix * update, steps * update + steps / config.eval_every * evaluation


def _offline(config: RunConfig, update: float, evaluation: float, tasks: int, nodes: int) -> tuple[float, float]:
    chosen = {key: value for key, value in config.hyperparameters.items() if key in ("epochs", "joint_batch", "curve")}
    bound = Joint(**chosen)
    epoch = nodes / config.stream.batch_size * update + evaluation
    once = bound.epochs / 2 * epoch
    return once, once * ((tasks + 1) / 2 if bound.curve else 1)


def measured(config: RunConfig, data_root: Path | None) -> StepCost:
    """Measure a few steps of a method in the middle of its stream."""
    stream = shared(config, data_root)
    online = config.model_copy(update={"eval_every": 1, "prequential": "evaluated"})
    experiment = make_experiment(online, stream)
    steps = min(MEASURED, (len(stream) - 1) // 2)
    middle = (len(stream) - steps - 1) // 2
    if middle:
        stream.replay(experiment.learner, middle)
    experiment.done = middle
    for number in range(steps + 1):
        if number == 1:  # the first step has warmed up: caches are filled, classes have appeared
            experiment.learn_seconds = experiment.evaluate_seconds = 0.0
        Experiment.step(experiment)
    return StepCost(experiment.learn_seconds / max(steps, 1), experiment.evaluate_seconds / max(steps, 1))
