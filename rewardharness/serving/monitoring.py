"""Metrics, request log, sample of requests, and readiness of the server. Labels of metrics are few and fixed.

The sample is a share of the served requests as a dataset without labels, which people can label and a Library can
evolve from. A row is one source with two to four candidates of one instruction. It holds what was judged and the
rewards, and nothing about the caller: no header, token, address, id or time. Images are stored as they were sent,
including their metadata.
"""

import asyncio
import errno
import logging
import queue
import random
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from rewardharness.data.folder import FEEDBACK_MARKER
from rewardharness.data.tables import store_image
from rewardharness.files import append_jsonl, write_json
from rewardharness.models.probe import Probe
from rewardharness.schema import GROUPS, LABELS, PAIRS, Json
from rewardharness.serving.faults import UPSTREAM_TROUBLE, Fault
from rewardharness.serving.media import Edit, RequestImage
from rewardharness.serving.results import ItemResult, JudgedEdit

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
        self.sample_dropped = counter("rh_sample_dropped_total", "Requests drawn for the sample and not written.")
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


log = logging.getLogger(__name__)

Record = TypeVar("Record")

_MOST = 10_000
"""Maximum number of lines that wait to be written; more are dropped and counted."""


class BackgroundWriter(Generic[Record]):
    """Writes records in a background thread, so that a slow disk does not slow down requests.

    Args:
        name: What is written, for the log.
        write: Writes one record.
        on_drop: Called for each record that is not written.
        most: Maximum number of records that wait to be written; more are dropped.
    """

    def __init__(self, name: str, write: Callable[[Record], None], on_drop: Callable[[], None], most: int) -> None:
        self._name, self._write_one, self._on_drop = name, write, on_drop
        self._complained = False
        self._waiting: queue.Queue[Record | None] = queue.Queue(most)
        self._thread = threading.Thread(target=self._write, name=name, daemon=True)
        self._thread.start()

    def put(self, record: Record) -> None:
        """Queue a record for writing."""
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._on_drop()

    def close(self) -> None:
        """Write all queued records."""
        self._waiting.put(None)
        self._thread.join()

    def _write(self) -> None:
        while (record := self._waiting.get()) is not None:
            try:
                self._write_one(record)
            except OSError as error:
                self._on_drop()
                if not self._complained:
                    self._complained = True
                    log.warning("the %s cannot be written: %s", self._name, error.strerror)


class RequestLog(BackgroundWriter[Json]):
    """Writes a line per request. The file is reopened for each line, so that it can be rotated at any time.

    Args:
        path: The file.
        on_drop: Called for each line that is not written.
    """

    def __init__(self, path: Path, on_drop: Callable[[], None]) -> None:
        super().__init__("request log", partial(append_jsonl, path), on_drop, _MOST)


MAX_SAMPLE = 1 << 30
"""Size of the folder in bytes beyond which nothing is added."""

_WAITING = 8
"""Maximum number of rows, with their images, that wait to be written."""
_LOOK_AGAIN = 100
"""Rows after which the size of the folder is added up again, since other processes may write there."""

Sample = tuple[str, Sequence[RequestImage], Sequence[tuple[RequestImage, float]]]
"""An instruction, the source and its references, and the candidates with their rewards."""


class RequestSample(BackgroundWriter[Sample]):
    """Writes a share of the requests into a dataset folder, in a background thread.

    Args:
        folder: The folder; created if missing, for this user only.
        share: Share of the requests, in [0, 1].
        on_drop: Called for each request that was drawn and is not written.
        about: What is stored with the rewards, such as the judge.
        chance: Draws the requests.
    """

    def __init__(
        self,
        folder: Path,
        share: float,
        on_drop: Callable[[], None],
        about: Json,
        chance: random.Random = random.Random(),  # noqa: B008
    ) -> None:
        self._folder, self._share, self._about, self._chance = folder, share, about, chance
        self._size, self._rows = 0, 0
        super().__init__("sample of requests", self._store, on_drop, _WAITING)

    def draw(self, edits: Sequence[Edit], results: Sequence[ItemResult]) -> None:
        """Queue a request for writing, if it is drawn and has candidates to compare.

        Args:
            edits: The edits of the request.
            results: The result of each candidate, in order.
        """
        if self._chance.random() < self._share and (sample := self._sample(edits, results)):
            self.put(sample)

    def _sample(self, edits: Sequence[Edit], results: Sequence[ItemResult]) -> Sample | None:
        """Return a row about one of the sources of a request; None without two different judged candidates."""
        alike: dict[tuple[str, ...], tuple[Sequence[RequestImage], dict[str, tuple[RequestImage, float]]]] = {}
        judged = [(edit, candidate) for edit in edits for candidate in edit.candidates]
        for (edit, candidate), result in zip(judged, results, strict=True):
            source, reward = edit.source, result.reward
            if isinstance(source, RequestImage) and isinstance(candidate, RequestImage) and reward is not None:
                inputs = source, *edit.references
                key = (edit.instruction.strip(), *(image.sha256 for image in inputs))
                alike.setdefault(key, (inputs, {}))[1][candidate.sha256] = candidate, reward
        several = [key for key, (_, group) in alike.items() if key[0] and len(group) > 1]
        if not several:
            return None
        key = self._chance.choice(several)
        sources, candidates = alike[key]
        return key[0], sources, self._chance.sample([*candidates.values()], min(len(LABELS), len(candidates)))

    def _store(self, sample: Sample) -> None:
        instruction, sources, judged = sample
        if self._rows % _LOOK_AGAIN == 0:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._size = sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())
            if not (self._folder / FEEDBACK_MARKER).exists():  # a line that a crash tore is passed over
                write_json(self._folder / FEEDBACK_MARKER, {"format": 1})
        images = [*sources, *(candidate for candidate, _ in judged)]
        self._size += sum(len(image.data) for image in images)
        if self._size > MAX_SAMPLE:
            raise OSError(errno.EFBIG, f"it has reached {MAX_SAMPLE >> 20} MiB")
        source, *names = [store_image(self._folder, image.data) for image in images]
        row: dict[str, Any] = {"instruction": instruction, "source": source, "references": names[: len(sources) - 1]}
        row["candidates"] = names[len(sources) - 1 :]
        row["context"] = {"rewards": [reward for _, reward in judged], **self._about}
        append_jsonl(self._folder / (PAIRS if len(judged) == 2 else GROUPS), row)
        self._rows += 1


FRESH_SECONDS = 30.0
"""How long a successful judgment or probe counts, in seconds."""
AGAIN_SECONDS = 5.0
"""Minimum time between failing probes, in seconds."""
PROBE_SECONDS = 20.0
"""Timeout of a probe, in seconds."""
FAILURES = 10
"""Number of consecutive judgments with model errors after which the judge is not ready."""

NOT_READY = Fault("not_ready", "The judge does not answer.", "Wait; the server asks it again by itself.", True)
ENDING = Fault("shutting_down", "The server is shutting down.", "Ask another server.", True)


class Readiness:
    """Tracks whether the judge is available.

    A recent judgment shows that it is. Otherwise the judge's endpoint is probed, once for all concurrent callers. A
    judge without a model is always ready.

    Args:
        probe: Probes the endpoints of the judge; None if there is nothing to probe.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self, probe: Callable[[], Awaitable[Sequence[Probe]]] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._alive_at = float("-inf")
        self._probed_at = float("-inf")
        self._failures = 0
        self._probing: asyncio.Task[bool] | None = None
        self.ending = False
        """Whether the server is shutting down."""

    def saw(self, outcome: JudgedEdit) -> None:
        """Record the outcome of a judgment."""
        failure = outcome.judgment.failure
        if failure is not None and failure.code in UPSTREAM_TROUBLE:
            self._failures += 1
            if self._failures >= FAILURES:
                self._alive_at = float("-inf")
        elif failure is None or failure.code != "defect":
            self._failures = 0
            self._alive_at = self._clock()

    async def problem(self) -> Fault | None:
        """Return why the judge is not available; None if it is ready."""
        if self.ending:
            return ENDING
        if self._probe is None:
            return None
        now = self._clock()
        if now - self._alive_at <= FRESH_SECONDS:
            return None
        if self._probing is None:
            if now - self._probed_at < AGAIN_SECONDS:
                return NOT_READY
            self._probing = asyncio.create_task(self._look(self._probe))
        alive = await asyncio.shield(self._probing)
        return None if alive else NOT_READY

    async def _look(self, probe: Callable[[], Awaitable[Sequence[Probe]]]) -> bool:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                probes = await probe()
            alive = any(probe.capabilities is not None for probe in probes)
        except Exception:  # any error means that the probe failed
            alive = False
        self._probed_at = self._clock()
        self._probing = None
        if alive:
            self._failures = 0
            self._alive_at = self._clock()
        return alive

    async def close(self) -> None:
        """Cancel a running probe."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait({self._probing})
