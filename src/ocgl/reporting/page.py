"""Write finished runs as one self-contained HTML page."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from ocgl.experiments.expansion import Expansion
from ocgl.files import write_whole
from ocgl.reporting import plots
from ocgl.reporting.collect import Bench, Key, MethodRuns
from ocgl.reporting.estimates import estimate_of, footnote, mark_of
from ocgl.reporting.extras import require_report_extra
from ocgl.reporting.statistics import Comparison, Ranks, against_best, interval, mean_ranks
from ocgl.reporting.tables import HEADS, SPREAD, TIED, compared, marks_of, rows_of, size
from ocgl.types import Json


@dataclass(frozen=True)
class Place:
    """One line of a ranking.

    Attributes:
        entry: runs of the method.
        place: position in the ranking, from 1.
        interval: 95 % bootstrap interval of the mean over seeds.
        ap: mean and standard deviation of AP.
        comparison: comparison with the first method; None for the first.
    """

    entry: MethodRuns
    place: int
    interval: tuple[float, float] | None
    ap: tuple[float, float] | None
    comparison: Comparison | None


def write_report(benches: list[Bench], page: Path, expansions: dict[Key, Expansion], left_out: int = 0) -> None:
    """Write the report page.

    Args:
        benches: the benches to report.
        page: HTML file to write.
        expansions: neighbourhood expansions of the benches for which one was measured.
        left_out: number of damaged files that were left out.
    """
    require_report_extra("the report page")
    sections = [_section(bench, expansions.get(bench.key)) for bench in benches]
    html = (
        environment()
        .get_template("report.html")
        .render(
            sections=sections,
            facts=_facts(benches) | {"left_out": left_out},
            across=_across(benches),
            streams=len(main_benches(benches)),
            spread=SPREAD,
            marks=footnote(entry.estimate for bench in benches for entry in (*bench.entries, *bench.others)),
            tied=TIED,
            heads=HEADS,
            plotly=plotly_source(),
        )
    )
    write_whole(page, html.encode())


@cache
def environment() -> Any:
    """Return the Jinja environment of the templates; values are escaped unless marked as HTML."""
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.PackageLoader("ocgl.reporting"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    found.filters["size"] = size
    found.filters["mark"] = mark_of
    found.filters["estimate"] = lambda run: estimate_of([run])
    found.filters["pvalue"] = lambda p: "< 0.001" if p < 0.001 else f"{p:.3f}"
    found.filters["options"] = lambda values: ", ".join(f"{key} {value}" for key, value in values.items())
    return found


def plotly_source() -> str:
    """Return the source of plotly.js, which is put into the page so that it needs no network."""
    from plotly.offline import get_plotlyjs

    return cast(str, get_plotlyjs())


def _section(bench: Bench, measured: Expansion | None) -> Json:
    rows = rows_of(bench)
    name = bench.key.slug
    tuned = [entry for entry in bench.entries if entry.choice is not None]
    costs = [(plots.cost(bench, what), what) for what in ("milliseconds", "touched")] if bench.costed else []
    sizes = [(plots.buffers(bench, metric), metric) for metric in ("AAP", "AP")] if bench.sizes() else []
    return {
        "bench": bench,
        "rows": rows,
        "compared": compared(rows),
        "marks": marks_of(rows),
        "ties": any(cell.tied for row in rows for cell in row.cells.values()),
        "ranking": ranking(bench),
        "anytime": plots.div(plots.anytime(bench), 460, f"{name}-anytime"),
        "heats": _heats(bench),
        "buffers": [plots.div(figure, 320, f"{name}-buffers-{metric}") for figure, metric in sizes],
        "buffer_notes": _buffer_notes(bench),
        "costs": [plots.div(figure, 340, f"{name}-cost-{what}") for figure, what in costs],
        "tuned": tuned,
        "trials": plots.div(plots.trials(tuned), 26 * len(tuned) + 70, f"{name}-trials") if tuned else None,
        "expansion": plots.div(plots.expansion(measured), 360, f"{name}-expansion") if measured else None,
    }


def _heats(bench: Bench) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in bench.entries:
        if entry.curves is not None:
            height = min(36 * entry.curves.per_task.shape[1], 240) + 30
            name = f"{bench.key.slug}-heat-{len(found)}"
            found.append((entry.title, plots.div(plots.heat(entry), height, name)))
    return found


def ranking(bench: Bench, metric: str = "AAP") -> list[Place]:
    """Return the ranked methods in order of a metric, each compared with the first."""
    entries = [e for e in bench.entries if e.ranked and e.values(metric) is not None]
    entries.sort(key=lambda e: -e.mean(metric))
    values = {e.strategy: v for e in entries if (v := e.values(metric)) is not None}
    compared_to = {row.other: row for row in against_best(values)[1]} if len(values) > 1 else {}
    found = []
    for place, entry in enumerate(entries, start=1):
        ap = entry.values("AP")
        spread = None if ap is None else (float(ap.mean()), float(ap.std()))
        found.append(Place(entry, place, interval(values[entry.strategy]), spread, compared_to.get(entry.strategy)))
    return found


def rank_over(benches: Sequence[Bench], metric: str = "AAP") -> Ranks | None:
    """Return the mean ranks of the methods that all benches have; None with one bench or with too few methods.

    Each bench is one block of the Friedman test, with the mean over seeds of each method. Seeds of one stream are not
    separate blocks, because they are not independent.
    """
    if len(benches) < 2:
        return None
    common = set.intersection(*({e.strategy for e in b.entries if e.ranked} for b in benches))
    names = [e.strategy for e in benches[0].entries if e.strategy in common]
    names = [
        n for n in names if all(e.values(metric) is not None for b in benches for e in b.entries if e.strategy == n)
    ]
    titles = {e.strategy: e.title for b in benches for e in b.entries}
    blocks = [[e.mean(metric) for n in names for e in bench.entries if e.strategy == n] for bench in benches]
    return mean_ranks([titles[name] for name in names], np.array(blocks)) if names else None


def _across(benches: list[Bench]) -> Json | None:
    """Return the rank test over streams, and its plot; None if it cannot be made."""
    ranks = rank_over(main_benches(benches))
    if ranks is None:
        return None
    return {"ranks": ranks, "plot": plots.div(plots.ranks(ranks), 34 * len(ranks.names) + 110, "across-ranks")}


def main_benches(benches: Sequence[Bench]) -> list[Bench]:
    """Return the benches of the rank test over streams: profile `paper`, setting `main`."""
    return [b for b in benches if b.key.profile == "paper" and b.key.setting == "main"]


def _facts(benches: list[Bench]) -> Json:
    runs = [run for bench in benches for entry in (*bench.entries, *bench.others) for run in entry.runs]
    tried = sum(e.choice.selection.trials for b in benches for e in b.entries if e.choice is not None)
    return {
        "runs": len(runs),
        "unchecked": sum(not run.checked for run in runs),
        "trials": tried,
        "datasets": sorted({bench.key.dataset for bench in benches}),
        "methods": sorted({run.strategy for run in runs}),
        "seeds": sorted({len(entry.runs) for bench in benches for entry in bench.entries}),
        "revisions": sorted({run.revision[:12] if run.revision else "unknown revision" for run in runs}),
        "versions": sorted({", ".join(f"{k} {v}" for k, v in sorted(run.versions.items())) for run in runs}),
        "hours": sum(run.learn_seconds + run.evaluate_seconds for run in runs) / 3600,
    }


def _buffer_notes(bench: Bench) -> list[str]:
    notes = set()
    for entry in bench.others:
        run = entry.runs[0]
        at = entry.buffer if run.selection is None else run.selection.buffer
        if at != entry.buffer:
            notes.add(f"{entry.buffer}: configuration selected at {at}")
        if run.config.eval_every > 1:
            notes.add(f"{entry.buffer}: AAP over every {run.config.eval_every} batches")
        if entry.estimate is not None:
            notes.add(f"{entry.buffer}: {entry.estimate.note}")
    return sorted(notes)
