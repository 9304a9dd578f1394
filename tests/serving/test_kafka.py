"""Events from a real Kafka protocol: the mock cluster of librdkafka."""

import json
import random
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ocgl.serving.replay import replayed
from tests.serving.running import Running

pytestmark = pytest.mark.slow
TOPIC, COUNT = "transactions", 400


def test_a_killed_consumer_takes_every_message_once(tmp_path: Path) -> None:
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock"})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    address = f"{broker.host}:{broker.port}/{TOPIC}"
    for i in range(COUNT):
        events = [{"type": "node", "id": i, "x": [i % 3, 1.0], "neighbors": [i - 1] if i else []}]
        events += [{"type": "label", "id": i, "label": i % 3}]
        wrong = b"not an event" if i % 50 == 7 else None
        producer.produce(TOPIC, json.dumps(events), partition=0)
        if wrong is not None:
            producer.produce(TOPIC, wrong, partition=0)
    producer.flush(10)
    rng, folder = random.Random(0), tmp_path / "s"
    options = ["--strategy", "ridge", "--features", "2", "--set", "batch_seconds=0"]
    for turn in range(3):
        with Running(folder, *(options if turn == 0 else []), "--kafka", address) as running:
            if turn < 2:
                time.sleep(0.05 + 0.2 * rng.random())
                running.kill()
                continue
            end = time.monotonic() + 60
            while running.client.status()["nodes"] < COUNT and time.monotonic() < end:
                time.sleep(0.05)
            assert running.client.status()["nodes"] == COUNT
            assert running.stop() == 0
    engine = replayed(folder)
    assert engine.offsets == {f"{TOPIC}/0": COUNT + 8} and engine.store.edges == COUNT - 1
    assert engine.scores["ridge"].scored == COUNT and engine.batches == COUNT // 10
