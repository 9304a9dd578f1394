"""Write one run as a self-contained HTML page."""

from pathlib import Path
from typing import Any

import numpy as np

from ocgl.errors import ConfigError
from ocgl.experiments.results import RunResult
from ocgl.experiments.run_directory import RunDirectory
from ocgl.files import write_whole
from ocgl.reporting.estimates import estimate_of, sentence
from ocgl.reporting.extras import require_report_extra
from ocgl.reporting.page import environment, plotly_source
from ocgl.reporting.plots import LAYOUT, div
from ocgl.reporting.tables import per_update

_FIGURES = ("AAP", "AP", "AF", "AF_T", "prequential")


def write_run_page(directory: Path, page: Path | None = None) -> Path:
    """Write the page of a finished run; return its path.

    Args:
        directory: folder of the run (`ocgl run --out`).
        page: HTML file to write; `report.html` in the folder of the run if None.
    """
    require_report_extra("report.html")
    result = RunDirectory(directory).finished
    if result is None:
        raise ConfigError(f"{directory} contains no finished run; give the folder of a finished `ocgl run --out`")
    html = (
        environment()
        .get_template("run.html")
        .render(
            result=result,
            scores=_scores(result),
            estimate=sentence(result),
            facts=_facts(result),
            figures=_figures(directory, result),
            plotly=plotly_source(),
        )
    )
    page = page or directory / "report.html"
    write_whole(page, html.encode())
    return page


def _scores(result: RunResult) -> list[tuple[str, str]]:
    estimate = estimate_of([result])
    names = {"AAP": f"AAP, estimate: {estimate.ends}"} if estimate is not None else {}
    shown = [(name, result.score(name)) for name in _FIGURES]
    return [(names.get(name, name), "-" if value is None else f"{value:.2f}") for name, value in shown]


def _facts(result: RunResult) -> list[tuple[str, str]]:
    most, bound = result.cost_per_update.most, result.cost_per_update.bound
    return [
        ("updates", f"{result.updates:,}"),
        ("milliseconds per update", per_update(result) or "-"),
        ("learning / evaluating", f"{result.learn_seconds:.1f} s / {result.evaluate_seconds:.1f} s"),
        ("nodes read per update, maximum", f"{most.nodes:,}" + (f" of {bound.nodes:,} allowed" if bound else "")),
        ("bytes read per update, maximum", f"{most.bytes:,}" + (f" of {bound.bytes:,} allowed" if bound else "")),
        ("memory of the method", f"{result.memory_bytes:,} bytes, {result.memory_nodes:,} nodes"),
        ("peak memory of the process", f"{result.peak_rss_bytes / 2**20:,.0f} MiB"),
    ]


def _figures(directory: Path, result: RunResult) -> list[tuple[str, str]]:
    curves = RunDirectory(directory).curves()
    tasks = result.statistics.tasks
    per_task = curves.select([f"task_{j}" for j in range(tasks)]).to_numpy().T
    step, task = curves["step"].to_numpy(), curves["task"].to_numpy()
    boundaries = [int(s) for s in step[1:][np.diff(task) > 0]]
    ids = [f"task {j + 1}" for j in range(tasks)]
    unit = "percent, estimate" if result.evaluation.anytime == "estimate" else "percent"
    return [
        (
            f"Anytime performance on validation nodes (AP_t, {unit})",
            _curve(step, curves["AP_t"].to_numpy(), boundaries),
        ),
        (f"Anytime score of each task (validation nodes, {unit})", _heat(step.tolist(), ids, per_task, "batch", "")),
        (
            "Performance matrix (test nodes, percent): row i is measured after task i",
            _heat(ids, ids[-len(result.matrix) :], np.array(result.matrix, float), "scored on", "after"),
        ),
    ]


def _curve(step: Any, score: Any, boundaries: list[int]) -> str:
    import plotly.graph_objects as go

    figure = go.Figure(go.Scatter(x=step, y=score, mode="lines", line={"width": 2}, name="AP_t"))
    for boundary in boundaries:
        figure.add_vline(x=boundary, line={"width": 1, "dash": "dot", "color": "#999"})
    figure.update_layout(**LAYOUT, xaxis_title="batch", yaxis_title="AP_t", yaxis_range=[0, 101])
    return div(figure, 340)


def _heat(x: list[Any], y: list[str], values: Any, x_title: str, y_title: str) -> str:
    import plotly.graph_objects as go

    figure = go.Figure(go.Heatmap(x=x, y=y, z=values, zmin=0, zmax=100, colorscale="Viridis", hoverongaps=False))
    if len(x) <= 30:
        figure.update_traces(texttemplate="%{z:.0f}")
    figure.update_layout(**LAYOUT, xaxis_title=x_title, yaxis_title=y_title, yaxis_autorange="reversed")
    return div(figure, 340)
