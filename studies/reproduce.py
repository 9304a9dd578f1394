"""The paper's Amazon Computer table by the whole protocol, its buffer-size plot, and profile textbook beside it.

Everything finished lies in results/amazon-computer and is never computed again: stop it and call it again to continue.
Of what other code has left, a run and a trial of every method are computed again first; where they are bit-equal, the
rest is adopted.
"""

import sys
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from ocgl.code import code_name
from ocgl.experiments import Sweep, SweepStatus, run_sweep
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import same_code
from ocgl.experiments.verify import verify_and_adopt
from ocgl.reporting.terminal import bench_table, status_table
from ocgl.strategies import find
from ocgl.strategies._core.registry import keys
from studies import results_page

DATASET = "amazon-computer"
OUT = Path("results") / DATASET
PUBLISHED = ("a-gem", "bare", "er", "ewc", "joint", "linear", "lwf", "mas", "pdgnn", "ssm-a-gem", "ssm-er", "twp")
BEYOND = ("ridge", "slda")
TEXTBOOK = ("linear", "pdgnn", "ssm-er", "er", "bare", "joint")
WORKERS = 2


def sweeps() -> dict[str, Sweep]:
    """List the parts, in the order in which they are run."""
    replay = tuple(name for name in PUBLISHED if "buffer_size" in keys(find(name)))
    smaller = Sweep(DATASET, replay, OUT, buffers=("1%", "2%"), eval_every=5, select_at="4%")
    return {
        "paper, 4 %": Sweep(DATASET, PUBLISHED, OUT),
        "beyond the paper, 4 %": Sweep(DATASET, BEYOND, OUT),
        "textbook, 4 %": Sweep(DATASET, TEXTBOOK, OUT, profile="textbook"),
        "paper, 1 and 2 %": smaller,
    }


def main() -> int:
    console = Console(width=150)
    begin = time.monotonic()
    failed: list[str] = []
    computed = 0
    with LocalExecutor(WORKERS) as pool:
        adopted, verdicts = verify_and_adopt(OUT, pool)
        if verdicts:
            again = sum(len(verdict.equal) + len(verdict.different) for verdict in verdicts)
            console.print(f"{again} results of other code computed again; {adopted} adopted as bit-equal")
        for title, sweep in sweeps().items():
            with Live(console=console, transient=True) as live:

                def show(status: SweepStatus, live: Live = live) -> None:
                    live.update(status_table(status, time.monotonic() - begin))

                status = run_sweep(sweep, pool, show)
            console.print(f"{title}: {status.done} done, {status.reused} of them before, {len(status.failed)} failed")
            computed += status.done - status.reused
            failed += status.failed
    current = {name: code_name(name) for name in (*PUBLISHED, *BEYOND)}
    console.print(bench_table(same_code(ResultStore(OUT).runs, current)))
    console.print(f"{computed} trials and runs computed in {(time.monotonic() - begin) / 60:.1f} minutes")
    if not failed:
        ResultStore(OUT).pack()
        results_page.write(OUT)
        console.print(f"written: {results_page.PAGE}")
    for failure in failed:
        console.print(failure, markup=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
