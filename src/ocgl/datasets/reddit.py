"""Reddit (Hamilton et al. 2017), read by torch_geometric's `Reddit`."""

from pathlib import Path

from ocgl.datasets import pyg
from ocgl.datasets.spec import Parsed


def parse(name: str, raw: Path) -> Parsed:
    """Read `Reddit/raw/reddit_data.npz` and `reddit_graph.npz`."""
    return pyg.parsed(name, pyg.dataset("Reddit", raw.parent))
