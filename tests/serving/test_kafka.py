"""Events from a real Kafka protocol: the mock cluster of librdkafka."""

from pathlib import Path

import pytest

from tests.serving.kafka_kills import take_every_message_once

pytestmark = pytest.mark.slow


def test_a_killed_consumer_takes_every_message_once(tmp_path: Path) -> None:
    assert take_every_message_once(tmp_path / "s", 400, 2, 0) == 408
