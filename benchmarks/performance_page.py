"""docs/performance.md, with its plots, from what `make bench` has measured: nothing in it is typed by hand."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.scale import CHUNK
from benchmarks.updates import HEADS, Row
from ocgl.report.figures import draw
from ocgl.types import Json

PAGE = Path("docs/performance.md")
FIGURES = Path("docs/performance")


def write(rows: list[Row], runs: dict[str, Json], sizes: list[Json], machine: str) -> None:
    """Write the page, its plots and the JSON behind it."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    draw(lambda: _latency(sizes), FIGURES / "latency.png", dpi=130)
    draw(lambda: _evaluation(sizes), FIGURES / "evaluation.png", dpi=130)
    parts = [
        HEAD.format(machine=machine, chunk=CHUNK),
        _ratios(rows),
        WHOLE,
        _table(_whole(runs)),
        SIZES,
        _table(_sizes(sizes)),
        "\n![latency](performance/latency.png)\n\n![evaluation](performance/evaluation.png)\n",
    ]
    PAGE.write_text("\n".join(parts))
    found = {"rows": [row.record for row in rows], "runs": runs, "sizes": sizes}
    (FIGURES / "figures.json").write_text(json.dumps(found, indent=1) + "\n")


def _table(lines: Iterable[Iterable[str]]) -> str:
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([rows[0], "|" + "---|" * rows[0].count(" | ") + "---|", *rows[1:]]) + "\n"


def _ratios(rows: list[Row]) -> str:
    said = {True: "met", False: "**missed**", None: ""}
    return _table([HEADS, *((*row.cells, said[row.met]) for row in rows)])


def _whole(runs: dict[str, Json]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = [("run", "minutes", "of them learning", "evaluating", "peak GB", "AAP", "AP")]
    for name, run in runs.items():
        interval = run["evaluation"].get("AAP_interval")
        off = "" if interval is None else f" ({interval[0]:.2f} to {interval[1]:.2f})"
        spent = (run["minutes"], run["learn_seconds"] / 60, run["evaluate_seconds"] / 60, run["peak_rss_bytes"] / 1e9)
        lines.append((name, *(f"{value:.1f}" for value in spent), f"{run['AAP']:.2f}{off}", f"{run['AP']:.2f}"))
    return lines


def _sizes(sizes: list[Json]) -> list[tuple[str, ...]]:
    head = ("graph", "nodes", "edges", "features", "batch", "nodes per second", "update p50 / p99 ms")
    judging = ("question p50 / p99 ms", "evaluation ms", "naive ms", "of nodes", "peak GB")
    lines: list[tuple[str, ...]] = [(*head, *judging, "all validation nodes, s", "how many", "peak GB with that")]
    for size in sizes:
        last = size["points"][-1]
        facts = (size["name"], f"{size['nodes']:,}", f"{size['edges']:,}")
        width = f"{size['features']:,}{' sparse' if size['sparse'] else ''}"
        pairs = (f"{last[f'{name}_p50_ms']:.2f} / {last[f'{name}_p99_ms']:.2f}" for name in ("update", "predict"))
        judged = (f"{last['evaluate_ms']:.1f}", f"{last['naive_ms']:.0f}", f"{last['asked']:,}")
        peak, whole_peak = (f"{size[name] / 1e9:.1f}" for name in ("peak_bytes", "whole_peak_bytes"))
        whole = (f"{size['whole_seconds']:.2f}", f"{size['validation']:,}", whole_peak)
        learned = (str(size["batch"]), f"{last['nodes_per_second']:,.0f}")
        lines.append((*facts, width, *learned, *pairs, *judged, peak, *whole))
    return lines


def _latency(sizes: list[Json]) -> Any:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(7.16, 3.1), layout="constrained")
    for ax, name, title in zip(axes, ("update", "predict"), ("update", "question about one node"), strict=True):
        for i, size in enumerate(s for s in sizes if s["name"].startswith("sbm:")):
            nodes = [point["nodes"] for point in size["points"]]
            for p, style in ((50, "-"), (99, ":")):
                values = [point[f"{name}_p{p}_ms"] for point in size["points"]]
                label = f"{size['name'][4:]} (batch {size['batch']})" if p == 50 else None
                ax.plot(nodes, values, style, color=f"C{i}", marker="o", markersize=2.5, label=label)
        ax.set(xscale="log", yscale="log", xlabel="nodes in the graph", ylabel="ms", title=f"{title}: p50, dotted p99")
        _plain(ax)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _evaluation(sizes: list[Json]) -> Any:
    import numpy as np
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(7.16, 3.0), layout="constrained")
    place = np.arange(len(sizes))
    last = [size["points"][-1] for size in sizes]
    ax.bar(place - 0.2, [p["naive_ms"] for p in last], 0.4, label="naive: new looks of 512", color="0.7")
    ax.bar(place + 0.2, [p["evaluate_ms"] for p in last], 0.4, label="as runs do it", color="C0")
    ax.set(yscale="log", ylabel="ms per evaluation", title="at most 3,000 validation nodes, at the end of the stream")
    ax.set_xticks(place, [size["name"] for size in sizes], rotation=35, ha="right")
    _plain(ax)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _plain(ax: Any) -> None:
    """Write milliseconds as numbers, not as powers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(NullFormatter())


HEAD = """# Performance

Written by `make bench` on {machine}; one thread, everything measured in one run. The figures behind it, the ratios
among them, lie in `docs/performance/figures.json`. A ratio has its reference beside it, measured in turns with it.

How evaluation is made cheap: the sampled neighbours of a held-out node are fixed by its degree (and the run's seed), so
its sum of raw features is kept until its degree changes; the forward pass is one product over the distinct nodes that
the answers need; nothing is asked twice while nothing has changed. The answers are those of new looks to rounding (a
matrix product rounds a row by where it stands); no answer has been found to differ (tested, and checked again in every
run of this page). Two kinds of looks are taken anew each time: those with symmetric weights, where a node's sum depends
on the company it is looked at in (profile `textbook`, PDGNN), and those at sparse features with the GCN methods, LINEAR
and PDGNN, whose sums are not kept there.

How to read the ratios of scale: a batch of 250 may see 27,750 nodes, more than the small graph has, so there the small
graph's update samples fewer edges; the time per sampled edge stands beside the whole update for that reason, without a
limit. Every question and every update has newly drawn nodes. Anonymous memory at its peak is the system's high-water
mark of resident memory, taken anew for every {chunk:,} arrivals, less the pages of mapped files that were there all
through them; VmHWM is that mark of the whole process, with the pages of the dataset's files, which the system can take
back.
"""
WHOLE = """
## Whole streams

`ocgl run` on block models of the size of the paper's largest datasets, each in its own process; minutes of the whole
process, with loading. AAP is exact, or an estimate from about 100 validation nodes a task with its bootstrap interval
(95 %). Peak GB is all resident memory; with the dataset mapped from its file and with the store on disk, it counts
pages of files that the system can take back when it needs room.
"""
SIZES = """
## Every size

`bare` (two layers, 256 units, 10 neighbours) at the end of the stream, with the dataset's batch size; the plots show
how it grows. `sbm:NAME` is a block model of the size of NAME; `corafull`, `arxiv` and `elliptic` are the real graphs
with made-up features of the true width. An update counts the arrival of its nodes (with validation and test nodes).
Evaluation is of the validation nodes, at most 3,000 of them, and a median, as is the naive one (of three); p99 is of
some 50 updates and 250 questions. All validation nodes: one exact evaluation of every one of them after the last batch,
with no sums kept from before. Peaks count the pages of the dataset's mapped files.
"""
