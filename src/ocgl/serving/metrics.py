"""Figures of a service in the format of Prometheus."""

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocgl.types import Json

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts requests, and tells the figures of a service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Histogram(
            "ocgl_request_seconds",
            "Time until an answer began, by route and status.",
            ["route", "status"],
            registry=self._registry,
            buckets=_SECONDS,
        )

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).observe(seconds)

    def text(self, status: Json) -> str:
        """Return all metrics; the state is given as `GET /v1/status` tells it."""
        return generate_latest(self._registry).decode() + generate_latest(_registry_of(status)).decode()


class Timed:
    """Measures requests.

    Args:
        app: the application behind it.
        metrics: where the times go.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it when its answer begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")  # what somebody has typed is no label
                name = getattr(route, "path", "other") if message["status"] != 404 else "other"
                self._metrics.observe(name, message["status"], time.perf_counter() - begin)
            await send(message)

        await self._app(scope, receive, sent)


class _State(Collector):
    def __init__(self, status: Json) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Return the figures of the state."""
        s = self._status

        def gauge(name: str, text: str, value: float | None) -> Iterator[Metric]:
            if value is not None:
                yield GaugeMetricFamily(f"ocgl_{name}", text, value)

        def counter(name: str, text: str, value: float) -> Iterator[Metric]:
            yield CounterMetricFamily(f"ocgl_{name}", text, value)

        yield from counter("records", "Records of the log.", s["sequence"])
        yield from counter("events", "Events taken.", s["events"])
        yield from counter("batches", "Batches learned.", s["batches"])
        yield from counter("failed_batches", "Batches that could not be learned.", s["failed_batches"])
        yield from counter("losses_not_finite", "Losses that were no number.", s["losses_not_finite"])
        yield from gauge("weights_record", "Record up to which the weights know.", s["weights_sequence"])
        yield from gauge("nodes", "Nodes of the graph.", s["nodes"])
        yield from gauge("edges", "Edges of the graph.", s["edges"])
        yield from gauge("waiting_labels", "Labels that wait for a batch.", s["waiting_labels"])
        yield from gauge("queued_requests", "Requests that wait.", s["queued"])
        behind = None if s["follows"] is None else s["follows"]["behind"]
        yield from gauge("records_behind", "Records that the service that is followed is ahead.", behind)
        yield from gauge("log_bytes", "Bytes of the log.", s["log_bytes"])
        yield from gauge("ready", "Whether requests are taken.", int(s["ready"]))
        yield from self._accuracy()
        yield from self._costs()
        times = GaugeMetricFamily("ocgl_recent_seconds", "Time of the last requests, batches and answers.",
                                  labels=["what", "quantile"])  # fmt: skip
        for what, one in s["milliseconds"].items():
            for percentile, quantile in (("p50", "0.5"), ("p99", "0.99")):
                if one[percentile] is not None:
                    times.add_metric([what, quantile], one[percentile] / 1000)
        yield times

    def _accuracy(self) -> Iterator[Metric]:
        total = GaugeMetricFamily("ocgl_accuracy", "Accuracy of answers at arrival.", labels=["strategy"])
        recent = GaugeMetricFamily("ocgl_accuracy_recent", "The same over the last answers.", labels=["strategy"])
        scored = CounterMetricFamily("ocgl_scored_answers", "Answers that were scored.", labels=["strategy"])
        drifts = CounterMetricFamily("ocgl_drifts", "Drifts that were detected.", labels=["strategy"])
        for name, one in self._status["accuracy"].items():
            if one["accuracy"] is not None:
                total.add_metric([name], one["accuracy"])
                recent.add_metric([name], one["recent"])
            scored.add_metric([name], one["scored"])
            drifts.add_metric([name], one["drift_count"])
        yield from (total, recent, scored, drifts)

    def _costs(self) -> Iterator[Metric]:
        """Counted costs of the last update and the last answer, and their declared bounds."""
        cost = GaugeMetricFamily("ocgl_cost", "Counted cost of the last update or answer.", labels=["what", "of"])
        bound = GaugeMetricFamily("ocgl_cost_bound", "Its declared bound.", labels=["what", "of"])
        for what in ("update", "answer"):
            found = self._status[what]
            for metric, key in ((cost, "cost"), (bound, "bound")):
                for of, value in ((found or {}).get(key) or {}).items():
                    metric.add_metric([what, of], value)
        yield from (cost, bound)


def _registry_of(status: Json) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_State(status))
    return registry
