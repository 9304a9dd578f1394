"""The tables of the paper: mean ± std over seeds, the first three marked, beside the published numbers."""

import csv
import io
from dataclasses import dataclass

import numpy as np

from ocgl.experiments.results import RunResult
from ocgl.reporting.collect import METRICS, Bench, MethodRuns
from ocgl.reporting.estimates import MARK, Estimate, footnote, mark_of

LATEX_MARKS = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\underline{{{}}}", 3: r"\dashuline{{{}}}"}
MARKDOWN_MARKS = {0: "{}", 1: "**{}**", 2: "{} ²", 3: "{} ³"}
HEADS = {"AAP": "AAP", "AP": "AP", "AF_T": "AF"}
SPREAD = "mean ± population std over seeds"
"""What the tables show; the standard deviation is numpy's default, as in the paper."""
MUCH = 3.0
"""Points (or two published standard deviations, if that is more) beyond which a difference is marked."""


@dataclass(frozen=True)
class Cell:
    """One number: ours, its place among the first three (0: none), the published one, and how it was estimated."""

    mean: float | None
    std: float
    place: int
    published: tuple[float, float] | None
    estimate: Estimate | None = None

    @property
    def ours(self) -> str:
        """Mean ± std."""
        return "-" if self.mean is None else f"{self.mean:.2f} ± {self.std:.2f}"

    @property
    def mark(self) -> str:
        """What stands right of an estimate: a mark, and its interval."""
        return mark_of(self.estimate)

    @property
    def theirs(self) -> str:
        """The published mean ± std."""
        return "-" if self.published is None else f"{self.published[0]:.2f} ± {self.published[1]:.2f}"

    @property
    def difference(self) -> float | None:
        """Ours minus published."""
        return None if self.mean is None or self.published is None else self.mean - self.published[0]

    @property
    def gap(self) -> str:
        """The difference, with a mark where it is large."""
        return "-" if self.difference is None else f"{self.difference:+.2f}{' (!)' * self.far}"

    @property
    def far(self) -> bool:
        """Whether the difference is beyond three points and two published standard deviations."""
        return (
            self.difference is not None
            and self.published is not None
            and abs(self.difference) > max(MUCH, 2 * self.published[1])
        )


@dataclass(frozen=True)
class Row:
    """One method."""

    entry: MethodRuns
    cells: dict[str, Cell]

    @property
    def note(self) -> str:
        """What must be known of these numbers beside the protocol."""
        parts = []
        if len(self.entry.runs) == 1:
            parts.append("one seed")
        every = self.entry.runs[0].config.eval_every
        if every > 1 and not self.entry.offline:
            parts.append(f"AAP over every {every}th batch")
        if self.entry.estimate is not None:
            parts.append(self.entry.estimate.note)
        if self.entry.left_out:
            parts.append(f"{self.entry.left_out} runs with other settings or code left out")
        lost = sum(run.nonfinite_losses for run in self.entry.runs)
        if lost:
            parts.append(f"{lost} losses not finite")
        return ", ".join(parts)


def rows_of(bench: Bench) -> list[Row]:
    """Make the rows of a bench, best AAP first and bounds on top."""
    places = {metric: bench.place(metric) for metric in METRICS}
    rows = []
    for entry in bench.entries:
        cells = {}
        for metric in METRICS:
            values = entry.values(metric)
            mean, std = (None, 0.0) if values is None else (float(values.mean()), float(values.std()))
            estimate = entry.estimate if metric == "AAP" else None
            place = places[metric].get(entry.strategy, 0)
            cells[metric] = Cell(mean, std, place, bench.published(entry, metric), estimate)
        rows.append(Row(entry, cells))
    return rows


def compared(rows: list[Row]) -> bool:
    """Tell whether there is any published number to compare with."""
    return any(cell.published for row in rows for cell in row.cells.values())


def marks_of(rows: list[Row]) -> str | None:
    """Explain the marks of estimates; None where there are none."""
    return footnote(row.entry.estimate for row in rows)


def markdown(bench: Bench) -> str:
    """Write a bench's table as Markdown."""
    rows = rows_of(bench)
    extra = ("published", "difference") if compared(rows) else ()
    head = ["method", "seeds", *(part for m in METRICS for part in (HEADS[m], *(f"{HEADS[m]} {e}" for e in extra)))]
    lines = [_line(head), "|" + "---|" * len(head)]
    for row in rows:
        parts = [row.entry.title + (f" ({row.note})" if row.note else ""), str(len(row.entry.runs))]
        for metric in METRICS:
            cell = row.cells[metric]
            ours = MARKDOWN_MARKS[cell.place].format(cell.ours) + cell.mark
            parts += [ours, *((cell.theirs, cell.gap) if extra else ())]
        lines.append(_line(parts))
    marks = marks_of(rows)
    return "\n".join([*lines, "", f"{SPREAD}.", *(["", marks] if marks else [])]) + "\n"


def _line(parts: list[str]) -> str:
    return f"| {' | '.join(parts)} |"


def latex(bench: Bench) -> str:
    """Write a bench's table as LaTeX, as the paper does: bold, underlined, dashed."""
    rows = rows_of(bench)
    lines = [
        " & ".join([row.entry.title.replace("_", r"\_"), *(_latex_cell(row.cells[metric]) for metric in METRICS)])
        for row in rows
    ]
    body = " \\\\\n".join(lines)
    return (
        f"% {bench.key}: {SPREAD}. Needs booktabs and ulem (dashed underline).\n"
        "\\begin{tabular}{lccc}\n\\toprule\nmethod & AAP & AP & AF \\\\\n\\midrule\n"
        f"{body} \\\\\n\\bottomrule\n{_latex_marks(marks_of(rows))}\\end{{tabular}}\n"
    )


def _latex_marks(marks: str | None) -> str:
    if marks is None:
        return ""
    text = marks.replace("%", r"\%").replace(MARK, r"$^\dagger$")
    return f"\\multicolumn{{4}}{{p{{0.9\\linewidth}}}}{{\\footnotesize {text}}} \\\\\n"


def _latex_cell(cell: Cell) -> str:
    if cell.mean is None:
        return "--"
    ours = f"{LATEX_MARKS[cell.place].format(f'{cell.mean:.2f}')} $\\pm$ {cell.std:.2f}"
    return ours + cell.mark.replace(f" {MARK}", r"$^\dagger$")


def as_csv(bench: Bench) -> str:
    """Write a bench's table as CSV, one line per method and metric."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("dataset", "stream", "profile", "setting", "method", "buffer", "seeds", "metric", "mean", "std_population")
    more = ("published_mean", "published_std", "difference", "note", "kind", "interval_low", "interval_high")
    writer.writerow((*names, "place", *more))
    key = (bench.key.dataset, bench.key.stream, bench.key.profile, bench.key.setting)
    for row in rows_of(bench):
        for metric, cell in row.cells.items():
            if cell.mean is not None:
                theirs = cell.published or (None, None)
                facts = (row.entry.strategy, row.entry.buffer, len(row.entry.runs), metric, cell.mean, cell.std)
                ends = (cell.estimate.interval if cell.estimate else None) or (None, None)
                said = (row.note, "estimate" if cell.estimate else "exact", *ends)
                writer.writerow((*key, *facts, cell.place or None, *theirs, cell.difference, *said))
    return out.getvalue()


def per_update(run: RunResult) -> str | None:
    """Return the milliseconds per update of a run as text; None where there was no update."""
    return f"{1000 * run.learn_seconds / run.updates:.2f}" if run.updates else None


def size(count: float) -> str:
    """Write a number of bytes for people.

    >>> size(1536), size(3_500_000)
    ('1.5 kB', '3.5 MB')
    """
    if np.isnan(count):
        return "-"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"
