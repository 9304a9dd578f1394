"""docs/beyond.md, from docs/beyond/study.json: the tables are written here, the words around them by hand."""

from pathlib import Path

import numpy as np

from ocgl.types import Json

PAGE = Path("docs/beyond.md")


def write(rows: list[Json]) -> None:
    """Write the page."""
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    tables = []
    for stream, metric in (("class", "AP"), ("class", "AAP"), ("time", "AP"), ("time", "AAP")):
        tables.append(f"### {metric}, {stream} stream\n\n{_table(rows, graphs, stream, metric)}")
    PAGE.write_text(HEAD + "\n".join(tables) + "\n### Cost\n\n" + _cost(rows, graphs))


def _values(rows: list[Json], graph: str, stream: str, variant: str, metric: str) -> list[float]:
    wanted = (graph, stream, variant)
    return [row[metric] for row in rows if (row["graph"], row["stream"], row["variant"]) == wanted]


def _table(rows: list[Json], graphs: list[str], stream: str, metric: str) -> str:
    """Give means over seeds, and the difference to the first variant in the others' lines."""
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    lines = [f"| variant | {' | '.join(graphs)} |", "|---" * (len(graphs) + 1) + "|"]
    first = {graph: np.mean(_values(rows, graph, stream, variants[0], metric)) for graph in graphs}
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
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cost(rows: list[Json], graphs: list[str]) -> str:
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    lines = [f"| ms per update | {' | '.join(graphs)} |", "|---" * (len(graphs) + 1) + "|"]
    for variant in variants:
        found = [_values(rows, graph, "class", variant, "update_ms") for graph in graphs]
        lines.append(f"| {variant} | {' | '.join(f'{np.mean(v):.2f}' if v else '-' for v in found)} |")
    return "\n".join(lines) + "\n"


HEAD = """# Beyond the paper: learners that do not forget

Gradient steps on a stream of ever new classes overwrite what was learned. `slda` and `ridge` keep sums instead: for
each class the number and the sum of its nodes' features, for all of them one matrix of second moments. The classifier
is a function of those sums and is solved for when it is asked. So the order of the stream does not matter to it, no
node needs to be replayed, and the sums of two parts of a stream add up to those of the whole (`Learner.merge`,
`ocgl.benchmark.shards`).

The features are fixed: the node's own row, the mean over at most ten sampled neighbours (`mean1`), the mean over
their means (`mean2`). What is lost is lost by the neighbourhoods: a training node is seen with the few neighbours it
had when it came, a test node with those it has later. `revisit` looks again at a bounded number of remembered nodes
with each batch and corrects their part exactly.

Below: what each change does, five seeds (sampling and projection; the stream is the same), scores at 25 places of the
stream. The first line has the score of the plain method, the others the difference to it, in points. `sbm` graphs are
block models of 4,000 nodes and ten classes. Shipped as options: views, shrinkage, `balanced`, `project`, `revisit`.
The rest was tried and is not shipped; it lies in `benchmarks/variants.py`.

"""
