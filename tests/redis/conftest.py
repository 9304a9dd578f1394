"""A single server and a cluster of three masters and three replicas, for all tests of a process."""

from collections.abc import Iterator

import pytest

from tests.redis.servers import Cluster, Server, free_ports, need_redis


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_redis()
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    need_redis()
    with Server(tmp_path_factory.mktemp("single"), free_ports(1)[0]) as made:
        made.wait()
        yield made
