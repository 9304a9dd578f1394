"""Interactive figures for the HTML pages, drawn with plotly."""

from html import escape
from itertools import cycle
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ocgl.experiments.expansion import Expansion, rolling_mean
from ocgl.reporting.collect import Bench, MethodRuns
from ocgl.reporting.estimates import mark_of
from ocgl.reporting.methods import COLORS, color, faded
from ocgl.reporting.statistics import Ranks, front
from ocgl.types import DoubleArray, IntArray, Json

if TYPE_CHECKING:
    import plotly.graph_objects as go

LAYOUT: Json = {
    "template": "plotly_white",
    "margin": {"l": 50, "r": 12, "t": 12, "b": 42},
    "font": {"family": "system-ui, sans-serif", "size": 12, "color": "#222"},
    "hoverlabel": {"font": {"size": 11}},
    "legend": {"orientation": "h", "y": -0.2, "font": {"size": 11}},
}


def div(figure: "go.Figure", height: int, name: str | None = None) -> str:
    """Return a figure as an HTML fragment without plotly.js; its width follows the container.

    Args:
        figure: the figure.
        height: height in pixels.
        name: id of the HTML element; random if None.
    """
    figure.update_layout(height=height)
    config = {"responsive": True, "displayModeBar": False}
    return cast(str, figure.to_html(full_html=False, include_plotlyjs=False, config=config, div_id=name))


def anytime(bench: Bench) -> "go.Figure":
    """Draw AP_t of every method: the mean over seeds, a band from minimum to maximum, and task boundaries."""
    import plotly.graph_objects as go

    figure = go.Figure()
    last = 0
    for entry in bench.entries:
        curves = entry.curves
        if curves is None:
            continue
        x, last = curves.steps, max(last, int(curves.steps[-1]))
        group: Json = {"legendgroup": escape(entry.title)}
        if len(curves.anytime) > 1:
            ends = np.concatenate([curves.anytime.max(0), curves.anytime.min(0)[::-1]])
            band: Json = {"fill": "toself", "fillcolor": faded(entry.strategy, 0.15), "line": {"width": 0}}
            figure.add_scatter(
                x=np.concatenate([x, x[::-1]]), y=_single(ends), **band, **group, showlegend=False, hoverinfo="skip"
            )
        line: Json = {"color": color(entry.strategy), "width": 1.6}
        figure.add_scatter(
            x=x, y=_single(curves.anytime.mean(0)), mode="lines", line=line, name=escape(entry.title), **group
        )
    for entry in bench.entries:
        if entry.offline:
            steps, bound = joint_steps(bench, entry, last)
            line = {"color": color(entry.strategy), "width": 1.6, "dash": "dash", "shape": "hv"}
            figure.add_scatter(x=steps, y=bound, mode="lines", line=line, name=f"{escape(entry.title)} (offline bound)")
    for task, step in enumerate(bench.boundaries, start=1):
        tuning = task == bench.tuned
        style: Json = {"width": 1.8, "color": "#c0392b"} if tuning else {"width": 1, "dash": "dot", "color": "#999"}
        note: Json = {"annotation_text": "tuning", "annotation_position": "top left"} if tuning else {}
        figure.add_vline(x=step - 0.5, line=style, **note)
    figure.update_layout(**LAYOUT, xaxis_title="batch", yaxis_title=f"AP_t, {bench.unit('AP_t')}", hovermode="x")
    figure.update_yaxes(range=[0, 103])
    return figure


def joint_steps(bench: Bench, entry: MethodRuns, last: int) -> tuple[list[int], list[float]]:
    """Return the x and y values of an offline bound, a step function with one value per task.

    Args:
        bench: the bench, for its task boundaries.
        entry: the offline bound.
        last: last step of the stream.
    """
    curves = [run.curve for run in entry.runs if run.curve is not None]
    values = np.mean(np.array([[value for _, value in curve] for curve in curves], float), axis=0)
    if len(values) == 1:
        return [0, last], [float(values[0])] * 2
    starts = [0, *bench.boundaries]
    return [*starts[: len(values)], last], [*map(float, values), float(values[-1])]


def heat(entry: MethodRuns) -> "go.Figure":
    """Draw the anytime score of each task, averaged over seeds."""
    import plotly.graph_objects as go

    assert entry.curves is not None
    values = entry.curves.per_task.mean(0)
    names = [f"task {j + 1}" for j in range(len(values))]
    figure = go.Figure(
        go.Heatmap(
            x=entry.curves.steps, y=names, z=_single(values), zmin=0, zmax=100, colorscale="Viridis", showscale=False,
            hovertemplate="batch %{x}, %{y}: %{z:.1f}<extra></extra>",
        )
    )  # fmt: skip
    figure.update_layout(**LAYOUT | {"margin": {"l": 48, "r": 8, "t": 4, "b": 24}})
    figure.update_yaxes(autorange="reversed")
    return figure


def buffers(bench: Bench, metric: str) -> "go.Figure":
    """Draw a metric against the buffer size."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for strategy, entries in bench.sizes().items():
        values = [entry.values(metric) for entry in entries]
        points = [(e.buffer, v.mean(), v.std()) for e, v in zip(entries, values, strict=True) if v is not None]
        x, y, spread = zip(*points, strict=True)
        figure.add_scatter(
            x=x, y=y, error_y={"array": spread, "width": 4, "thickness": 1}, name=escape(entries[0].title),
            mode="lines+markers", line={"color": color(strategy), "width": 1.6},
        )  # fmt: skip
    figure.update_layout(
        **LAYOUT, xaxis_title="buffer size (fraction of all nodes)", yaxis_title=f"{metric}, {bench.unit(metric)}"
    )
    figure.update_xaxes(type="category")
    return figure


def cost(bench: Bench, what: str) -> "go.Figure":
    """Draw AAP against the cost of an update, with the Pareto front.

    Args:
        bench: the bench.
        what: the cost, a key of `COSTS`.
    """
    import plotly.graph_objects as go

    entries = bench.costed
    x = np.array([costs(entry, what) for entry in entries])
    y = np.array([entry.mean("AAP") for entry in entries])
    optimal = front(x, y)
    figure = go.Figure()
    order = np.argsort(x[optimal])
    figure.add_scatter(
        x=x[optimal][order], y=y[optimal][order], mode="lines", line={"color": "#bbb", "dash": "dot", "shape": "hv"},
        name="Pareto front", hoverinfo="skip", showlegend=False,
    )  # fmt: skip
    sides = cycle(("middle right", "middle left"))  # labels on both sides overlap less
    for entry, a, b, is_optimal in zip(entries, x, y, optimal, strict=True):
        mark: Json = {"color": color(entry.strategy), "size": 11, "symbol": "circle" if is_optimal else "circle-open"}
        figures = f"{COSTS[what]}: %{{x:.4g}}<br>AAP: %{{y:.2f}}{mark_of(entry.estimate)}"
        hover = f"{escape(entry.title)}<br>{figures}<extra></extra>"
        figure.add_scatter(
            x=[a], y=[b], mode="markers+text", marker=mark | {"line": {"width": 2}},
            text=[escape(entry.title) if is_optimal else ""],
            textposition=next(sides) if is_optimal else None, textfont={"size": 10}, name=escape(entry.title),
            hovertemplate=hover,
        )  # fmt: skip
    figure.update_layout(**LAYOUT, xaxis_title=COSTS[what], yaxis_title=f"AAP, {bench.unit('AAP')}")
    figure.update_layout(legend_y=-0.3)
    room = 0.12 * max(float(np.ptp(y)), 1.0)
    figure.update_yaxes(range=[float(y.min()) - room, float(y.max()) + room])
    low, high = np.log10(x.min()), np.log10(x.max())
    pad = 0.14 * max(high - low, 0.5)
    figure.update_xaxes(type="log", range=[low - pad, high + pad], **ticks(low - pad, high + pad))
    return figure


def ticks(low: float, high: float) -> Json:
    """Return ticks for a logarithmic axis: 1, 2 and 5 times the powers of ten.

    Args:
        low: lower end of the axis, as a power of ten.
        high: upper end of the axis, as a power of ten.
    """
    found = [m * 10.0**p for p in range(int(np.floor(low)), int(np.ceil(high)) + 1) for m in (1, 2, 5)]
    shown = [value for value in found if low <= np.log10(value) <= high]
    return {"tickvals": shown, "ticktext": [_si(value) for value in shown], "tickangle": 0}


def _si(value: float) -> str:
    """Return a number in short form.

    >>> _si(0.5), _si(20.0), _si(2e6)
    ('0.5', '20', '2M')
    """
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= factor:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"


COSTS = {
    "milliseconds": "milliseconds per update (log)",
    "touched": "bytes read per update, maximum (log)",
    "held": "bytes held by the method (log)",
}
"""Axis labels by kind of cost."""


def costs(entry: MethodRuns, what: str) -> float:
    """Return a cost of a method: `milliseconds`, or bytes as in `MethodRuns.bytes`."""
    return entry.milliseconds if what == "milliseconds" else entry.bytes(what)


def ranks(found: Ranks) -> "go.Figure":
    """Draw the critical-difference diagram: mean ranks, and bars over methods that do not differ significantly."""
    import plotly.graph_objects as go

    figure = go.Figure()
    rows = len(found.names)
    for place, (name, rank) in enumerate(zip(found.names, found.ranks, strict=True)):
        figure.add_scatter(
            x=[rank], y=[rows - place], mode="markers+text", marker={"size": 9, "color": "#345"},
            text=[f" {escape(name)}  {rank:.2f}"], textposition="middle right", showlegend=False, hoverinfo="skip",
        )  # fmt: skip
    for i, (first, last) in enumerate(found.cliques()):
        y = rows + 1 + 0.5 * i
        x = [found.ranks[first], found.ranks[last]]
        line: Json = {"width": 5, "color": "#c0392b"}
        hover = f"no significant difference: {escape(', '.join(found.names[first : last + 1]))}"
        figure.add_scatter(x=x, y=[y, y], mode="lines", line=line, showlegend=False, hovertext=hover, hoverinfo="text")
    figure.update_layout(**LAYOUT, xaxis_title=f"mean rank (critical difference {found.difference:.2f})")
    figure.update_yaxes(visible=False)
    figure.update_xaxes(range=[0.7, rows + 1.6], dtick=1)
    return figure


def trials(entries: list[MethodRuns]) -> "go.Figure":
    """Draw the validation score of every configuration tried; a star marks the selected one."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for entry in entries:
        assert entry.choice is not None
        rows = [(row.configuration, row.mean) for row in entry.choice.table if row.mean is not None]
        text = [escape(", ".join(f"{k}={v}" for k, v in configuration.items())) for configuration, _ in rows]
        chosen = entry.choice.selection.score
        marks: Json = {"color": color(entry.strategy), "size": 6, "opacity": 0.55, "symbol": "circle-open"}
        figure.add_scatter(
            x=[value for _, value in rows], y=[escape(entry.title)] * len(rows), mode="markers", marker=marks,
            hovertext=text, hovertemplate="%{x:.2f}: %{hovertext}<extra></extra>", showlegend=False,
        )  # fmt: skip
        star: Json = {"color": color(entry.strategy), "size": 13, "symbol": "star"}
        figure.add_scatter(
            x=[chosen], y=[escape(entry.title)], mode="markers", marker=star, showlegend=False, hoverinfo="x"
        )
    figure.update_layout(**LAYOUT | {"margin": {"l": 90, "r": 12, "t": 8, "b": 42}})
    figure.update_xaxes(title="validation AP, percent")
    figure.update_yaxes(autorange="reversed")
    return figure


def expansion_label(hops: int, kind: str, sizes: IntArray) -> str:
    """Return the legend of a line, with the maximum of the rolling mean and of single batches."""
    maxima = f"max {rolling_mean(sizes).max():,.0f}, in one batch {sizes.max():,}"
    return f"{hops} hop{'s' * (hops > 1)}, {kind} ({maxima})"


def expansion(found: Expansion) -> "go.Figure":
    """Draw how many nodes each batch reaches, with all and with sampled neighbours (Figure 2 of the paper)."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for i, hops in enumerate(found.hops):
        for sizes, dash, kind in ((found.full[hops], "solid", "all"), (found.capped[hops], "dash", "capped")):
            name = expansion_label(hops, kind, sizes)
            line: Json = {"color": COLORS[i * 2], "dash": dash, "width": 1.6}
            figure.add_scatter(y=_single(rolling_mean(sizes)), mode="lines", name=name, line=line)
    figure.add_scatter(y=found.nodes, mode="lines", name="nodes arrived", line={"color": "#888", "dash": "dot"})
    figure.update_layout(**LAYOUT, xaxis_title="batch", yaxis_title="distinct nodes, rolling mean of 10")
    figure.update_yaxes(type="log", dtick=1)
    return figure


def _single(values: Any) -> DoubleArray:
    """Return values in single precision, which makes the page smaller."""
    return np.asarray(values, np.float32)
