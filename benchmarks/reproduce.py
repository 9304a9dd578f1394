"""The paper's Amazon Computer table by the whole protocol, its buffer-size plot, and profile textbook beside it.

Everything finished is kept in results/amazon-computer and never computed again: stop it and call it again to continue.
Of what other code has left, a run and a trial of every method are computed again first; where they are equal to the
bit, the rest stands.
"""

import sys
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from benchmarks import results_page
from ocgl.benchmark import Sweep, Tally, carry_out
from ocgl.benchmark.executors import LocalExecutor
from ocgl.benchmark.results import Results, of_one_code
from ocgl.benchmark.verify import carry_over
from ocgl.report.terminal import bench_table, standing_table
from ocgl.strategies import find
from ocgl.strategies.registry import keys

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
        standing, verdicts = carry_over(OUT, pool)
        if verdicts:
            again = sum(len(verdict.equal) + len(verdict.different) for verdict in verdicts)
            console.print(f"{again} results of other code computed again; {standing} stand as proven equal to the bit")
        for title, sweep in sweeps().items():
            with Live(console=console, transient=True) as live:

                def watch(tally: Tally, live: Live = live) -> None:
                    live.update(standing_table(tally, time.monotonic() - begin))

                tally = carry_out(sweep, pool, watch)
            console.print(f"{title}: {tally.done} done, {tally.reused} of them before, {len(tally.failed)} failed")
            computed += tally.done - tally.reused
            failed += tally.failed
    console.print(bench_table(of_one_code(result for result in Results(OUT) if result["kind"] == "run")))
    console.print(f"{computed} trials and runs computed in {(time.monotonic() - begin) / 60:.1f} minutes")
    if not failed:
        Results(OUT).pack()
        results_page.write(OUT)
        console.print(f"written: {results_page.PAGE}")
    for failure in failed:
        console.print(failure, markup=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
