"""Figures for a paper, drawn with matplotlib."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ocgl.experiments.expansion import Expansion, rolling_mean
from ocgl.files import make_folder, writing
from ocgl.reporting.collect import Bench
from ocgl.reporting.extras import require_report_extra
from ocgl.reporting.methods import color
from ocgl.reporting.plots import COSTS, costs, expansion_label, joint_steps, ticks
from ocgl.reporting.statistics import Ranks, front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.5, 7.16
"""Widths of one column and of a page in IEEE style, in inches."""

STYLE: Any = {
    "font.size": 8, "axes.linewidth": 0.6, "axes.grid": True, "grid.alpha": 0.25, "grid.linewidth": 0.4,
    "legend.frameon": False, "legend.fontsize": 7, "text.parse_math": False, "lines.linewidth": 1.1, "pdf.fonttype": 42,
}  # fmt: skip


def draw(make: Callable[[], "Figure"], *paths: Path, dpi: int = 220) -> None:
    """Draw a figure in the style of the reports and save it.

    Args:
        make: draws the figure.
        paths: files to write; the ending decides the format.
        dpi: resolution of PNG files.
    """
    require_report_extra("a figure")
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(STYLE):
        figure = make()
        _write_out_powers(figure)
        for path in paths:
            make_folder(path.parent)
            with writing(path) as file:
                figure.savefig(file, dpi=dpi, format=path.suffix[1:])
        plt.close(figure)


def _write_out_powers(figure: "Figure") -> None:
    """Label logarithmic axes with plain numbers: powers need math text, which names of strangers must not be."""
    from matplotlib.ticker import LogFormatterSciNotation

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() == "log" and isinstance(axis.get_major_formatter(), LogFormatterSciNotation):
                axis.set_major_formatter("{x:,.10g}")


def _axes(width: float, height: float, columns: int = 1, rows: int = 1, **more: Any) -> tuple["Figure", list["Axes"]]:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=(width, height), layout="constrained", squeeze=False, **more)
    return figure, list(axes.ravel())


def _unit(bench: Bench, metric: str) -> str:
    return bench.unit(metric).replace("percent", "%")


def expansion(measured: Expansion) -> "Figure":
    """Draw how many nodes each batch reaches, with all and with sampled neighbours (Figure 2 of the paper)."""
    figure, (axes,) = _axes(6.4, 4.6)
    for i, hops in enumerate(measured.hops):
        for sizes, style, kind in ((measured.full[hops], "-", "all"), (measured.capped[hops], "--", "capped")):
            axes.plot(rolling_mean(sizes), style, color=f"C{i}", label=expansion_label(hops, kind, sizes))
    axes.plot(measured.nodes, ":", color="0.4", label=f"nodes arrived ({measured.nodes[-1]:,})")
    axes.set(yscale="log", xlabel="batch", ylabel="distinct nodes (rolling mean of 10)")
    axes.set_title(f"{measured.dataset}: neighbourhood expansion, cap {measured.fanout} per node")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def anytime(bench: Bench) -> "Figure":
    """Draw AP_t of every method (Figures 3 and 7 to 14 of the paper)."""
    figure, (axes,) = _axes(PAGE, 3.6)
    last = 0
    for entry in bench.entries:
        if entry.curves is not None:
            x, y = entry.curves.steps, entry.curves.anytime
            last = max(last, int(x[-1]))
            axes.plot(x, y.mean(0), color=color(entry.strategy), label=entry.title)
            axes.fill_between(x, y.min(0), y.max(0), color=color(entry.strategy), alpha=0.15, linewidth=0)
    for entry in bench.entries:
        if entry.offline:
            steps, bound = joint_steps(bench, entry, last)
            axes.step(steps, bound, "--", where="post", color=color(entry.strategy), label=f"{entry.title} (offline)")
    for task, step in enumerate(bench.boundaries, start=1):
        tuning = task == bench.tuned
        axes.axvline(step - 0.5, color="C3" if tuning else "0.6", linestyle="-" if tuning else ":", linewidth=0.9)
    axes.set(
        xlabel="batch", ylabel=f"AP_t ({_unit(bench, 'AP_t')})", ylim=(0, 103), xlim=(0, last), title=str(bench.key)
    )
    figure.legend(loc="outside lower center", ncols=6)
    return figure


def heats(bench: Bench) -> "Figure":
    """Draw the anytime score of each task, one panel per method (Figures 4 and 15 to 22 of the paper)."""
    entries = [(entry, entry.curves) for entry in bench.entries if entry.curves is not None]
    columns = min(3, len(entries))
    rows = -(-len(entries) // columns)
    figure, panels = _axes(PAGE, 1.35 * rows + 0.5, columns, rows, sharex=True, sharey=True)
    for axes, (entry, curves) in zip(panels, entries, strict=False):
        values = curves.per_task.mean(0)
        edges = np.append(curves.steps, curves.steps[-1] + 1)
        image = axes.pcolormesh(edges, np.arange(len(values) + 1) + 0.5, values, vmin=0, vmax=100, rasterized=True)
        axes.set_title(entry.title, pad=2)
        axes.grid(visible=False)
    for axes in panels[len(entries) :]:
        axes.set_axis_off()
    panels[0].invert_yaxis()
    figure.supxlabel("batch", fontsize=8)
    figure.supylabel("task", fontsize=8)
    figure.colorbar(image, ax=panels, label=f"performance ({_unit(bench, 'AP_t')})", fraction=0.03)
    return figure


def buffers(bench: Bench) -> "Figure":
    """Draw AAP and AP against the buffer size (Figures 5 and 6 of the paper)."""
    figure, panels = _axes(PAGE, 2.6, 2)
    for axes, metric in zip(panels, ("AAP", "AP"), strict=True):
        for strategy, entries in bench.sizes().items():
            values = [entry.values(metric) for entry in entries]
            points = [(e.buffer, v.mean(), v.std()) for e, v in zip(entries, values, strict=True) if v is not None]
            x, y, spread = zip(*points, strict=True)
            label = entries[0].title if metric == "AAP" else None
            axes.errorbar(x, y, spread, color=color(strategy), marker="o", markersize=3, capsize=2, label=label)
        axes.set(xlabel="buffer size (fraction of all nodes)", ylabel=f"{metric} ({_unit(bench, metric)})")
    figure.legend(loc="outside lower center", ncols=6)
    return figure


def cost(bench: Bench) -> "Figure":
    """Draw AAP against the milliseconds and bytes of an update."""
    entries = bench.costed
    figure, panels = _axes(PAGE, 3.2, 2, sharey=True)
    y = np.array([entry.mean("AAP") for entry in entries])
    for axes, what in zip(panels, ("milliseconds", "touched"), strict=True):
        x = np.array([costs(entry, what) for entry in entries])
        optimal = front(x, y)
        order = np.argsort(x[optimal])
        axes.step(x[optimal][order], y[optimal][order], ":", where="post", color="0.6")
        for entry, a, b, is_optimal in zip(entries, x, y, optimal, strict=True):
            face = color(entry.strategy) if is_optimal else "none"
            label = entry.title if what == "milliseconds" else None
            axes.plot(a, b, "o", color=color(entry.strategy), markerfacecolor=face, markersize=5, label=label)
        axes.set(xscale="log", xlabel=COSTS[what].removesuffix(" (log)"))
        axes.margins(x=0.15, y=0.08)
        shown = ticks(*np.log10(axes.get_xlim()))
        axes.set_xticks(shown["tickvals"], shown["ticktext"])
        axes.minorticks_off()
    panels[0].set_ylabel(f"AAP ({_unit(bench, 'AAP')})")
    figure.legend(loc="outside lower center", ncols=6)
    return figure


def ranks(found: Ranks) -> "Figure":
    """Draw the critical-difference diagram of mean ranks."""
    count = len(found.names)
    figure, (axes,) = _axes(PAGE, 0.2 * count + 1.0)
    for place, (name, rank) in enumerate(zip(found.names, found.ranks, strict=True)):
        axes.plot(rank, place, "o", color="0.2", markersize=4)
        axes.annotate(f"{name}  {rank:.2f}", (rank, place), xytext=(6, -3), textcoords="offset points")
    for i, (first, last) in enumerate(found.cliques()):
        axes.plot(found.ranks[[first, last]], [-1 - 0.6 * i] * 2, color="C3", linewidth=3, solid_capstyle="butt")
    axes.invert_yaxis()
    axes.set(yticks=[], xlim=(0.7, count + 1.2), xlabel=f"mean rank (critical difference {found.difference:.2f})")
    axes.spines[["left", "right", "top"]].set_visible(False)
    return figure
