"""Notes for an AAP that is estimated from a sample of the validation nodes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ocgl.experiments.results import RunResult

MARK = "†"
"""Marks an estimate."""


@dataclass(frozen=True)
class Estimate:
    """How AAP was estimated, for one run or for the seeds of one table cell.

    All seeds evaluate the same sample of nodes, so they have the same sampling error. A mean over seeds does not reduce
    this error, and the standard deviation over seeds does not include it.

    Attributes:
        nodes: validation nodes evaluated per task.
        coverage: coverage of the interval.
        interval: mean over seeds of both ends of the bootstrap interval; None if a run has no interval.
    """

    nodes: float
    coverage: float
    interval: tuple[float, float] | None

    @property
    def ends(self) -> str:
        """The interval as text."""
        return "no interval" if self.interval is None else f"{self.interval[0]:.2f} to {self.interval[1]:.2f}"

    @property
    def note(self) -> str:
        """The note of a table row."""
        return f"AAP estimated from about {self.nodes:,.0f} validation nodes a task"


def estimate_of(runs: Sequence[RunResult]) -> Estimate | None:
    """Return how the AAP of some runs was estimated; None if all are exact, or if a run has no AAP."""
    estimated = [run for run in runs if run.estimated]
    if not estimated or None in [run.AAP for run in runs]:
        return None
    intervals = [run.AAP_interval if run.estimated else (run.AAP, run.AAP) for run in runs]
    known = [interval for interval in intervals if interval is not None]
    low, high = np.mean(np.array(known, float), axis=0) if known else (np.nan, np.nan)
    nodes = float(np.mean([run.evaluation.nodes / run.statistics.tasks for run in estimated]))
    interval = (float(low), float(high)) if len(known) == len(runs) else None
    return Estimate(nodes, estimated[0].evaluation.coverage or 0.0, interval)


def mark_of(estimate: Estimate | None) -> str:
    """Return the mark and the interval to print after an estimate; empty for an exact number."""
    return "" if estimate is None else f" {MARK} ({estimate.ends})"


def footnote(estimates: Iterable[Estimate | None]) -> str | None:
    """Return the footnote that explains the marks of a table; None without marks."""
    found = [estimate for estimate in estimates if estimate is not None]
    if not found:
        return None
    least, most = (f"{pick(estimate.nodes for estimate in found):,.0f}" for pick in (min, max))
    nodes = least if least == most else f"{least} to {most}"
    return (
        f"{MARK} AAP is an estimate from about {nodes} validation nodes a task. In brackets: its "
        f"{found[0].coverage:.0%} bootstrap interval, the mean over seeds of both ends. All seeds evaluate the same "
        "nodes, so the standard deviation over seeds does not include this error, and more seeds do not reduce it."
    )


def sentence(run: RunResult) -> str | None:
    """Return a sentence on the interval of an estimated AAP; None if AAP is exact."""
    estimate = estimate_of([run])
    if estimate is None:
        return None
    evaluation = run.evaluation
    sample = f"{evaluation.nodes:,} of {evaluation.of:,} validation nodes, about {estimate.nodes:,.0f} a task"
    kind = "a bootstrap resample has no score" if estimate.interval is None else f"{estimate.coverage:.0%}, bootstrap"
    return f"AAP is an estimate from {sample}: {estimate.ends} ({kind})"
