"""docs/backbones.md from results/backbones; the prose is in templates/backbones.md."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from perf.pages import markdown_table, render

from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.results import RunResult, TrialResult
from ocgl.experiments.sweep import finished
from ocgl.reporting import figures
from ocgl.reporting.methods import color, title_of
from ocgl.types import Json

PAGE = Path("docs/backbones.md")
TEMPLATE = Path(__file__).parent / "templates" / "backbones.md"
COST = Path("docs/backbones/cost.json")
METRICS = ("AP", "AAP")

Runs = dict[tuple[str, str, str], list[RunResult]]
"""The runs by stream, network and method."""


def read(folder: Path) -> Runs:
    """Return the runs of the study that are finished."""
    from studies.backbones import sweeps

    found: Runs = {}
    store = ResultStore(folder)
    for (stream, network), parts in sweeps().items():
        for sweep in parts:
            for run in finished(sweep, store):
                found.setdefault((stream, network, run.strategy), []).append(run)
    return found


def write(folder: Path | None = None, page: Path = PAGE) -> None:
    """Write the page and its figure."""
    from studies.backbones import OUT, STREAMS, sweeps

    folder = folder or OUT
    runs = read(folder)
    shown = {title: networks for title, (_, _, networks) in STREAMS.items()}
    planned = sum(sweep.seeds * len(sweep.strategies) for parts in sweeps().values() for sweep in parts)
    streams = [_stream(title, [n.name for n in networks], runs) for title, networks in shown.items()]
    page.write_text(
        render(
            TEMPLATE,
            streams=[stream for stream in streams if stream is not None],
            worth=_worth(list(shown), runs),
            cost=_cost(),
            done=sum(map(len, runs.values())),
            planned=planned,
            hours=_hours(folder),
        )
    )
    if runs:
        figures.draw(lambda: drawn(list(shown), runs), page.parent / "backbones" / "networks.png", dpi=130)


def _methods(runs: Iterable[tuple[str, str, str]]) -> list[str]:
    from studies.backbones import JOINT, ONLINE

    present = {method for _, _, method in runs}
    return [method for method in (*ONLINE, JOINT) if method in present]


def _mean(runs: list[RunResult], metric: str) -> float | None:
    values = [value for run in runs if (value := run.score(metric)) is not None]
    return float(np.mean(values)) if values else None


def _stream(title: str, networks: list[str], runs: Runs) -> Json | None:
    """Return the tables of one stream: a row for each network, a column for each method."""
    here = {key: found for key, found in runs.items() if key[0] == title}
    if not here:
        return None
    methods = _methods(here)
    tables = {}
    for metric in METRICS:
        columns = [m for m in methods if any(_mean(f, metric) is not None for k, f in here.items() if k[2] == m)]
        best = {
            m: max(v for n in networks if (v := _mean(here.get((title, n, m), []), metric)) is not None)
            for m in columns
        }
        lines = []
        for network in networks:
            cells = [_cell(here.get((title, network, m), []), metric, best[m]) for m in columns]
            lines.append((network, *cells))
        tables[metric] = markdown_table(("network", *map(title_of, columns)), lines)
    winners = {
        title_of(m): max(
            (n for n in networks if _mean(here.get((title, n, m), []), "AP") is not None),
            key=lambda n, m=m: _mean(here[title, n, m], "AP") or 0.0,  # type: ignore[misc]
        )
        for m in methods
    }
    return {"title": title, "tables": tables, "winners": winners}


def _cell(runs: list[RunResult], metric: str, best: float) -> str:
    values = [value for run in runs if (value := run.score(metric)) is not None]
    if not values:
        return "-"
    text = f"{np.mean(values):.2f} ± {np.std(values):.2f}"
    text = f"**{text}**" if np.mean(values) >= best else text
    return text if len(values) == 3 else f"{text} ({len(values)} seeds)"


def _worth(streams: list[str], runs: Runs) -> list[Json]:
    """Return for each stream what the graph is worth offline: the best network's AP minus that of the perceptron."""
    found = []
    for stream in streams:
        joint = {n: _mean(r, "AP") for (s, n, m), r in runs.items() if s == stream and m == "joint"}
        known = {n: ap for n, ap in joint.items() if ap is not None}
        if "mlp" in known and len(known) > 1:
            best = max((n for n in known if n != "mlp"), key=lambda n: known[n])
            found.append({"stream": stream, "best": best, "with": known[best], "without": known["mlp"]})
    return found


def _cost() -> str:
    """Return milliseconds per update of each network with each method, as `studies.backbones_cost` measures them."""
    if not COST.exists():
        return "not measured yet"
    found = json.loads(COST.read_text())
    methods = list(next(iter(found.values())))
    lines = []
    for network, of in found.items():
        size = of[methods[0]]["parameter_bytes"] / 1e6
        lines.append((network, *(f"{of[method]['ms']:.2f}" for method in methods), f"{size:.2f}"))
    return markdown_table(("network", *map(title_of, methods), "parameters (MB)"), lines)


def _hours(folder: Path) -> float:
    """Return the hours of one core that all results of the study took."""
    seconds = 0.0
    for result in ResultStore(folder):
        if isinstance(result, RunResult):
            seconds += result.learn_seconds + result.evaluate_seconds
        elif isinstance(result, TrialResult):
            seconds += result.seconds or 0.0
    return seconds / 3600


def drawn(streams: list[str], runs: Runs) -> Figure:
    """Draw the AP of each network on each stream, one mark for each method."""
    from studies.backbones import NETWORKS

    shown = [stream for stream in streams if any(key[0] == stream for key in runs)]
    figure, panels = figures._axes(7.0, 2.2 * -(-len(shown) // 2) + 0.6, min(2, len(shown)), -(-len(shown) // 2))
    names = [network.name for network in NETWORKS]
    for axes, stream in zip(panels, shown, strict=False):
        for method in _methods(runs):
            points = [(i, _mean(runs.get((stream, name, method), []), "AP")) for i, name in enumerate(names)]
            known = [(x, y) for x, y in points if y is not None]
            if known:
                x, y = zip(*known, strict=True)
                axes.plot(x, y, "o-", color=color(method), markersize=4, linewidth=0.8, label=title_of(method))
        axes.set(title=stream, ylabel="AP (%)", ylim=(0, 100))
        axes.set_xticks(range(len(names)), names, rotation=20)
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    handles = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=5)
    return figure


if __name__ == "__main__":
    write()
