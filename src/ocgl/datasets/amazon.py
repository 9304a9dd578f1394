"""Amazon Computer (Shchur et al. 2018), read by torch_geometric's `Amazon`."""

from pathlib import Path

from ocgl.datasets import pyg
from ocgl.datasets.spec import Parsed


def parse(name: str, raw: Path) -> Parsed:
    """Read `Computers/raw/amazon_electronics_computers.npz`.

    The features stay dense: a third of the binary entries are 1.
    """
    return pyg.parsed(name, pyg.dataset("Amazon", raw.parent.parent, name="Computers"))
