"""docs/beyond.md from docs/beyond/study.json and results/; the prose is in templates/beyond.md."""

import json
from pathlib import Path

import numpy as np
from perf.pages import markdown_table, render

from ocgl.reporting.collect import Bench, collect
from ocgl.reporting.tables import markdown
from ocgl.types import Json
from studies import beyond_sweeps, reproduce

PAGE = Path("docs/beyond.md")
TEMPLATE = Path(__file__).parent / "templates" / "beyond.md"
PLAIN = "ridge (own+mean1, shrinkage 0.1)"
FULL = "revisiting 10 of 550, with mean2"
ABLATIONS = (("class", "AP"), ("class", "AAP"), ("time", "AP"), ("time", "AAP"))
"""Kind of stream and metric of each table; where a graph has no times, its stream by row order stands for `time`."""


def write(rows: list[Json], graphs: dict[str, str]) -> None:
    """Write the page.

    Args:
        rows: scores and costs, one row for each graph, stream, variant and seed.
        graphs: the dataset of each graph.
    """
    names = list(graphs)
    computer = [folder for folder in (reproduce.OUT, reproduce.FIRST) if folder.is_dir()]
    benches = {"Amazon Computer": _bench(*computer), "Coauthor CS": _bench(beyond_sweeps.COAUTHOR)}
    text = render(
        TEMPLATE,
        protocol=[(name, markdown(bench).rstrip(), _selections(bench)) for name, bench in benches.items()],
        bound=_bound(rows, graphs),
        ablations=[(stream, metric, _ablation(rows, names, stream, metric)) for stream, metric in ABLATIONS],
        cost=_cost(rows, names),
    )
    PAGE.write_text(text)


def _bench(*folders: Path) -> Bench:
    found = {b.key.profile: b for b in collect(folders) if b.key.setting == "main"}
    return found.get("paper", found["first-reading"])


def _selections(bench: Bench) -> list[tuple[str, str, float]]:
    """Return the selected configuration of each closed form, with its validation AP."""
    return [
        (entry.title, ", ".join(f"{k} {v}" for k, v in entry.choice.settings.items()), score)
        for entry in bench.entries
        if entry.strategy in reproduce.BEYOND
        and entry.choice is not None
        and (score := entry.choice.selection.score) is not None
    ]


def _bound(rows: list[Json], graphs: dict[str, str]) -> str:
    """Compare the AP of two fixed configurations with that of the offline GCN, on every stream."""
    benches = [b for b in collect([beyond_sweeps.BOUNDS, reproduce.FIRST]) if b.key.profile == "first-reading-textbook"]
    joint = {(b.key.dataset, b.key.stream): e for b in benches for e in b.entries if e.offline}
    lines = []
    for kind in ("class", "time"):
        for graph, dataset in graphs.items():
            stream = _kind(rows, graph, kind)
            bound = joint[dataset, stream].mean("AP") if (dataset, stream) in joint else None
            cells = [f"{graph}, {stream}", "-" if bound is None else f"{bound:.2f}"]
            for variant in (PLAIN, FULL):
                value = float(np.mean(_values(rows, graph, stream, variant, "AP")))
                cells += [f"{value:.2f}", "-" if bound is None else f"{value - bound:+.2f}"]
            lines.append(cells)
    return markdown_table(("stream", "Joint", "ridge", "difference", "ridge, mean2, revisit", "difference"), lines)


def _kind(rows: list[Json], graph: str, kind: str) -> str:
    """Return the kind of a graph's stream: by row order where it has no times."""
    known = {row["stream"] for row in rows if row["graph"] == graph}
    return "order" if kind == "time" and "order" in known else kind


def _values(rows: list[Json], graph: str, stream: str, variant: str, metric: str) -> list[float]:
    wanted = (graph, _kind(rows, graph, stream), variant)
    return [row[metric] for row in rows if (row["graph"], row["stream"], row["variant"]) == wanted]


def _ablation(rows: list[Json], graphs: list[str], stream: str, metric: str) -> str:
    """Return means over seeds for the first variant, and the difference to it for the others."""
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    first = {graph: np.mean(_values(rows, graph, stream, variants[0], metric)) for graph in graphs}
    lines = []
    for variant in variants:
        cells = []
        for graph in graphs:
            values = _values(rows, graph, stream, variant, metric)
            if not values:
                cells.append("-")
            elif variant == variants[0]:
                cells.append(f"**{np.mean(values):.2f}** ± {np.std(values):.2f}")
            else:
                cells.append(f"{np.mean(values) - first[graph]:+.2f}")
        lines.append((variant, *cells))
    return markdown_table(("variant", *graphs), lines)


def _cost(rows: list[Json], graphs: list[str]) -> str:
    lines = []
    for variant in dict.fromkeys(row["variant"] for row in rows):
        found = [_values(rows, graph, "class", variant, "update_ms") for graph in graphs]
        lines.append((variant, *(f"{np.mean(values):.2f}" if values else "-" for values in found)))
    return markdown_table(("ms per update", *graphs), lines)


def main() -> None:
    """Write the page again from what is on disk."""
    from studies.beyond import GRAPHS, OUT

    write(json.loads(OUT.read_text())["rows"], GRAPHS)


if __name__ == "__main__":
    main()
