"""CoraFull (Bojchevski and Günnemann 2018) and Coauthor CS (Shchur et al. 2018): adjacency and words as CSR.

torch_geometric also reads these files, but binarises the word counts and returns dense rows (690 MB for CoraFull).
This module returns the features as distributed, and sparse.
"""

from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from ocgl.datasets.spec import Parsed
from ocgl.graph import Graph
from ocgl.types import PositionArray


def parse(name: str, raw: Path) -> Parsed:
    """Read the only `.npz` file in `raw`."""
    (path,) = raw.glob("*.npz")
    with np.load(path, allow_pickle=False) as file:
        adjacency, words = (
            csr_array(
                (file[f"{part}_data"].astype(np.float32), file[f"{part}_indices"], file[f"{part}_indptr"]),
                shape=tuple(file[f"{part}_shape"]),
            )
            for part in ("adj", "attr")
        )
        y = file["labels"]
    graph = Graph.from_edges(name, np.stack(_ends(adjacency)), y, words)
    return Parsed(graph, len(adjacency.indices))


def _ends(adjacency: csr_array) -> tuple[PositionArray, PositionArray]:
    adjacency.check_format(full_check=True)
    entries = adjacency.tocoo()
    return entries.row, entries.col
