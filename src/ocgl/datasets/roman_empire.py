"""Roman Empire (Platonov et al. 2023), read by torch_geometric's `HeterophilousGraphDataset`."""

from pathlib import Path

from ocgl.datasets import pyg
from ocgl.datasets.spec import Parsed


def parse(name: str, raw: Path) -> Parsed:
    """Read `roman_empire/raw/roman_empire.npz`."""
    return pyg.parsed(name, pyg.dataset("HeterophilousGraphDataset", raw.parent.parent, name="Roman-empire"))
