"""What is said beside an AAP that was estimated from a part of the validation nodes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ocgl.experiments.results import RunResult

MARK = "†"


@dataclass(frozen=True)
class Estimate:
    """An estimated AAP of one run, or of the seeds of one cell.

    `interval` is the mean of the runs' bootstrap intervals, end by end. The seeds of a cell ask the same nodes, so what
    the choice of nodes does to one it does to all: averaging over seeds does not make it smaller, nor does their
    spread show it.
    """

    nodes: float
    coverage: float
    interval: tuple[float, float] | None

    @property
    def ends(self) -> str:
        """The interval in words."""
        return "no interval" if self.interval is None else f"{self.interval[0]:.2f} to {self.interval[1]:.2f}"

    @property
    def note(self) -> str:
        """What a row says of it."""
        return f"AAP estimated from about {self.nodes:,.0f} validation nodes a task"


def estimate_of(runs: Sequence[RunResult]) -> Estimate | None:
    """Return how the AAP of some runs was estimated; None where it is exact in all, or where there is none."""
    asked = [run for run in runs if run.estimated]
    if not asked or None in [run.AAP for run in runs]:
        return None
    intervals = [run.AAP_interval if run.estimated else (run.AAP, run.AAP) for run in runs]
    known = [interval for interval in intervals if interval is not None]
    low, high = np.mean(np.array(known, float), axis=0) if known else (np.nan, np.nan)
    nodes = float(np.mean([run.evaluation.nodes / run.statistics.tasks for run in asked]))
    interval = (float(low), float(high)) if len(known) == len(runs) else None
    return Estimate(nodes, asked[0].evaluation.coverage or 0.0, interval)


def mark_of(estimate: Estimate | None) -> str:
    """Give what stands right of a number: nothing, or the mark and the interval."""
    return "" if estimate is None else f" {MARK} ({estimate.ends})"


def footnote(estimates: Iterable[Estimate | None]) -> str | None:
    """Explain the marks of a table; None where there are none."""
    found = [estimate for estimate in estimates if estimate is not None]
    if not found:
        return None
    least, most = (f"{pick(estimate.nodes for estimate in found):,.0f}" for pick in (min, max))
    nodes = least if least == most else f"{least} to {most}"
    return (
        f"{MARK} AAP is an estimate from about {nodes} validation nodes a task; in brackets its "
        f"{found[0].coverage:.0%} bootstrap interval, the mean over seeds of both ends. Every seed asks the same "
        "nodes: the spread over seeds does not hold this error, and more seeds do not make it smaller."
    )


def sentence(run: RunResult) -> str | None:
    """Return how far the AAP of one run may be off, in words; None where it is exact."""
    estimate = estimate_of([run])
    if estimate is None:
        return None
    asked = run.evaluation
    part = f"{asked.nodes:,} of {asked.of:,} validation nodes, about {estimate.nodes:,.0f} a task"
    kind = "a resample had no score" if estimate.interval is None else f"{estimate.coverage:.0%}, bootstrap"
    return f"AAP is an estimate from {part}: {estimate.ends} ({kind})"
