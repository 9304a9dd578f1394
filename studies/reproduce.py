"""The paper's Amazon Computer tables by the whole protocol, in parts that can be stopped and continued.

    python -m studies.reproduce [PART ...] [--workers N] [--budget-minutes M]

Without a part, all of them. Everything finished lies in results/ and is never computed again. Of what other code has
left, a run and a trial of every method are computed again first; where they are bit-equal, the rest is adopted.
"""

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from ocgl.experiments import Sweep, SweepStatus, run_sweep
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.forecast import forecast
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.verify import verify_and_adopt
from ocgl.reporting.terminal import bench_table, forecast_text, status_table
from ocgl.strategies import find, names
from ocgl.strategies._core.registry import keys
from ocgl.types import Json
from studies import claims, results_page
from studies.mechanisms import MECHANISMS

DATASET = "amazon-computer"
OUT = Path("results") / DATASET
FIRST = Path("results") / f"{DATASET}-first-reading"
"""Results of the first reading, by version 0.1.0 on another processor; shown beside the new ones, and not verified."""
ABLATIONS = Path("results") / f"{DATASET}-ablations"
TRIED = Path("results") / f"{DATASET}-mechanisms"
COAUTHOR = Path("results") / "coauthor-cs"
PUBLISHED = ("a-gem", "bare", "er", "ewc", "joint", "linear", "lwf", "mas", "pdgnn", "ssm-a-gem", "ssm-er", "twp")
ONLINE = tuple(name for name in PUBLISHED if name != "joint")
BEYOND = ("ridge", "slda")
COARSE: Json = {"seeds": 3, "eval_every": 10, "grids": "half", "halving": True, "ties": 0}
"""How ablations and the second graph are run."""
SETTINGS = {
    "larger-batch": "Table 13",
    "full-neighborhood": "Table 14",
    "hidden-512": "Table 15",
    "hidden-128": "Table 16",
    "layers-3": "Table 17",
    "layers-1": "Table 18",
}


def sweeps() -> dict[str, list[Sweep]]:
    """List the parts, in the order in which they are run."""
    replay = tuple(name for name in ONLINE if "buffer_size" in keys(find(name)))
    parts = {
        "main": [Sweep(DATASET, PUBLISHED, OUT), Sweep(DATASET, BEYOND, OUT)],
        "buffers": [Sweep(DATASET, replay, OUT, buffers=("1%", "2%"), eval_every=5, select_at="4%", ties=0)],
    }
    for setting in SETTINGS:
        parts[setting] = [Sweep(DATASET, ONLINE, ABLATIONS, settings=(setting,), **COARSE)]
    online = tuple(name for name in names() if not find(name).offline)
    parts["coauthor-cs"] = [Sweep("coauthor-cs", online, COAUTHOR, **COARSE)]
    return parts


def mechanisms(outside: list[str]) -> list[Sweep]:
    """List the sweeps of what is tried for the methods that stay outside the threshold."""
    return [
        Sweep(DATASET, (name,), TRIED, overrides=changed, ties=0)
        for name in outside
        for changed in MECHANISMS[name].values()
    ]


class Reproduction:
    """Runs sweeps one after the other and remembers what they did.

    Args:
        workers: worker processes.
        budget_minutes: stop after this many minutes; None for no limit.
    """

    def __init__(self, workers: int, budget_minutes: float | None) -> None:
        self.console = Console(width=150)
        self.begin = time.monotonic()
        self.budget = budget_minutes
        self.failed: list[str] = []
        self.computed = 0
        self.pool = LocalExecutor(workers)

    @property
    def minutes_left(self) -> float | None:
        """Minutes of the budget that are left."""
        return None if self.budget is None else max(self.budget - (time.monotonic() - self.begin) / 60, 0.0)

    def adopt(self, folder: Path) -> None:
        """Verify what other code has left in a folder, and adopt it where it is bit-equal."""
        if folder.is_dir():
            adopted, verdicts = verify_and_adopt(folder, self.pool)
            again = sum(len(verdict.equal) + len(verdict.different) for verdict in verdicts)
            if again:
                self.console.print(f"{folder}: {again} results of other code re-run; {adopted} adopted as bit-equal")
            for verdict in verdicts:
                if verdict.different:
                    self.console.print(f"DIFFERENT: {' '.join(verdict.group)}: {', '.join(verdict.different)}")

    def run(self, title: str, sweep: Sweep) -> None:
        """Run a sweep, or what the budget allows of it."""
        if self.minutes_left == 0.0:
            return
        self.console.print(f"{title}: {forecast_text(forecast(sweep), None)}")
        with Live(console=self.console, transient=True) as live:

            def show(status: SweepStatus) -> None:
                live.update(status_table(status, time.monotonic() - self.begin))

            status = run_sweep(sweep, self.pool, show, self.minutes_left)
        self.console.print(f"{title}: {status.done} done, {status.reused} of them before, {len(status.failed)} failed")
        self.computed += status.done - status.reused
        self.failed += status.failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*sweeps(), "mechanisms", []], help="what to run (default: all)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget-minutes", type=float)
    given = parser.parse_args()
    wanted = given.parts or [*sweeps(), "mechanisms"]
    work = Reproduction(given.workers, given.budget_minutes)
    with work.pool:
        for folder in (OUT, ABLATIONS, TRIED, COAUTHOR):
            work.adopt(folder)
        for part, found in sweeps().items():
            for sweep in found if part in wanted else ():
                work.run(part, sweep)
        if "mechanisms" in wanted:
            for sweep in mechanisms(results_page.outside(OUT)):
                work.run(f"mechanism {dict(sweep.overrides)} of {sweep.strategies[0]}", sweep)
    work.console.print(bench_table([run for run in ResultStore(OUT).runs if run.profile == "paper"]))
    minutes = (time.monotonic() - work.begin) / 60
    work.console.print(f"{work.computed} trials and runs computed in {minutes:.1f} minutes")
    for failure in work.failed:
        work.console.print(failure, markup=False)
    if work.failed or work.minutes_left == 0.0:
        return 1 if work.failed else 0
    for folder in (OUT, ABLATIONS, TRIED, COAUTHOR):
        if folder.is_dir():
            ResultStore(folder).pack()
    results_page.write()
    claims.write()
    work.console.print(f"written: {results_page.PAGE}, {claims.PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
