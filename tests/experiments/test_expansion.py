from pathlib import Path

import numpy as np

from ocgl.datasets import load_dataset
from ocgl.experiments.expansion import expansion, rolling_mean
from ocgl.graph import Graph
from ocgl.streams import class_stream


def test_equals_breadth_first_search_by_hand(graph: Graph) -> None:
    stream = class_stream(graph, batch_size=5)
    found = expansion(stream, (1, 2, 3), fanout=3)
    arrived: set[int] = set()
    row = 0
    for step in stream:
        arrived |= set(step.ids.tolist())
        if step.labels is None:
            continue
        ball = set(step.labels.ids.tolist())
        for hops in (1, 2, 3):
            ball |= {
                int(u) for v in ball for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]] if int(u) in arrived
            }
            assert found.full[hops][row] == len(ball)
            assert found.capped[hops][row] <= min(found.bound[hops], len(ball))
        row += 1
    assert row == len(found.nodes)


def test_rolling_mean() -> None:
    assert rolling_mean(np.array([2, 4, 6]), window=2).tolist() == [2, 3, 5]


def test_two_hops_reach_about_half_of_amazon_computer(data_root: Path) -> None:
    """Figure 2 of the paper shows the rolling mean; the legend its maximum."""
    found = expansion(class_stream(load_dataset("amazon-computer", data_root)), (1, 2))
    row = found.table()[1]
    assert 0.4 < row["full_rolling_max_share"] < 0.6 < row["full_max_share"] < 0.65
    assert row["full_rolling_max"] == rolling_mean(found.full[2]).max() < row["full_max"]
    assert found.capped[2].max() <= found.bound[2] == 1110
