"""docs/results.md, written from what `make reproduce` keeps in results/: nothing in it is typed by hand."""

from pathlib import Path

import numpy as np
from scipy import stats

from ocgl.report import figures
from ocgl.report.collect import METRICS, Bench, Entry, collect
from ocgl.report.page import ranking
from ocgl.report.tables import HEADS, MUCH, Row, markdown, rows_of

PAGE = Path("docs/results.md")
NEAR = (1, 5)
"""Validation points within which other configurations are counted beside the selected one."""


def write(folder: Path, page: Path = PAGE) -> None:
    benches = {bench.key.profile: bench for bench in collect([folder]) if bench.key.setting == "main"}
    paper, textbook = benches["paper"], benches["textbook"]
    pictures = page.parent / "results"
    figures.draw(lambda: figures.anytime(paper), pictures / "anytime.png", dpi=130)
    figures.draw(lambda: figures.heats(paper), pictures / "tasks.png", dpi=130)
    figures.draw(lambda: figures.buffers(paper), pictures / "buffers.png", dpi=130)
    parts = [
        HEAD.format(folder=folder.as_posix(), much=f"{MUCH:g}", facts=_facts([paper, textbook])),
        "## Profile paper, beside the published table\n",
        markdown(paper),
        _agreement(paper),
        "![anytime](results/anytime.png)\n\n![tasks](results/tasks.png)\n",
        "## Selected configurations\n",
        _selected(paper),
        "## Buffer size\n",
        _buffers(paper),
        "![buffers](results/buffers.png)\n",
        "## Profile textbook (symmetric GCN), with a selection of its own\n",
        "The published numbers beside it are the paper's, whose GCN fits the unnormalised sum.\n",
        markdown(textbook),
        _selected(textbook),
    ]
    page.write_text("\n".join(parts))


def _facts(benches: list[Bench]) -> str:
    entries = [entry for bench in benches for entry in (*bench.entries, *bench.others)]
    runs = [run for entry in entries for run in entry.runs]
    hours = sum(run["learn_seconds"] + run["evaluate_seconds"] for run in runs) / 3600
    trials = sum(e.choice["selection"]["trials"] for b in benches for e in b.entries if e.choice is not None)
    versions = sorted({", ".join(f"{k} {v}" for k, v in sorted(run["versions"].items())) for run in runs})
    code = sorted({str(run["revision"])[:12] for run in runs})
    counts = f"{len(runs)} runs ({hours:.1f} hours of one core) and {trials} trials"
    earlier = sum("computed_by" in run for run in runs)
    proof = f"; {earlier} of the runs are of earlier code: one of each method, computed again, was equal to the bit"
    return f"{counts}; code {', '.join(code)}; {'; '.join(versions)}{proof if earlier else ''}"


def _agreement(bench: Bench) -> str:
    """Say in figures what agrees with the paper and what does not."""
    rows = [row for row in rows_of(bench) if any(cell.published for cell in row.cells.values())]
    far = {row.entry.title: [HEADS[m] for m in METRICS if row.cells[m].far] for row in rows}
    agree = [name for name, metrics in far.items() if not metrics]
    lines = [
        f"**Within the threshold in every metric ({len(agree)} of {len(rows)})**: {', '.join(agree) or 'none'}.",
        f"**Order**: the rank correlation (Spearman) of our means with the published ones is {_order(rows)}.",
    ]
    for row in rows:
        if far[row.entry.title]:
            gaps = ", ".join(f"{HEADS[m]} {row.cells[m].difference:+.1f}" for m in METRICS if row.cells[m].far)
            lines.append(f"- **{row.entry.title}** differs ({gaps}). {_near(row.entry)}")
    first, second = ranking(bench)[:2]
    assert second.comparison is not None
    verb = "is told apart from" if second.comparison.distinct else "cannot be told apart from"
    lines.append(
        f"\n{first.entry.title} is first by AAP and {verb} {second.entry.title} "
        f"(difference {second.comparison.difference:.2f}, corrected p {second.comparison.corrected:.1g})."
    )
    return "\n".join(lines) + "\n\n" + WHY


def _order(rows: list[Row]) -> str:
    found = []
    for metric in METRICS:
        pairs = [(c.mean, c.published[0]) for row in rows if (c := row.cells[metric]).published and c.mean is not None]
        found.append(f"{stats.spearmanr(*zip(*pairs, strict=True)).statistic:.2f} in {HEADS[metric]}")
    return ", ".join(found)


def _near(entry: Entry) -> str:
    """Say how sure the selection was: configurations that scored nearly the same on the tuning tasks."""
    if entry.choice is None:
        return ""
    best = entry.choice["selection"]["score"]
    scores = [value for _, value, _ in entry.choice["table"] if value is not None]
    near = [sum(best - value <= points for value in scores) - 1 for points in NEAR]
    return (
        f"On the tuning tasks {near[0]} of its {len(scores) - 1} other configurations came within {NEAR[0]} point "
        f"of the selected one ({best:.1f}), {near[1]} within {NEAR[1]}."
    )


def _selected(bench: Bench) -> str:
    lines = ["| method | configuration | validation AP | configurations | trials |", "|---|---|---|---|---|"]
    for entry in bench.entries:
        if entry.choice is not None:
            how = entry.choice["selection"]
            settings = ", ".join(f"{key} {value}" for key, value in entry.choice["settings"].items())
            lines.append(
                f"| {entry.title} | {settings} | {how['score']:.2f} | {how['configurations']} | {how['trials']} |"
            )
    return "\n".join(lines) + "\n"


def _buffers(bench: Bench) -> str:
    lines = ["| method | metric | " + " | ".join(e.buffer for e in next(iter(bench.sizes().values()))) + " |"]
    lines.append("|" + "---|" * (lines[0].count("|") - 1))
    for entries in bench.sizes().values():
        for metric in ("AAP", "AP"):
            values = [entry.values(metric) for entry in entries]
            cells = ["-" if v is None else f"{np.mean(v):.2f} ± {np.std(v):.2f}" for v in values]
            lines.append(f"| {entries[0].title} | {metric} | {' | '.join(cells)} |")
    notes = sorted({_stamp(entry) for entry in bench.others})
    return "\n".join(lines) + "\n\n" + "\n".join(f"{note}  " for note in notes) + "\n"


def _stamp(entry: Entry) -> str:
    run = entry.runs[0]
    at, every = run["selection"]["buffer"], run["config"]["eval_every"]
    return f"{entry.buffer}: configuration selected at {at}, AAP over every {every}th batch."


HEAD = """# Amazon Computer by the whole protocol

Written by `make reproduce` from `{folder}`; what is there is not computed again, unless code that can move a number has
changed since and a run or a trial of that method, computed again, is not equal to the bit. Every grid of the paper in
full on the first two tasks (configurations that are provably the same run done once), five seeds, 4 % memory, anytime
evaluation after every batch; mean ± standard deviation over seeds. First in bold, then ² and ³; bare and Joint have no
mark; Ridge and SLDA are not in the paper ([beyond.md](beyond.md)). AF is averaged over all tasks, as in the paper's
printed numbers. (!) marks differences beyond {much} points and two published standard deviations.

{facts}.
"""

WHY = """**Why.** A configuration is selected with one seed on two of five tasks; what is best there is not best over
all five. [reproduction-spread.md](reproduction-spread.md) runs the runners-up and other splits on the whole stream: for
LINEAR, PDGNN and A-GEM a runner-up comes within a point or two of the published values, for ER and SSM-A-GEM only one
ranked third; another split alone moves AP by up to 8 points. So selection and split can account for these differences;
that they do is not shown, as the authors' split, selected configurations and code are not public. LwF as specified
stays below the published values in every configuration near the top; the same page lists what was tried.
"""
