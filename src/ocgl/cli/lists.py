"""Commands that need no run: `datasets`, `convert`, `strategies` and `expansion`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from ocgl.cli.common import DataRoot, StreamKind, app, console, say
from ocgl.errors import ConfigError
from ocgl.files import write_whole
from ocgl.types import Json

Dataset = Annotated[
    str, typer.Option(help="A name from `ocgl datasets`, sbm:key=value,..., or a path to an .npz file.")
]


@app.command()
def datasets(data_root: DataRoot = None) -> None:
    """List the datasets with their statistics, and whether each is on disk."""
    from ocgl.datasets import catalogue

    table = Table(title="datasets", title_justify="left", box=None, padding=(0, 1, 0, 0))
    for name in ("name", "nodes", "edges", "features", "classes", "tasks", "on disk"):
        numeric = name in ("nodes", "edges", "features", "classes")
        table.add_column(name, justify="right" if numeric else "left", no_wrap=name != "tasks")
    for entry in catalogue(data_root):
        if not entry.name.startswith("sbm:"):
            whole = (entry.nodes, entry.edges, entry.classes)
            used = (entry.used, entry.used_edges, entry.used_classes)
            nodes, edges, classes = map(_counts, whole, used)
            counts = (nodes, edges, f"{entry.features:,}", classes)
            tasks = ", ".join(f"{kind} {count}" for kind, count in entry.streams.items())
            table.add_row(entry.name, *counts, tasks, entry.on_disk)
    console.print(table)
    console.print("\nBelow a count: what streams use, where classes of one node and an odd last class are left out.")
    console.print("Edges are counted as in the paper. Other values of --dataset:")
    console.print("  sbm:NAME                     a block model of the size of one of the paper's seven datasets")
    console.print("  sbm:nodes=20000,edges=500000 a block model of any size")
    console.print("  path/to/graph.npz            your own graph")


@app.command()
def convert(
    nodes: Annotated[Path, typer.Argument(help="Table of nodes, .csv or .parquet.")],
    edges: Annotated[Path, typer.Argument(help="Table of edges, .csv or .parquet.")],
    out: Annotated[Path, typer.Argument(help="Graph to write, .npz.")],
    id: Annotated[str, typer.Option(help="Column of node ids.")] = "id",
    label: Annotated[str, typer.Option(help="Column of classes; empty for none.")] = "label",
    time: Annotated[str | None, typer.Option(help="Column of times of arrival.")] = None,
    label_time: Annotated[str | None, typer.Option(help="Column of times at which labels become known.")] = None,
    removal_time: Annotated[str | None, typer.Option(help="Column of times at which nodes are removed.")] = None,
    domain: Annotated[str | None, typer.Option(help="Column of domains.")] = None,
    source: Annotated[str, typer.Option(help="Column of one end of each edge.")] = "source",
    target: Annotated[str, typer.Option(help="Column of the other end.")] = "target",
    edge_time: Annotated[str | None, typer.Option(help="Column of times of edges.")] = None,
    features: Annotated[
        str | None, typer.Option(help="Columns of features, separated by commas (default: all others).")
    ] = None,
    fit: Annotated[
        float, typer.Option(help="First fraction of the nodes that scaling and categories are learned from.")
    ] = 0.2,
) -> None:
    """Turn two tables into a graph for --dataset: ids and classes of your own, scaled and encoded features."""
    from ocgl.datasets.frames import from_polars, read_table, save_npz

    if out.suffix != ".npz":
        raise ConfigError(f"the graph is written as an .npz file, not as {out.name}")
    graph = from_polars(
        read_table(nodes, (id,)),
        read_table(edges, (source, target)),
        id=id,
        label=label or None,
        time=time,
        label_time=label_time,
        removal_time=removal_time,
        domain=domain,
        source=source,
        target=target,
        edge_time=edge_time,
        features=features.split(",") if features else None,
        fit=fit,
        name=out.stem,
    )
    save_npz(graph, out)
    classes = graph.classes
    say(f"{out}: {graph.nodes:,} nodes, {graph.edges:,} edges, {graph.width:,} features, {classes:,} classes")
    for note in graph.notes:
        say(note)
    if graph.changes is not None:
        say(f"{len(graph.changes):,} later edges and removals; they happen in streams by time")


def _counts(whole: int, used: int | None) -> str:
    """Return a count, and below it what streams use where that is another number."""
    if used == whole:
        return f"{whole:,}"
    return f"{whole:,}\n{'unknown' if used is None else f'{used:,}'}"


@app.command()
def expansion(
    dataset: Dataset,
    hops: Annotated[str, typer.Option(help="Numbers of hops, separated by commas.")] = "1,2",
    fanout: Annotated[int, typer.Option(help="Most neighbours to sample per node.", min=1)] = 10,
    stream: StreamKind = "class",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the stream as key=value; may be repeated.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Figure to write (.png, .pdf or .svg); the data goes to a .csv file of the same name.")
    ] = Path("expansion.png"),
    data_root: DataRoot = None,
) -> None:
    """Plot how many nodes a batch reaches with all neighbours and with sampled ones (Figure 2 of the paper)."""
    from ocgl.datasets import load_dataset
    from ocgl.experiments.config import defaults_of, parse_override
    from ocgl.experiments.expansion import expansion as measure
    from ocgl.experiments.expansion import parse_hops
    from ocgl.reporting import figures
    from ocgl.reporting.terminal import expansion_table
    from ocgl.streams import make_stream

    depths = parse_hops(hops)
    if out.suffix not in (".png", ".pdf", ".svg"):
        raise ConfigError(f"--out {out}: name a .png, .pdf or .svg file")
    options: Json = {"batch_size": defaults_of(dataset).batch_size} | dict(map(parse_override, overrides or ()))
    with console.status("measuring"):
        graph = load_dataset(dataset, data_root, structure_only=True)
        if graph.classes == 0:  # without labels, batches are drawn from all nodes as from one class
            graph = replace(graph, y=np.zeros(graph.nodes, np.int64))
            options = {"classes_per_task": 1} | options
        found = measure(make_stream(graph, stream, **options), depths, fanout)
        figures.draw(lambda: figures.expansion(found), out)
        write_whole(out.with_suffix(".csv"), found.frame().write_csv().encode())
    console.print(expansion_table(found))
    say(f"figure written to {out}")


@app.command()
def strategies(
    grids: Annotated[
        bool, typer.Option("--grids", help="Show the search spaces instead (Table 11 of the paper).")
    ] = False,
) -> None:
    """List the strategies and their hyperparameters."""
    from ocgl.experiments.tuning import configurations
    from ocgl.strategies import find, make_strategy, names

    table = Table(title="strategies", title_justify="left")
    heads = ("search space", "configurations") if grids else ("hyperparameters with defaults", "reference")
    for column in ("name", *heads):
        table.add_column(column)
    for name in names():
        if grids:
            lines = [f"{key}: {', '.join(map(str, values))}" for key, values in find(name).grid.items()]
            table.add_row(name, Text("\n".join(lines)), str(len(configurations(find(name).grid))))
        else:
            values = ", ".join(f"{key}={value}" for key, value in make_strategy(name).hyperparameters().items())
            table.add_row(name, Text(values), Text(find(name).reference))
    console.print(table)
