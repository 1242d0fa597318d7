"""Metrics of the server for Prometheus. Labels are few and fixed."""

from collections.abc import Callable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_SHARES = tuple(number / 10 for number in range(1, 11))

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        self.requests = counter("rh_requests_total", "Requests by route and status.", ("code", "route"))
        self.refused = counter("rh_refused_total", "Requests that were not taken, by code.", ("code",))
        self.items = counter("rh_items_total", "Edits by result: ok, or the code of the error.", ("outcome",))
        self.cached = counter("rh_items_cached_total", "Edits whose judgment was cached or shared.")
        self.judge_failures = counter(
            "rh_judge_failures_total", "Judgments that the judge failed to make, by code.", ("code",)
        )
        self.calls = counter("rh_judge_calls_total", "Requests to the judge's model.")
        self.tokens = counter("rh_judge_tokens_total", "Tokens of the judge's model by kind.", ("kind",))
        self.log_dropped = counter("rh_request_log_dropped_total", "Lines of the request log that were not written.")
        self.request_seconds = histogram("rh_request_seconds", "Time from a request to its reply.", buckets=_SECONDS)
        self.judge_seconds = histogram(
            "rh_judge_seconds", "Time that the judge took for one judgment.", buckets=_SECONDS
        )
        self.rewards = histogram("rh_reward", "Rewards as they were given.", buckets=_SHARES)

    def gauge(self, name: str, text: str, read: Callable[[], float], labels: Mapping[str, str] | None = None) -> None:
        """Add a number that is read when the metrics are."""
        gauge = Gauge(name, text, sorted(labels or {}), registry=self._registry)
        (gauge.labels(**labels) if labels else gauge).set_function(read)

    def text(self) -> bytes:
        """Return all metrics in the text exposition format."""
        return generate_latest(self._registry)
