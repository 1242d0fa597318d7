"""The reward service: validation, admission, judging and replies."""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from rewardharness import __version__
from rewardharness.files import content_id
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.judge import Judge
from rewardharness.judging.ranking import cost
from rewardharness.judging.subagent import model_judge
from rewardharness.library.store import Library
from rewardharness.schema import Json
from rewardharness.serving.body import ClientGoneError, Parse, Receive, body_too_large, parse_body, read_body
from rewardharness.serving.faults import SHUTTING_DOWN, Fault, RefusedError, invalid
from rewardharness.serving.limits import AdmissionControl, Limits
from rewardharness.serving.media import Edit
from rewardharness.serving.monitoring import Metrics, Readiness, RequestLog, RequestSample
from rewardharness.serving.results import JudgedEdit, RequestResult, RewardReply, milliseconds, normalised
from rewardharness.serving.scoring import Scorer
from rewardharness.serving.wire import (
    BatchRequest,
    CompareRequest,
    EditReader,
    RankRequest,
    RewardRequest,
    read_request,
)

_AT_ONCE = 512 << 10
"""Maximum size in bytes of a body that is parsed on the event loop; larger ones are parsed in a thread."""
_PER_TURN, _LEAST = _AT_ONCE, 64 << 10
"""Bytes that are parsed in one turn of the event loop before others take theirs, and what a small body counts as."""
_WATCH_AFTER = 0.05
"""Seconds after which a request is watched for a client that disconnects."""


@dataclass
class RequestContext:
    """State of one request, for metrics and log."""

    request_id: str
    route: str = "other"
    edits: tuple[Edit, ...] = ()
    reply: RewardReply | None = None
    fault: str | None = None
    """Code of the fault, if the request failed."""
    began: float = field(default_factory=time.perf_counter)


class Service:
    """Handles HTTP requests with one judge and one Library.

    Args:
        judge: Who judges.
        library: What it knows.
        limits: How much at once.
        release: Hash of the release that both come from, if they do.
    """

    def __init__(self, judge: Judge, library: Library, limits: Limits, *, release: str | None = None) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self.gate = AdmissionControl(limits)
        self.identity = JudgeIdentity.of(judge, library, release)
        who = self.identity
        self.who: Json = {
            "release": who.release,
            "library_id": who.library_id,
            "judge": who.judge,
            "protocol": who.protocol,
        }
        self.judge = judge
        self._thread = asyncio.Lock()
        self._taken = 0
        """Bytes that were parsed in this turn of the event loop."""
        self.scorer = Scorer(judge, library, limits, self._made)
        self.readiness = Readiness(agent.find_out if (agent := model_judge(judge)) else None)
        self.log: RequestLog | None = None
        self.sample: RequestSample | None = None
        gauge = self.metrics.gauge
        labels = {"library": library.id, "judge": judge.name, "protocol": judge.protocol, "release": release or ""}
        gauge("rh_info", "Who judges; always 1.", lambda: 1.0, {**labels, "version": __version__})
        gauge("rh_requests_in_flight", "Requests that are being read or judged.", lambda: self.gate.requests)
        gauge("rh_judgments_pending", "Judgments under way or waiting.", lambda: self.gate.judgments)
        gauge("rh_judgments_under_way", "Judgments that the judge is making.", lambda: self.scorer.under_way)
        gauge("rh_bytes_held", "Bytes of requests that are being read or judged.", lambda: self.gate.bytes_held)

    def _made(self, outcome: JudgedEdit, seconds: float) -> None:
        """Record a judgment, including failures."""
        self.gate.took(seconds)
        self.readiness.saw(outcome)
        self.metrics.judge_seconds.observe(seconds)
        used, failure = outcome.judgment.usage, outcome.judgment.failure
        if used.calls:
            self.metrics.calls.inc(used.calls)
            self.metrics.tokens.labels("input").inc(used.input_tokens)
            self.metrics.tokens.labels("output").inc(used.output_tokens)
        if failure is not None:
            self.metrics.judge_failures.labels(failure.code).inc()

    async def _judge(self, request: RewardRequest, edits: tuple[Edit, ...], ends: float) -> RequestResult:
        """Make the judgments of a request until a deadline by the clock of the loop."""
        if isinstance(request, BatchRequest):
            result, groups = await self.scorer.batch(edits, ends), [edit.group for edit in edits]
        elif isinstance(request, RankRequest):
            result, groups = await self.scorer.rank(edits[0], ends, request.method), [None] * len(edits[0].candidates)
        else:
            return await self.scorer.score(edits[0], ends, both_orders=isinstance(request, CompareRequest))
        items, stats = normalised(result.results, groups, request.normalisation)
        return replace(result, results=items, groups=stats)

    def info(self) -> Json:
        """Describe the judge and the limits."""
        return {
            "name": "rewardharness",
            "api": 1,
            "identity": {"release": self.identity.release, **self.identity.to_json(), "version": __version__},
            "judge_revision": self.identity.judge_revision,
            "limits": self.limits,
        }

    async def answer(
        self,
        context: RequestContext,
        headers: dict[bytes, bytes],
        receive: Receive,
        model: type[RewardRequest],
        parse: Parse = parse_body,
    ) -> RewardReply:
        """Handle a request for rewards from its first byte to its reply.

        Args:
            context: The state of the request.
            headers: By lowercase name.
            receive: The ASGI channel.
            model: What is asked for.
            parse: Reads the body, also of another protocol.

        Raises:
            RefusedError: If it is not taken.
            ClientGoneError: If the caller went away.
        """
        began = asyncio.get_running_loop().time()
        self._check_head(headers)
        async with self.gate.room() as take:
            body = await read_body(receive, take, self.limits)
            request, context.edits = await self._read(headers.get(b"content-type", b""), body, model, parse)
            del body
            allowed = self.limits.deadline if request.deadline_s is None else request.deadline_s
            ends = began + min(self.limits.deadline, allowed)
            judgments = len(context.edits)
            if isinstance(request, RankRequest):
                judgments = cost(len(context.edits[0].candidates), request.method)
            with self.gate.admit(judgments):
                answer = await unless_gone(receive, self._judge(request, context.edits, ends))
        for item in answer.results:
            self.metrics.items.labels("ok" if item.error is None else item.error.code).inc()
            if item.cached:
                self.metrics.cached.inc()
            if item.reward is not None:
                self.metrics.rewards.observe(item.reward)
        n_ok = sum(item.ok for item in answer.results)
        context.reply = RewardReply(
            request_id=context.request_id,
            **self.who,
            n_ok=n_ok,
            n_error=len(answer.results) - n_ok,
            latency_ms=milliseconds(time.perf_counter() - context.began),
            usage=answer.usage,
            results=tuple(answer.results),
            comparison=answer.comparison,
            groups=answer.groups,
        )
        return context.reply

    def _check_head(self, headers: dict[bytes, bytes]) -> None:
        """Refuse requests that need not be read."""
        if not self.gate.open:
            raise RefusedError(503, SHUTTING_DOWN, retry_after=5)
        if self.gate.judgments >= self.limits.queue:
            raise self.gate.busy("The queue is full.")
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            fault = Fault("unsupported_media_type", "Compressed bodies are not taken.", "Send it as it is.")
            raise RefusedError(415, fault)
        announced = headers.get(b"content-length", b"0")
        if not announced.isdigit():
            raise invalid("The Content-Length is not a number.")
        if int(announced) > self.limits.body_bytes:
            raise body_too_large(self.limits.body_bytes)

    async def _read(
        self, content_type: bytes, body: bytes, model: type[RewardRequest], parse: Parse
    ) -> tuple[RewardRequest, tuple[Edit, ...]]:
        """Validate a body and plan its judgments."""

        def read() -> tuple[RewardRequest, tuple[Edit, ...]]:
            parsed = parse(content_type.decode("latin-1"), body, self.limits)
            request = read_request(model, parsed, self.limits)
            reader = EditReader(parsed, request, self.limits)
            if reader.critique and not self.judge.traits.writes_critiques:
                message = f"critique: {self.judge.name} writes no critiques."
                raise invalid(message, ("critique", "the judge writes none"))
            return request, reader.edits()

        if len(body) > _AT_ONCE:
            async with self._thread:
                return await asyncio.to_thread(read)
        while self._taken >= _PER_TURN:
            await asyncio.sleep(0)
        if not self._taken:
            asyncio.get_running_loop().call_soon(setattr, self, "_taken", 0)
        self._taken += max(_LEAST, len(body))
        return read()

    async def end(self) -> None:
        """Refuse new requests, wait for open ones within the limits, and cancel the rest."""
        self.gate.open = False
        self.readiness.ending = True
        ends = time.monotonic() + self.limits.drain_seconds
        while self.gate.requests and time.monotonic() < ends:
            await asyncio.sleep(0.02)
        await self.close()

    async def close(self) -> None:
        """Cancel open requests, and close the judge and the log."""
        await self.readiness.close()
        await self.scorer.close()

    def record(self, context: RequestContext, method: str, status: int) -> Json:
        """Return the log entry of a request."""
        line: Json = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "request_id": context.request_id,
            "route": context.route,
            "method": method,
            "status": status,
            "latency_ms": milliseconds(time.perf_counter() - context.began),
            **self.who,
            "error": context.fault,
        }
        if context.edits:
            line["inputs"] = [content_id(list(edit.key))[:16] for edit in context.edits]
        if context.reply is not None:
            used = context.reply.usage
            line["n_ok"], line["n_error"] = context.reply.n_ok, context.reply.n_error
            line["rewards"] = [item.reward for item in context.reply.results]
            line["errors"] = [None if item.error is None else item.error.code for item in context.reply.results]
            line["cached"] = sum(item.cached for item in context.reply.results)
            line["calls"], line["tokens"] = used.calls, used.input_tokens + used.output_tokens
        return line


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, RequestResult]) -> RequestResult:
    """Run a task for a client, and cancel it if the client disconnects.

    Raises:
        ClientGoneError: If the caller went away.
    """
    patience = asyncio.timeout(None)  # rescheduled when the client disconnects

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        patience.reschedule(asyncio.get_running_loop().time())

    watching: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    timer = loop.call_later(_WATCH_AFTER, lambda: watching.append(loop.create_task(watch())))
    try:
        async with patience:
            try:
                return await work
            finally:
                timer.cancel()
                for task in watching:
                    task.cancel()
    except TimeoutError:
        if patience.expired():
            raise ClientGoneError from None
        raise
