"""A run on a cluster that fails equals an undisturbed one, and no answer on the way is wrong."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.redis.failures import disturbed, kill_one, move_slots, restart_all, stop_one, streamed
from tests.redis.servers import Cluster, need_redis

CASES: dict[str, Callable[[Cluster], None]] = {
    "a master is killed": kill_one(random.Random(1)),
    "slots move": move_slots(),
    "a master stops for longer than the time-out": stop_one(random.Random(2)),
    "all servers lose their last moment": restart_all,
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_wrong_or_lost(case: str, tmp_path: Path) -> None:
    need_redis()
    wanted = streamed(None, "linear")
    with Cluster(tmp_path) as cluster:
        found = disturbed(cluster, "linear", CASES[case], 0.5)
    assert found.matrix == wanted.matrix and found.state == wanted.state
    assert found.compared > 500 and found.retries > 0
    assert found.redone > 0 or case != "all servers lose their last moment"
