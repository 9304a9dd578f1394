"""A consumer that is killed at random, on a real Kafka protocol: the mock cluster of librdkafka."""

import json
import random
import time
from pathlib import Path

from confluent_kafka import Producer

from ocgl.serving.replay import replayed
from tests.serving.running import Running

TOPIC = "transactions"


def take_every_message_once(folder: Path, count: int, kills: int, seed: int) -> int:
    """Let a service read messages, wrong ones among them, and kill it again and again; return their number."""
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock"})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    address = f"{broker.host}:{broker.port}/{TOPIC}"
    sent = 0
    for i in range(count):
        events = [{"type": "node", "id": i, "x": [i % 3, 1.0], "neighbors": [i - 1] if i else []}]
        events += [{"type": "label", "id": i, "label": i % 3}]
        for message in (json.dumps(events), *(["not an event"] if i % 50 == 7 else [])):
            producer.produce(TOPIC, message, partition=0)
            sent += 1
    producer.flush(10)
    rng = random.Random(seed)
    options = ["--strategy", "ridge", "--features", "2", "--set", "batch_seconds=0"]
    for turn in range(kills + 1):
        with Running(folder, *(options if turn == 0 else []), "--kafka", address) as running:
            if turn < kills:
                time.sleep(0.05 + 0.2 * rng.random())
                running.kill()
                continue
            end = time.monotonic() + 120
            while running.client.status()["nodes"] < count and time.monotonic() < end:
                time.sleep(0.05)
            assert running.client.status()["nodes"] == count
            assert running.stop() == 0
    engine = replayed(folder)
    assert engine.offsets == {f"{TOPIC}/0": sent} and engine.store.edges == count - 1
    assert engine.scores["ridge"].scored == count and engine.batches == count // 10
    return sent
