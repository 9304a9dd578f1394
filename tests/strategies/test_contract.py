from collections.abc import Callable

import pytest

from ocgl.graph import Graph
from ocgl.strategies import make, names
from tests.strategies.contract import CHECKS, Make


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
@pytest.mark.parametrize("name", names())
def test_contract(name: str, check: Callable[[Make, Graph], None], graph: Graph) -> None:
    check(lambda: make(name, seed=3, fanout=4, passes=2), graph)
