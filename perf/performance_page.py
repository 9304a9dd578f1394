"""docs/performance.md and docs/performance/tables.md from what `make bench` has measured.

The prose is in templates/. `python -m perf.performance_page` writes the pages and the plots again from
docs/performance/figures.json.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ocgl.graph import NeighborSampling
from ocgl.reporting.figures import draw
from ocgl.types import Json
from perf.pages import markdown_table, render
from perf.scale import CHUNK, LIMITS, SIZES
from perf.updates import HEADS, Row

PAGE = Path("docs/performance.md")
FOLDER = Path("docs/performance")
FIGURES = FOLDER / "figures.json"
TEMPLATES = Path(__file__).parent / "templates"


def write(rows: list[Row], runs: dict[str, Json], sizes: list[Json], machine: str) -> None:
    """Write the figures as JSON, and the pages and plots that show them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    figures = {"machine": machine, "rows": [row.record for row in rows], "runs": runs, "sizes": sizes}
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    write_pages(figures)


def write_pages(figures: Json) -> None:
    """Write the short page, the page of tables and the plots."""
    rows, runs, sizes = [Row.from_record(record) for record in figures["rows"]], figures["runs"], figures["sizes"]
    draw(lambda: _latency(sizes), FOLDER / "latency.png", dpi=130)
    draw(lambda: _evaluation(sizes), FOLDER / "evaluation.png", dpi=130)
    PAGE.write_text(render(TEMPLATES / "performance.md", machine=figures["machine"], **summary(rows, runs, sizes)))
    tables = render(
        TEMPLATES / "tables.md",
        machine=figures["machine"],
        chunk=CHUNK,
        largest=largest_batch(),
        ratios=_ratios(rows),
        runs=_runs(runs),
        sizes=_sizes(sizes),
    )
    (FOLDER / "tables.md").write_text(tables)


def summary(rows: list[Row], runs: dict[str, Json], sizes: list[Json]) -> Json:
    """Return what the short page says: named rows, extremes over all graphs, and two small tables."""
    named = {row.name.replace("-", "_"): row for row in rows if row.name}
    last = {size["name"]: size["points"][-1] for size in sizes}
    speed = {name: point["nodes_per_second"] for name, point in last.items()}
    question = {p: [point[f"predict_p{p}_ms"] for point in last.values()] for p in (50, 99)}
    return {
        **named,
        "slowest": min(speed, key=lambda name: speed[name]),
        "fastest": max(speed, key=lambda name: speed[name]),
        "speed": speed,
        "question_p50": (min(question[50]), max(question[50])),
        "question_p99": max(question[99]),
        "runs": [_run_facts(name, run) for name, run in runs.items()],
        "graphs": _graphs(sizes),
        "pyg": _pyg([named["update"], named["update_5"], named["linear"], named["evaluation"]]),
        "flat": _flat([named[f"flat_{size}"] for size in SIZES]),
        "largest": largest_batch(),
    }


def largest_batch() -> Json:
    """Return the largest batch of the measurements of scale, and how many nodes its sample can have."""
    size = max(set(SIZES) - LIMITS.keys())
    return {"size": size, "nodes": NeighborSampling(hops=2, fanout=10).bound(size, 0).nodes}


def _run_facts(name: str, run: Json) -> Json:
    nodes = run["statistics"]["nodes"]
    return {
        "name": name,
        "nodes": nodes,
        "minutes": run["minutes"],
        "speed": nodes / run["learn_seconds"],
        "gigabytes": run["peak_rss_bytes"] / 1e9,
    }


def _graphs(sizes: list[Json]) -> str:
    lines = []
    for size in sizes:
        last = size["points"][-1]
        facts = (size["name"], f"{size['nodes']:,}", f"{size['edges']:,}", f"{size['features']:,}")
        speed = (f"{last['nodes_per_second']:,.0f}", f"{last['update_p50_ms']:.2f}", f"{last['predict_p50_ms']:.2f}")
        lines.append((*facts, *speed, f"{size['peak_bytes'] / 1e9:.1f}"))
    head = ("graph", "nodes", "edges", "features", "nodes per second", "ms per update", "ms per question", "peak GB")
    return markdown_table(head, lines)


def _pyg(rows: list[Row]) -> str:
    lines = ((row.what, f"{row.ours:.2f}", f"{row.theirs:.2f}", f"{row.ratio:.1f}") for row in rows)
    return markdown_table(("measured", "ocgl, ms", "PyG, ms", "PyG / ocgl"), lines)


def _flat(rows: list[Row]) -> str:
    lines = ((row.what, f"{row.ours:.2f}", row.reference, f"{row.theirs:.2f}", f"{row.ratio:.2f}") for row in rows)
    return markdown_table(("large graph", "ms", "small graph", "ms", "ratio"), lines)


def _ratios(rows: list[Row]) -> str:
    verdicts = {True: "met", False: "**missed**", None: ""}
    return markdown_table(HEADS, ((*row.cells, verdicts[row.met]) for row in rows))


def _runs(runs: dict[str, Json]) -> str:
    lines = []
    for name, run in runs.items():
        interval = run["evaluation"].get("AAP_interval")
        off = "" if interval is None else f" ({interval[0]:.2f} to {interval[1]:.2f})"
        spent = (run["minutes"], run["learn_seconds"] / 60, run["evaluate_seconds"] / 60, run["peak_rss_bytes"] / 1e9)
        lines.append((name, *(f"{value:.1f}" for value in spent), f"{run['AAP']:.2f}{off}", f"{run['AP']:.2f}"))
    return markdown_table(("run", "minutes", "of them learning", "evaluating", "peak GB", "AAP", "AP"), lines)


def _sizes(sizes: list[Json]) -> str:
    head = ("graph", "nodes", "edges", "features", "batch", "nodes per second", "update p50 / p99 ms")
    evaluation = ("question p50 / p99 ms", "evaluation ms", "naive ms", "of nodes", "peak GB")
    whole = ("all validation nodes, s", "number of them", "peak GB with that")
    return markdown_table((*head, *evaluation, *whole), map(tuple, map(_size_cells, sizes)))


def _size_cells(size: Json) -> Iterator[str]:
    last = size["points"][-1]
    yield from (size["name"], f"{size['nodes']:,}", f"{size['edges']:,}")
    yield f"{size['features']:,}{' sparse' if size['sparse'] else ''}"
    yield from (str(size["batch"]), f"{last['nodes_per_second']:,.0f}")
    yield from (f"{last[f'{name}_p50_ms']:.2f} / {last[f'{name}_p99_ms']:.2f}" for name in ("update", "predict"))
    yield from (f"{last['evaluate_ms']:.1f}", f"{last['naive_ms']:.0f}", f"{last['asked']:,}")
    yield f"{size['peak_bytes'] / 1e9:.1f}"
    yield from (f"{size['whole_seconds']:.2f}", f"{size['validation']:,}", f"{size['whole_peak_bytes'] / 1e9:.1f}")


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
    ax.bar(place - 0.2, [p["naive_ms"] for p in last], 0.4, label="naive: new samples of 512 nodes", color="0.7")
    ax.bar(place + 0.2, [p["evaluate_ms"] for p in last], 0.4, label="as in a run", color="C0")
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


if __name__ == "__main__":
    write_pages(json.loads(FIGURES.read_text()))
