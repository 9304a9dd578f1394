import numpy as np
import pytest
from scipy.sparse import csr_array

from ocgl.errors import ConfigError, UnknownNameError
from ocgl.graph import GraphStore, NeighborSampling
from ocgl.nn.neighbor_features import NeighborFeatures

X = np.array([[1, 0, 2], [0, 4, 0], [8, 0, 0], [0, 0, 16], [1, 1, 1]], np.float32)
EDGES = np.array([[0, 0, 1], [1, 2, 3]])  # 4 has no neighbour


def neighborhood(hops: int, sparse: bool = False) -> object:
    store = GraphStore()
    store.add(np.arange(5), csr_array(X) if sparse else X, EDGES)
    return store.sample([0, 4, 1], NeighborSampling(hops, 10, "sum"), 0)


@pytest.mark.parametrize("sparse", [False, True])
def test_parts_are_what_they_say(sparse: bool) -> None:
    mean = {0: (X[1] + X[2]) / 2, 1: (X[0] + X[3]) / 2, 2: X[0], 3: X[1], 4: 0 * X[4]}
    expected = {
        "own": X[[0, 4, 1]],
        "mean1": np.array([mean[v] for v in (0, 4, 1)]),
        "diff1": np.array([X[v] - mean[v] for v in (0, 4, 1)]),
        "mean2": np.array([(mean[1] + mean[2]) / 2, mean[4], (mean[0] + mean[3]) / 2]),
    }
    for parts in ("own", "mean1", "diff1", "own+mean1", "mean2", "own+mean1+mean2+diff1"):
        view = NeighborFeatures(parts)
        found = view.encode(neighborhood(view.hops, sparse))  # type: ignore[arg-type]
        np.testing.assert_allclose(found, np.concatenate([expected[p] for p in parts.split("+")], 1), atol=1e-6)
        assert found.shape[1] == view.width(3) and found.dtype == np.float32


@pytest.mark.parametrize("sparse", [False, True])
def test_a_projection_is_the_same_matrix_for_every_part(sparse: bool) -> None:
    plain = NeighborFeatures("own+mean1+mean2").encode(neighborhood(2, sparse))  # type: ignore[arg-type]
    view = NeighborFeatures("own+mean1+mean2", project=2, seed=4)
    found = view.encode(neighborhood(2, sparse))  # type: ignore[arg-type]
    self_weight = NeighborFeatures("own", project=2, seed=4)
    self_weight.encode(neighborhood(0, sparse))  # type: ignore[arg-type]
    assert self_weight._matrix is not None
    expected = [plain[:, 3 * i : 3 * i + 3] @ self_weight._matrix for i in range(3)]
    np.testing.assert_allclose(found, np.concatenate(expected, 1), atol=1e-4)
    assert view.nbytes == 4 * 3 * 2 and NeighborFeatures("own", project=5).width(3) == 3


def test_unknown_and_double_parts_are_named() -> None:
    with pytest.raises(UnknownNameError):
        NeighborFeatures("own+mean3")
    with pytest.raises(ConfigError, match="twice"):
        NeighborFeatures("own+own")
