"""docs/results.md, and the table in README.md, from what `make reproduce` leaves in results/.

The prose is in templates/results.md.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from perf.pages import markdown_table, render
from scipy import stats

from ocgl.experiments import Sweep
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import RunResult, TrialResult
from ocgl.experiments.sweep import finished
from ocgl.reporting import figures
from ocgl.reporting.collect import METRICS, Bench, MethodRuns, collect
from ocgl.reporting.methods import title_of
from ocgl.reporting.published import published
from ocgl.reporting.tables import HEADS, MARKDOWN_MARKS, MUCH, Cell, Row, rows_of
from ocgl.strategies._core.registry import built_in
from ocgl.types import Json
from studies.mechanisms import MECHANISMS

PAGE = Path("docs/results.md")
README = Path("README.md")
RESULTS = Path("results")
DATASET = "amazon-computer"
TEMPLATE = Path(__file__).parent / "templates" / "results.md"
TABLES = {
    "larger-batch": ("13", "batches of 50 instead of 10"),
    "full-neighborhood": ("14", "all neighbours instead of 10"),
    "hidden-512": ("15", "512 hidden units instead of 256"),
    "hidden-128": ("16", "128 hidden units instead of 256"),
    "layers-3": ("17", "three layers instead of two"),
    "layers-1": ("18", "one layer instead of two"),
}
DECIDING = ("AAP", "AP")
"""Metrics in which a method has to be within the threshold; AF follows from AP and the diagonal."""
IN_README = {
    "joint": "Joint (offline bound)",
    "ridge": "Ridge (not in the paper)",
    **dict.fromkeys(("linear", "pdgnn", "ssm-er", "er", "bare")),
}
"""Methods of the table in README.md, and their titles where they need a word more."""
MARKED = re.compile(r"(?<=<!-- results -->\n).*(?=<!-- end of results -->)", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """Where results lie: a folder of folders, and the dataset."""

    folder: Path = RESULTS
    dataset: str = DATASET

    @property
    def main(self) -> Path:
        return self.folder / self.dataset

    def benches(self, part: str) -> dict[tuple[str, str], Bench]:
        """Return the benches in a folder by profile and setting; none if there is no folder."""
        folder = self.folder / part
        if not folder.is_dir() or not any(ResultStore(folder).runs):
            return {}
        return {(bench.key.profile, bench.key.setting): bench for bench in collect([folder])}


def outside(folder: Path) -> list[str]:
    """List the methods whose AAP or AP is not within the threshold of the published one."""
    bench = next(b for b in collect([folder]) if (b.key.profile, b.key.setting) == ("paper", "main"))
    return [row.entry.strategy for row in rows_of(bench) if any(row.cells[m].far for m in DECIDING)]


def write(source: Source = Source(), page: Path = PAGE) -> None:
    """Write the page and its figures."""
    benches = source.benches(source.dataset)
    paper = benches["paper", "main"]
    pictures = page.parent / "results"
    figures.draw(lambda: figures.anytime(paper), pictures / "anytime.png", dpi=130)
    figures.draw(lambda: figures.heats(paper), pictures / "tasks.png", dpi=130)
    if paper.sizes():
        figures.draw(lambda: figures.buffers(paper), pictures / "buffers.png", dpi=130)
    page.write_text(page_text(source))
    if page == PAGE:
        README.write_text(MARKED.sub(lambda _: f"\n{readme_table(source)}\n\n", README.read_text()))


def readme_table(source: Source) -> str:
    """Return the table of README.md: AAP and AP of some methods, with the published ones."""
    rows = {row.entry.strategy: row for row in rows_of(source.benches(source.dataset)["paper", "main"])}
    lines = []
    for name, title in IN_README.items():
        if name in rows:
            cells = [rows[name].cells[metric] for metric in DECIDING]
            lines.append((title or title_of(name), *(c.ours for c in cells), *(c.theirs for c in cells)))
    return markdown_table(("method", "AAP", "AP", "AAP published", "AP published"), lines)


def page_text(source: Source) -> str:
    """Fill in the template."""
    benches = source.benches(source.dataset)
    paper = benches["paper", "main"]
    first = source.benches(f"{source.dataset}-first-reading").get(("first-reading", "main"))
    ablations = source.benches(f"{source.dataset}-ablations")
    other = source.benches("coauthor-cs").get(("paper", "main"))
    return render(
        TEMPLATE,
        threshold=f"{MUCH:g}",
        cost=_cost(source),
        main=table(paper, first),
        unfinished=_unfinished(paper),
        agreement=agreement(paper),
        first_agreement=None if first is None else agreement(first),
        outside=[_outside(source, row) for row in _outside_rows(paper)],
        near_joint=near_joint(paper, first),
        selected=_selected(paper),
        buffers=_buffers(paper) if paper.sizes() else None,
        buffer_notes=_buffer_notes(paper),
        ablations=[_ablation(setting, ablations, paper) for setting in TABLES if ("paper", setting) in ablations],
        missing=[TABLES[setting][0] for setting in TABLES if ("paper", setting) not in ablations],
        coauthor=None if other is None else _coauthor(other),
    )


def _cost(source: Source) -> Json:
    """Count the runs and trials of all folders, and the hours of one core that they took."""
    runs: list[RunResult] = []
    trials: list[TrialResult] = []
    for folder in sorted(path for path in source.folder.iterdir() if path.is_dir()):
        for result in ResultStore(folder):
            if isinstance(result, RunResult):
                runs.append(result)
            elif isinstance(result, TrialResult):
                trials.append(result)
    timed = [trial.seconds for trial in trials if trial.seconds is not None]
    return {
        "runs": len(runs),
        "run_hours": sum(run.learn_seconds + run.evaluate_seconds for run in runs) / 3600,
        "trials": len(trials),
        "trial_hours": sum(timed) / 3600,
        "untimed": len(trials) - len(timed),
        "revisions": sorted({str(run.revision)[:12] for run in runs}),
        "versions": sorted({", ".join(f"{k} {v}" for k, v in sorted(run.versions.items())) for run in runs}),
        "adopted": sum(run.computed_by is not None for run in runs),
    }


def _unfinished(bench: Bench, seeds: int = 5) -> list[str]:
    """List the methods of the published table that have no run, or fewer than wanted."""
    runs = {entry.strategy: len(entry.runs) for entry in bench.entries}
    where = (bench.key.stream, bench.key.setting)
    theirs = [name for name in sorted(built_in()) if published(bench.key.dataset, name, "AP", *where)]
    return [f"{title_of(name)} ({runs.get(name, 0)} of {seeds} seeds)" for name in theirs if runs.get(name, 0) < seeds]


def table(bench: Bench, first: Bench | None = None) -> str:
    """Return a table with ours, tied, published, difference and first reading."""
    rows = rows_of(bench)
    earlier = {} if first is None else {row.entry.strategy: row.cells for row in rows_of(first)}
    compared = any(cell.published for row in rows for cell in row.cells.values())
    extra = [*(["published", "difference"] if compared else []), "tied", *(["first reading"] if earlier else [])]
    head = ["method", *(part for m in METRICS for part in (HEADS[m], *(f"{HEADS[m]} {e}" for e in extra)))]
    complete = not _unfinished(bench, len(rows[0].entry.runs))  # no places in a table that lacks methods
    lines = []
    for row in rows:
        line = [row.entry.title + (f" ({len(row.entry.runs)} seeds)" if len(row.entry.runs) != 5 else "")]
        for metric in METRICS:
            cell = row.cells[metric]
            line.append(MARKDOWN_MARKS[cell.place if complete else 0].format(cell.ours) + cell.mark)
            line += [cell.theirs, cell.gap] if compared else []
            line.append(cell.range)
            if earlier:
                line.append(_ours(earlier.get(row.entry.strategy, {}).get(metric)))
        lines.append(line)
    for name, cells in earlier.items():
        if name not in {row.entry.strategy for row in rows}:  # not computed yet
            parts = [(["-"], [c.theirs, "-"] if compared else [], ["-", c.ours]) for c in cells.values()]
            lines.append([title_of(name), *(text for part in parts for group in part for text in group)])
    return markdown_table(head, lines)


def _ours(cell: Cell | None) -> str:
    return "-" if cell is None else cell.ours


def agreement(bench: Bench) -> Json:
    """Count the methods within the threshold in each metric, and correlate our means with the published ones."""
    rows = [row for row in rows_of(bench) if any(cell.published for cell in row.cells.values())]
    counts, correlations = {}, {}
    for metric in METRICS:
        cells = [(row.entry.title, cell) for row in rows if (cell := row.cells[metric]).difference is not None]
        if cells:
            within = [title for title, cell in cells if not cell.far]
            counts[HEADS[metric]] = (len(within), len(cells), [title for title, cell in cells if cell.far])
            pairs = [(cell.mean, cell.published[0]) for _, cell in cells if cell.published]
            correlations[HEADS[metric]] = float(stats.spearmanr(*zip(*pairs, strict=True)).statistic)
    return {"counts": counts, "correlations": correlations}


def _outside_rows(bench: Bench) -> list[Row]:
    return [row for row in rows_of(bench) if any(row.cells[metric].far for metric in DECIDING)]


def _outside(source: Source, row: Row) -> Json:
    """Return a method outside the threshold, with what was tried for it and what that gave."""
    name = row.entry.strategy
    lines = [("as selected", *(row.cells[m].ours for m in METRICS), "")]
    lines.append(("published", *(row.cells[m].theirs for m in METRICS), ""))
    untried = []
    for what, changed in MECHANISMS[name].items():
        folder = source.folder / f"{source.dataset}-mechanisms"
        sweep = Sweep(source.dataset, (name,), folder, overrides=changed, ties=0)
        runs = finished(sweep) if folder.is_dir() else []
        if not runs:
            untried.append(what)
            continue
        entry = MethodRuns(name, runs[0].buffer, runs, ResultStore(folder))
        cells = [_tried(entry, row.cells[metric], metric) for metric in METRICS]
        lines.append((what, *cells, _configuration(runs[0], set(changed))))
    head = ("variant", *(HEADS[m] for m in METRICS), "selected configuration")
    return {
        "title": row.entry.title,
        "gaps": ", ".join(f"{HEADS[m]} {row.cells[m].difference:+.1f}" for m in METRICS if row.cells[m].far),
        "tied": ", ".join(f"{HEADS[m]} {row.cells[m].range}" for m in METRICS if row.cells[m].tied),
        "table": markdown_table(head, lines),
        "untried": untried,
    }


def _tried(entry: MethodRuns, cell: Cell, metric: str) -> str:
    values = entry.values(metric)
    if values is None:
        return "-"
    mine = Cell(float(values.mean()), float(values.std()), 0, cell.published)
    return f"{mine.ours}{' (!)' * mine.far}"


def _configuration(run: RunResult, without: set[str]) -> str:
    chosen = {key: value for key, value in run.config.hyperparameters.items() if key not in without}
    return ", ".join(f"{key} {value}" for key, value in chosen.items())


def near_joint(paper: Bench, first: Bench | None) -> Json | None:
    """Split the difference in AP between Joint and LINEAR into what Joint, and what LINEAR, differ from the paper."""
    rows = {row.entry.strategy: row for row in rows_of(paper)}
    if not {"joint", "linear"} <= rows.keys():
        return None
    joint, linear = rows["joint"].cells["AP"], rows["linear"].cells["AP"]
    assert joint.mean is not None and linear.mean is not None
    earlier = {} if first is None else {row.entry.strategy: row.cells["AP"].mean for row in rows_of(first)}
    before = [earlier.get(name) for name in ("joint", "linear")]
    published = None
    if joint.published and linear.published:
        published = joint.published[0] - linear.published[0]
    low, high = linear.tied or (linear.mean, linear.mean)
    return {
        "now": joint.mean - linear.mean,
        "tied": (joint.mean - high, joint.mean - low) if linear.tied else None,
        "published": published,
        "first": None if None in before else before[0] - before[1],  # type: ignore[operator]
        "by_joint": joint.difference,
        "by_linear": None if linear.difference is None else -linear.difference,
        "linear_spread": linear.std,
    }


def _ablation(setting: str, ablations: dict[tuple[str, str], Bench], paper: Bench) -> Json:
    number, what = TABLES[setting]
    bench = ablations["paper", setting]
    how = next(entry.choice.selection for entry in bench.entries if entry.choice is not None)
    main = {row.entry.strategy: row.cells["AAP"].mean for row in rows_of(paper)}
    changes = {
        row.entry.title: row.cells["AAP"].mean - before
        for row in rows_of(bench)
        if (before := main.get(row.entry.strategy)) is not None and row.cells["AAP"].mean is not None
    }
    return {
        "number": number,
        "what": what,
        "table": table(bench),
        "agreement": agreement(bench),
        "selection": how.sentence(),
        "seeds": len(bench.entries[0].runs),
        "every": bench.entries[0].runs[0].config.eval_every,
        "median_change": float(np.median(list(changes.values()))) if changes else None,
    }


def _coauthor(bench: Bench) -> Json:
    how = next(entry.choice.selection for entry in bench.entries if entry.choice is not None)
    run = bench.entries[0].runs[0]
    return {"table": table(bench), "selection": how.sentence(), "every": run.config.eval_every}


def _selected(bench: Bench) -> str:
    lines = []
    for entry in bench.entries:
        if entry.choice is not None:
            how = entry.choice.selection
            settings = ", ".join(f"{key} {value}" for key, value in entry.choice.settings.items())
            score = "-" if how.score is None else f"{how.score:.2f}"
            error = "-" if how.error is None else f"{how.error:.2f}"
            lines.append((entry.title, settings, score, error, str(how.ties), str(how.configurations), str(how.trials)))
    head = ("method", "configuration", "validation AP", "standard error", "tied", "configurations", "trials")
    return markdown_table(head, lines)


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
    write(Source(Path(sys.argv[1] if len(sys.argv) > 1 else RESULTS)))
