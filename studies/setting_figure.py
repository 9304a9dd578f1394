"""Draw the picture of the setting in the README: docs/setting.png.

A small graph grows node by node. The picture shows three moments: a node arrives with its edges, a bounded
neighbourhood is sampled and learned from, and any node can be asked about.
"""

from pathlib import Path
from typing import Any

import numpy as np

from ocgl.graph import GraphStore, NeighborSampling
from ocgl.reporting.figures import draw
from ocgl.types import DoubleArray, IntArray

PAGE = Path("docs/setting.png")
NODES, HUB, NEW = 26, 3, 25
COLORS = ("#4c78a8", "#f58518", "#54a24b")
INK, PALE, MARK = "#1d2433", "#d5dae3", "#c0392b"


def grown() -> tuple[DoubleArray, IntArray, IntArray]:
    """Make places, classes and edges of a small graph in which one node has many neighbours."""
    rng = np.random.default_rng(7)
    label = np.sort(rng.integers(3, size=NODES))
    label[NEW] = 2
    centre = np.array([[-1.5, 0.5], [0.9, 1.0], [0.4, -1.0]])[label]
    places: DoubleArray = centre + rng.normal(0, 0.48, (NODES, 2))
    places[NEW] = (2.15, -0.5)
    pairs = set()
    for node in range(1, NEW):
        away = np.linalg.norm(places[:node] - places[node], axis=1)
        pairs |= {(node, int(other)) for other in np.argsort(away)[:2]}
    pairs |= {(node, HUB) for node in (5, 7, 9, 12, 15) if node != HUB}
    newest = np.argsort(np.linalg.norm(places[:NEW] - places[NEW], axis=1))[:3]
    pairs |= {(NEW, int(other)) for other in newest}
    edges: IntArray = np.array(sorted(pairs)).T
    return places, label, edges


def figure() -> Any:
    """Draw the three moments side by side."""
    from matplotlib import pyplot as plt

    places, label, edges = grown()
    store = GraphStore()
    store.add(np.arange(NODES), np.zeros((NODES, 1)), edges)
    sample = store.sample([NEW], NeighborSampling(hops=2, fanout=2), key=1)
    receivers = np.repeat(np.arange(len(sample.indptr) - 1), np.diff(sample.indptr))
    sampled = {
        frozenset((int(sample.nodes[a]), int(sample.nodes[b]))) for a, b in zip(receivers, sample.indices, strict=True)
    }
    titles = (
        "1. a node arrives with its edges",
        "2. a bounded sample of its neighbourhood\n(here at most 2 per node, 2 hops) is learned from",
        "3. every node can be asked about,\nat any time, also between batches",
    )
    drawing, panels = plt.subplots(1, 3, figsize=(10.5, 3.1), layout="constrained")
    for number, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        axes.set_title(title, fontsize=10, color=INK)
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(-2.8, 2.9)
        axes.set_ylim(-1.75, 1.9)
        for a, b in edges.T.tolist():
            used = number == 1 and frozenset((a, b)) in sampled
            arriving = number == 0 and a == NEW
            color = INK if used or arriving else PALE
            axes.plot(*places[[a, b]].T, color=color, lw=2.0 if used or arriving else 1.0, zorder=1)
        inside = set(sample.nodes.tolist()) if number == 1 else set(range(NODES))
        for node in range(NODES):
            shown = COLORS[label[node]] if node in inside else PALE
            axes.plot(*places[node], "o", color=shown, ms=9, mec="white", mew=0.8, zorder=2)
        if number < 2:
            axes.plot(*places[NEW], "o", ms=16, mfc="none", mec=MARK, mew=2, zorder=3)
        else:
            style: Any = {"textcoords": "offset points", "color": MARK, "fontsize": 15, "weight": "bold"}
            for node in (1, 11, NEW):
                axes.annotate("?", places[node], xytext=(7, 6), **style)
    return drawing


if __name__ == "__main__":
    draw(figure, PAGE, dpi=150)
