"""Events from a Kafka topic. How far each partition was read is part of the log, so nothing is taken twice."""

import logging
import threading
import time

from ocgl.errors import ConfigError, MissingExtraError, OcglError, OverloadedError
from ocgl.serving.events import WrongEventError, parse
from ocgl.serving.service import Service

logger = logging.getLogger("ocgl.serving")


class KafkaSource:
    """Reads a topic in a thread of its own. A message holds one event, or a JSON array of events.

    A message that is wrong is left out, logged and counted, and reading goes on.

    Args:
        service: the service to send events to.
        address: `BROKERS/TOPIC`, brokers separated by commas.

    Attributes:
        taken: messages that were taken.
        left_out: messages that were left out.
    """

    def __init__(self, service: Service, address: str) -> None:
        brokers, slash, topic = address.rpartition("/")
        if not (slash and brokers and topic):
            raise ConfigError(f"--kafka {address!r}: write BROKERS/TOPIC, for example localhost:9092/transactions")
        try:
            import confluent_kafka
        except ImportError as error:
            raise MissingExtraError("--kafka", "kafka") from error
        self._kafka, self._service, self._topic = confluent_kafka, service, topic
        self._options = {
            "bootstrap.servers": brokers,
            "group.id": "ocgl",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka", daemon=True)
        self.taken, self.left_out = 0, 0

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(30)

    def _run(self) -> None:
        consumer = self._kafka.Consumer(self._options)
        try:
            self._assign(consumer)
            while not self._stop.is_set() and self._service.ready:
                message = consumer.poll(0.2)
                if message is None:
                    continue
                if message.error() is not None:
                    logger.warning("kafka: %s", message.error())
                    time.sleep(0.2)
                    continue
                self._take(message)
        except OcglError as error:
            logger.error("kafka: reading has stopped: %s", error)
        finally:
            consumer.close()

    def _assign(self, consumer: object) -> None:
        """Take all partitions of the topic, each from where the log has left off."""
        kafka = self._kafka
        while not self._stop.is_set():
            try:
                found = consumer.list_topics(self._topic, timeout=5).topics[self._topic]  # type: ignore[attr-defined]
                if found.error is None and found.partitions:
                    break
            except kafka.KafkaException as error:
                logger.warning("kafka: %s", error)
            time.sleep(0.5)
        else:
            return
        offsets = self._service.engine.offsets
        places = [
            kafka.TopicPartition(self._topic, number, offsets.get(f"{self._topic}/{number}", kafka.OFFSET_BEGINNING))
            for number in found.partitions
        ]
        consumer.assign(places)  # type: ignore[attr-defined]

    def _take(self, message: object) -> None:
        value: bytes = message.value() or b""  # type: ignore[attr-defined]
        source = (self._topic, int(message.partition()), int(message.offset()) + 1)  # type: ignore[attr-defined]
        while not self._stop.is_set():
            try:
                events = parse(value if value.lstrip().startswith(b"[") else b"[" + value + b"]", False)
                self._service.ingest(events, None, source).result(60)
                self.taken += 1
            except OverloadedError:
                time.sleep(0.05)
                continue
            except WrongEventError as error:
                self._service.skip(source, str(error)).result(60)
                self.left_out += 1
            return
