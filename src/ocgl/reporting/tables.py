"""Tables as in the paper: mean ± std over seeds with the best three marked, next to the published numbers."""

import csv
import io
from dataclasses import dataclass

import numpy as np

from ocgl.experiments.results import RunResult
from ocgl.reporting.collect import Bench, MethodRuns
from ocgl.reporting.estimates import MARK, Estimate, footnote, mark_of

LATEX_MARKS = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\underline{{{}}}", 3: r"\dashuline{{{}}}"}
MARKDOWN_MARKS = {0: "{}", 1: "**{}**", 2: "{} ²", 3: "{} ³"}
LATEX_ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "_%&#${}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\^{}", "\n": " "}
)
MARKDOWN_ESCAPES = str.maketrans({c: f"\\{c}" for c in "|*`[]\\"} | {"<": "&lt;", ">": "&gt;", "\n": " "})
HEADS = {"AAP": "AAP", "AP": "AP", "AF_T": "AF", "AF": "AF over T - 1"}
SPREAD = "mean ± population std over seeds"
"""Caption of the tables; the population standard deviation is numpy's default, and the paper's."""
TIED = "tied: from the lowest to the highest mean over the selected configuration and those tied with it in selection"
MUCH = 3.0
"""A difference is marked if it exceeds this many points and two published standard deviations."""


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    Attributes:
        mean: mean over seeds; None if there is no number.
        std: standard deviation over seeds.
        place: 1, 2 or 3 for the best three methods; 0 for the others.
        published: published mean and standard deviation.
        estimate: how the number was estimated; None if it is exact.
        tied: lowest and highest mean over the selected configuration and those tied with it; None without ties.
    """

    mean: float | None
    std: float
    place: int
    published: tuple[float, float] | None
    estimate: Estimate | None = None
    tied: tuple[float, float] | None = None

    @property
    def ours(self) -> str:
        """Mean ± std as text."""
        return "-" if self.mean is None else f"{self.mean:.2f} ± {self.std:.2f}"

    @property
    def mark(self) -> str:
        """The mark and the interval of an estimate; empty for an exact number."""
        return mark_of(self.estimate)

    @property
    def range(self) -> str:
        """The range over tied configurations as text."""
        return "-" if self.tied is None else f"{self.tied[0]:.2f} to {self.tied[1]:.2f}"

    @property
    def theirs(self) -> str:
        """The published mean ± std as text."""
        return "-" if self.published is None else f"{self.published[0]:.2f} ± {self.published[1]:.2f}"

    @property
    def difference(self) -> float | None:
        """Our mean minus the published mean."""
        return None if self.mean is None or self.published is None else self.mean - self.published[0]

    @property
    def gap(self) -> str:
        """The difference as text, marked with (!) if it is large."""
        return "-" if self.difference is None else f"{self.difference:+.2f}{' (!)' * self.far}"

    @property
    def far(self) -> bool:
        """Whether the difference exceeds both three points and two published standard deviations."""
        return (
            self.difference is not None
            and self.published is not None
            and abs(self.difference) > max(MUCH, 2 * self.published[1])
        )


@dataclass(frozen=True)
class Row:
    """The row of one method."""

    entry: MethodRuns
    cells: dict[str, Cell]

    @property
    def note(self) -> str:
        """Remarks on the numbers of the row; empty if there are none."""
        parts = []
        if len(self.entry.runs) == 1:
            parts.append("one seed")
        every = self.entry.runs[0].config.eval_every
        if every > 1 and not self.entry.offline:
            parts.append(f"AAP over every {every} batches")
        if self.entry.estimate is not None:
            parts.append(self.entry.estimate.note)
        if self.entry.left_out:
            parts.append(f"{self.entry.left_out} runs with other settings or code left out")
        nonfinite = sum(run.nonfinite_losses for run in self.entry.runs)
        if nonfinite:
            parts.append(f"{nonfinite} losses were not finite")
        return ", ".join(parts)


def rows_of(bench: Bench) -> list[Row]:
    """Return the rows of a bench: offline bounds first, then methods in order of AAP."""
    places = {metric: bench.place(metric) for metric in bench.metrics}
    rows = []
    for entry in bench.entries:
        cells = {}
        for metric in bench.metrics:
            values = entry.values(metric)
            mean, std = (None, 0.0) if values is None else (float(values.mean()), float(values.std()))
            estimate = entry.estimate if metric == "AAP" else None
            place = places[metric].get(entry.strategy, 0)
            cells[metric] = Cell(mean, std, place, bench.published(entry, metric), estimate, tied_range(entry, metric))
        rows.append(Row(entry, cells))
    return rows


def tied_range(entry: MethodRuns, metric: str) -> tuple[float, float] | None:
    """Return the lowest and highest mean over the selected configuration and those tied with it; None without ties."""
    means = [each.mean(metric) for each in (entry, *entry.ties)]
    return (min(means), max(means)) if entry.ties and not np.isnan(means).any() else None


def compared(rows: list[Row]) -> bool:
    """Return whether any cell has a published number."""
    return any(cell.published for row in rows for cell in row.cells.values())


def marks_of(rows: list[Row]) -> str | None:
    """Return the footnote on estimates; None if all numbers are exact."""
    return footnote(row.entry.estimate for row in rows)


def markdown(bench: Bench) -> str:
    """Return the table of a bench as Markdown."""
    rows = rows_of(bench)
    tied = ("tied",) if any(cell.tied for row in rows for cell in row.cells.values()) else ()
    extra = ("published", "difference") if compared(rows) else ()
    parts_of = {m: (HEADS[m], *(f"{HEADS[m]} {e}" for e in (*tied, *extra))) for m in bench.metrics}
    head = ["method", "seeds", *(part for parts in parts_of.values() for part in parts)]
    lines = [_line(head), "|" + "---|" * len(head)]
    for row in rows:
        title = row.entry.title.translate(MARKDOWN_ESCAPES)
        parts = [title + (f" ({row.note})" if row.note else ""), str(len(row.entry.runs))]
        for metric in bench.metrics:
            cell = row.cells[metric]
            ours = MARKDOWN_MARKS[cell.place].format(cell.ours) + cell.mark
            parts += [ours, *((cell.range,) if tied else ()), *((cell.theirs, cell.gap) if extra else ())]
        lines.append(_line(parts))
    marks = marks_of(rows)
    caption = f"{SPREAD}; {TIED}" if tied else SPREAD
    return "\n".join([*lines, "", f"{caption}.", *(["", marks] if marks else [])]) + "\n"


def _line(parts: list[str]) -> str:
    return f"| {' | '.join(parts)} |"


def latex(bench: Bench) -> str:
    """Return the table of a bench as LaTeX; the best three are bold, underlined and dashed, as in the paper."""
    rows = rows_of(bench)
    lines = [
        " & ".join([row.entry.title.translate(LATEX_ESCAPES), *(_latex_cell(cell) for cell in row.cells.values())])
        for row in rows
    ]
    body = " \\\\\n".join(lines)
    name = " ".join(str(bench.key).translate(LATEX_ESCAPES).split())
    heads = " & ".join(HEADS[metric] for metric in bench.metrics)
    return (
        f"% {name}: {SPREAD}. Needs booktabs and ulem (dashed underline).\n"
        f"\\begin{{tabular}}{{lccc}}\n\\toprule\nmethod & {heads} \\\\\n\\midrule\n"
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
    """Return the table of a bench as CSV, one line per method and metric."""
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
                remarks = (row.note, "estimate" if cell.estimate else "exact", *ends)
                writer.writerow((*key, *facts, cell.place or None, *theirs, cell.difference, *remarks))
    return out.getvalue()


def per_update(run: RunResult) -> str | None:
    """Return the milliseconds per update of a run as text; None without updates."""
    return f"{1000 * run.learn_seconds / run.updates:.2f}" if run.updates else None


def size(count: float) -> str:
    """Return a number of bytes as text with a unit.

    >>> size(1536), size(3_500_000)
    ('1.5 kB', '3.5 MB')
    """
    if np.isnan(count):
        return "-"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"
