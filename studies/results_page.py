"""docs/results.md from what `make reproduce` leaves in results/; the prose is in templates/results.md."""

import sys
from pathlib import Path

import numpy as np
from perf.pages import markdown_table, render
from scipy import stats

from ocgl.reporting import figures
from ocgl.reporting.collect import METRICS, Bench, MethodRuns, collect
from ocgl.reporting.page import ranking
from ocgl.reporting.tables import HEADS, MUCH, Row, markdown, rows_of
from ocgl.types import Json

PAGE = Path("docs/results.md")
TEMPLATE = Path(__file__).parent / "templates" / "results.md"
NEAR = (1, 5)
"""Validation points within which other configurations are counted beside the selected one."""


def write(folder: Path, page: Path = PAGE) -> None:
    """Write the page and its figures."""
    benches = {bench.key.profile: bench for bench in collect([folder]) if bench.key.setting == "main"}
    paper, textbook = benches["paper"], benches["textbook"]
    pictures = page.parent / "results"
    figures.draw(lambda: figures.anytime(paper), pictures / "anytime.png", dpi=130)
    figures.draw(lambda: figures.heats(paper), pictures / "tasks.png", dpi=130)
    figures.draw(lambda: figures.buffers(paper), pictures / "buffers.png", dpi=130)
    page.write_text(page_text(folder, paper, textbook))


def page_text(folder: Path, paper: Bench, textbook: Bench) -> str:
    """Fill in the template."""
    return render(
        TEMPLATE,
        folder=folder.as_posix(),
        threshold=f"{MUCH:g}",
        **_facts([paper, textbook]),
        **_agreement(paper),
        paper=markdown(paper).rstrip(),
        paper_selected=_selected(paper),
        buffers=_buffers(paper),
        buffer_notes=_buffer_notes(paper),
        textbook=markdown(textbook).rstrip(),
        textbook_selected=_selected(textbook),
    )


def _facts(benches: list[Bench]) -> Json:
    """Count what the page is made of."""
    entries = [entry for bench in benches for entry in (*bench.entries, *bench.others)]
    runs = [run for entry in entries for run in entry.runs]
    choices = [entry.choice for bench in benches for entry in bench.entries if entry.choice is not None]
    return {
        "runs": len(runs),
        "hours": sum(run.learn_seconds + run.evaluate_seconds for run in runs) / 3600,
        "trials": sum(choice.selection.trials for choice in choices),
        "revisions": sorted({str(run.revision)[:12] for run in runs}),
        "versions": sorted({", ".join(f"{k} {v}" for k, v in sorted(run.versions.items())) for run in runs}),
        "adopted": sum(run.computed_by is not None for run in runs),
    }


def _agreement(bench: Bench) -> Json:
    """Compare with the published table, and the first two methods with each other."""
    rows = [row for row in rows_of(bench) if any(cell.published for cell in row.cells.values())]
    far = {row.entry.title: [m for m in METRICS if row.cells[m].far] for row in rows}
    differing = [
        {
            "title": row.entry.title,
            "gaps": ", ".join(f"{HEADS[m]} {row.cells[m].difference:+.1f}" for m in far[row.entry.title]),
            "near": _near(row.entry),
        }
        for row in rows
        if far[row.entry.title]
    ]
    first, second = ranking(bench)[:2]
    assert second.comparison is not None
    return {
        "published": len(rows),
        "agreeing": [title for title, metrics in far.items() if not metrics],
        "correlations": _correlations(rows),
        "differing": differing,
        "first": first.entry.title,
        "second": second.entry.title,
        "comparison": second.comparison,
    }


def _correlations(rows: list[Row]) -> dict[str, float]:
    """Return the rank correlation of our means with the published ones, by metric."""
    found = {}
    for metric in METRICS:
        pairs = [(c.mean, c.published[0]) for row in rows if (c := row.cells[metric]).published and c.mean is not None]
        found[HEADS[metric]] = float(stats.spearmanr(*zip(*pairs, strict=True)).statistic)
    return found


def _near(entry: MethodRuns) -> Json | None:
    """Count the configurations that scored nearly as well as the selected one on the tuning tasks."""
    best = None if entry.choice is None else entry.choice.selection.score
    if entry.choice is None or best is None:
        return None
    scores = [value for _, value, _ in entry.choice.table if value is not None]
    within = {points: sum(best - value <= points for value in scores) - 1 for points in NEAR}
    return {"score": best, "others": len(scores) - 1, "within": within}


def _selected(bench: Bench) -> str:
    lines = []
    for entry in bench.entries:
        if entry.choice is not None:
            how = entry.choice.selection
            settings = ", ".join(f"{key} {value}" for key, value in entry.choice.settings.items())
            lines.append((entry.title, settings, f"{how.score:.2f}", str(how.configurations), str(how.trials)))
    return markdown_table(("method", "configuration", "validation AP", "configurations", "trials"), lines)


def _buffers(bench: Bench) -> str:
    lines = []
    for entries in bench.sizes().values():
        for metric in ("AAP", "AP"):
            values = [entry.values(metric) for entry in entries]
            cells = ["-" if v is None else f"{np.mean(v):.2f} ± {np.std(v):.2f}" for v in values]
            lines.append((entries[0].title, metric, *cells))
    return markdown_table(("method", "metric", *(e.buffer for e in next(iter(bench.sizes().values())))), lines)


def _buffer_notes(bench: Bench) -> list[tuple[str, str, int]]:
    """Return for each other buffer size where it was selected, and after how many batches it was evaluated."""
    runs = [entry.runs[0] for entry in bench.others]
    return sorted({(r.buffer, r.selection.buffer, r.config.eval_every) for r in runs if r.selection is not None})


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "results/amazon-computer"))
