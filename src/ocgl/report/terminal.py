"""Results as tables for a terminal."""

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from ocgl.types import Json


def result_table(result: Json) -> Group:
    """Show the scores of a run and its protocol card."""
    title = f"{result['strategy']} on {result['dataset']} ({result['stream']} stream, profile {result['profile']})"
    scores = Table(title=title, title_justify="left")
    names = ("AAP", "AP", "AF", "AF_T", "prequential")
    for name in names:
        scores.add_column(name, justify="right")
    scores.add_row(*("-" if result[name] is None else f"{result[name]:.2f}" for name in names))
    return Group(scores, _cost(result), _card(result))


def _cost(result: Json) -> Table:
    table = Table(show_header=False, box=None)
    updates = max(result["updates"], 1)
    table.add_row("updates", f"{result['updates']:,} at {1000 * result['learn_seconds'] / updates:.2f} ms")
    table.add_row("evaluation", f"{result['evaluate_seconds']:.1f} s")
    table.add_row("method keeps", f"{result['memory_bytes'] / 1e6:.1f} MB, {result['memory_nodes']:,} nodes")
    if result["nonfinite_losses"]:
        table.add_row("[red]diverged", f"{result['nonfinite_losses']:,} losses were not finite")
    return table


def _card(result: Json) -> Table:
    table = Table(title="protocol", title_justify="left", show_header=False, box=None)
    for name, value in result["protocol"].items():
        if name != "options" and value:
            table.add_row(f"[dim]{name}", escape("; ".join(value) if isinstance(value, list) else str(value)))
    return table
