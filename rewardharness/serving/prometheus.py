"""Counters of the server as Prometheus reads them (text exposition format 0.0.4). Labels are few and fixed.

Written by hand: it is a page of code, where the usual client brings threads, locks and a registry of the process.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_SHARES = tuple(number / 10 for number in range(1, 11))

_Labels = tuple[tuple[str, str], ...]


class Counter:
    """A number that only grows, for each combination of labels."""

    kind = "counter"

    def __init__(self) -> None:
        self._values: dict[_Labels, float] = {}

    def add(self, amount: float = 1.0, **labels: str) -> None:
        """Add to the number."""
        key = tuple(sorted(labels.items()))
        self._values[key] = self._values.get(key, 0.0) + amount

    def lines(self, name: str) -> list[str]:
        """Write it down."""
        values = self._values or {(): 0.0}
        return [f"{name}{_braces(labels)} {_number(value)}" for labels, value in values.items()]


class Histogram:
    """How often values fell below each bound."""

    kind = "histogram"

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Take note of a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> list[str]:
        """Write it down."""
        found, below = [], 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            below += count
            found.append(f"{name}_bucket{_braces((('le', _number(bound)),))} {below}")
        return [*found, f"{name}_sum {_number(self._sum)}", f"{name}_count {below}"]


class Gauge:
    """A number that is looked at when it is asked for."""

    kind = "gauge"

    def __init__(self, look: Callable[[], float], labels: Mapping[str, str] | None = None) -> None:
        self._look = look
        self._labels = tuple(sorted((labels or {}).items()))

    def lines(self, name: str) -> list[str]:
        """Write it down."""
        return [f"{name}{_braces(self._labels)} {_number(self._look())}"]


class Metrics:
    """Everything that one server counts."""

    def __init__(self) -> None:
        self.requests = Counter()
        self.items = Counter()
        self.refused = Counter()
        self.judge_failures = Counter()
        self.cached = Counter()
        self.calls = Counter()
        self.tokens = Counter()
        self.log_dropped = Counter()
        self.request_seconds = Histogram(_SECONDS)
        self.judge_seconds = Histogram(_SECONDS)
        self.rewards = Histogram(_SHARES)
        self._all: dict[str, tuple[Counter | Histogram | Gauge, str]] = {
            "rh_requests_total": (self.requests, "Requests by route and status."),
            "rh_refused_total": (self.refused, "Requests that were not taken, by code."),
            "rh_items_total": (self.items, "Edits by result: ok, or the code of the error."),
            "rh_items_cached_total": (self.cached, "Edits whose answer was remembered or shared."),
            "rh_judge_failures_total": (self.judge_failures, "Judgments that the judge failed to make, by code."),
            "rh_judge_calls_total": (self.calls, "Requests to the judge's model."),
            "rh_judge_tokens_total": (self.tokens, "Tokens of the judge's model by kind."),
            "rh_request_log_dropped_total": (self.log_dropped, "Lines of the request log that were not written."),
            "rh_request_seconds": (self.request_seconds, "Time from a request to its reply."),
            "rh_judge_seconds": (self.judge_seconds, "Time that the judge took for one judgment."),
            "rh_reward": (self.rewards, "Rewards as they were given."),
        }

    def gauge(self, name: str, words: str, look: Callable[[], float], labels: Mapping[str, str] | None = None) -> None:
        """Show a number that is looked at when it is asked for."""
        self._all[name] = (Gauge(look, labels), words)

    def text(self) -> str:
        """Write everything down."""
        lines: list[str] = []
        for name, (metric, words) in self._all.items():
            lines += [f"# HELP {name} {words}", f"# TYPE {name} {metric.kind}", *metric.lines(name)]
        return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _braces(labels: _Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
