"""One server's parts put together, and the way of a request through them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rewardharness import __version__
from rewardharness.files import content_id
from rewardharness.judging.best_of import cost
from rewardharness.judging.judge import Judge
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.store import Library
from rewardharness.schema import Json
from rewardharness.serving.body import ClientGoneError, Parse, Receive, body_too_large, parse_body, read_body
from rewardharness.serving.faults import SHUTTING_DOWN, Fault, RefusedError, invalid
from rewardharness.serving.limits import Gate, Limits
from rewardharness.serving.normalise import Normalisation, normalise_groups
from rewardharness.serving.prometheus import Metrics
from rewardharness.serving.ranking import add_up, rank_by_score, rank_by_win_rate
from rewardharness.serving.readiness import Readiness
from rewardharness.serving.request_log import RequestLog
from rewardharness.serving.results import Answer, GroupStats, Identity, ItemResult, Outcome, Reply, milliseconds
from rewardharness.serving.scoring import Edit, Scorer
from rewardharness.serving.wire import (
    BatchRequest,
    CompareRequest,
    ImageReader,
    Model,
    RankRequest,
    ScoreRequest,
    read_request,
)

_SMALL = 32 << 10
"""Bytes of a body that is taken apart as soon as it is there; larger ones take turns."""
_FEW = 8
"""Requests under way beyond which small bodies take turns as well."""
_AT_ONCE = 128 << 10
"""Bytes of a body that is taken apart on the loop; larger ones are parsed, checked and decoded in a thread."""


@dataclass(frozen=True)
class Plan:
    """What a request asks for."""

    edits: tuple[Edit, ...]
    judgments: int
    """How many judgments it takes at most."""
    run: Callable[[float], Coroutine[Any, Any, Answer]]
    """Makes them, until a time by the loop's clock."""


@dataclass
class Visit:
    """One request, for its log line."""

    request_id: str
    route: str = "other"
    plan: Plan | None = None
    reply: Reply | None = None
    fault: str | None = None
    """Code of why there were no results."""
    began: float = field(default_factory=time.perf_counter)


class Service:
    """Judges what comes over HTTP, with one judge and one Library.

    Args:
        judge: Who judges.
        library: What it knows.
        limits: How much at once.
        release: Hash of the release that both come from, if they do.
    """

    def __init__(self, judge: Judge, library: Library, limits: Limits, *, release: str | None = None) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self.gate = Gate(limits)
        self.identity = Identity(release, library.id, judge.name, judge.protocol, __version__)
        self.judge = judge
        self._desk = asyncio.Lock()
        self.scorer = Scorer(judge, library, limits, self._made)
        self.readiness = Readiness(judge.find_out if isinstance(judge, SubAgent) else None)
        self.log: RequestLog | None = None
        gauge = self.metrics.gauge
        labels = {"library": library.id, "judge": judge.name, "protocol": judge.protocol, "release": release or ""}
        gauge("rh_info", "Who judges; always 1.", lambda: 1.0, {**labels, "version": __version__})
        gauge("rh_requests_in_flight", "Requests that are being read or judged.", lambda: self.gate.requests)
        gauge("rh_judgments_pending", "Judgments under way or waiting.", lambda: self.gate.judgments)
        gauge("rh_judgments_under_way", "Judgments that the judge is making.", lambda: self.scorer.under_way)
        gauge("rh_bytes_held", "Bytes of requests that are being read or judged.", lambda: self.gate.bytes_held)

    def _made(self, outcome: Outcome, seconds: float) -> None:
        """Take note of a judgment that the judge made, or failed to make."""
        self.gate.took(seconds)
        self.readiness.saw(outcome)
        self.metrics.judge_seconds.observe(seconds)
        used, failure = outcome.judgment.usage, outcome.judgment.failure
        self.metrics.calls.add(used.calls)
        self.metrics.tokens.add(used.input_tokens, kind="input")
        self.metrics.tokens.add(used.output_tokens, kind="output")
        if failure is not None:
            self.metrics.judge_failures.add(code=failure.code)

    async def score(self, visit: Visit, headers: dict[bytes, bytes], receive: Receive) -> Reply:
        """Answer `/score`."""

        def plan(wish: ScoreRequest, reader: ImageReader) -> Plan:
            edit = wish.edit(reader)

            async def run(ends: float) -> Answer:
                items, comparison = await self.scorer.score(edit, ends)
                return Answer(items, items[0].usage, comparison)

            return Plan((edit,), 1, run)

        return await self._answer(visit, headers, receive, ScoreRequest, plan)

    async def batch_score(
        self, visit: Visit, headers: dict[bytes, bytes], receive: Receive, parse: Parse = parse_body
    ) -> Reply:
        """Answer `/batch_score`, or the same in a dialect that `parse` understands."""

        def plan(wish: BatchRequest, reader: ImageReader) -> Plan:
            edits = wish.edits(reader)

            async def run(ends: float) -> Answer:
                items = await self.scorer.batch(edits, ends)
                items, groups = _relative(items, [edit.group for edit in edits], wish.how)
                return Answer(items, add_up(item.usage for item in items), groups=groups)

            return Plan(tuple(edits), len(edits), run)

        return await self._answer(visit, headers, receive, BatchRequest, plan, parse)

    async def compare(self, visit: Visit, headers: dict[bytes, bytes], receive: Receive) -> Reply:
        """Answer `/compare`."""

        def plan(wish: CompareRequest, reader: ImageReader) -> Plan:
            edit = wish.edit(reader)

            async def run(ends: float) -> Answer:
                items, comparison = await self.scorer.compare(edit, ends)
                return Answer(items, items[0].usage, comparison)

            return Plan((edit,), 1, run)

        return await self._answer(visit, headers, receive, CompareRequest, plan)

    async def rank(self, visit: Visit, headers: dict[bytes, bytes], receive: Receive) -> Reply:
        """Answer `/rank`."""

        def plan(wish: RankRequest, reader: ImageReader) -> Plan:
            edit = wish.edit(reader)

            async def run(ends: float) -> Answer:
                if wish.method == "score":
                    items = await rank_by_score(self.scorer, edit, ends)
                    used = add_up(item.usage for item in items)
                else:
                    items, used = await rank_by_win_rate(self.scorer, edit, ends)
                items, groups = _relative(items, [None] * len(items), wish.how)
                return Answer(items, used, groups=groups)

            return Plan((edit,), cost(len(edit.candidates), wish.method), run)

        return await self._answer(visit, headers, receive, RankRequest, plan)

    def info(self) -> Json:
        """Say who judges, and within which limits."""
        return {
            "name": "rewardharness",
            "api": 1,
            "identity": self.identity,
            "judge_revision": self.judge.revision,
            "limits": self.limits,
        }

    async def _answer(
        self,
        visit: Visit,
        headers: dict[bytes, bytes],
        receive: Receive,
        model: type[Model],
        make_plan: Callable[[Model, ImageReader], Plan],
        parse: Parse = parse_body,
    ) -> Reply:
        """Take a request from its first byte to its reply.

        Raises:
            RefusedError: If it is not taken.
            ClientGoneError: If the caller went away.
        """
        began = asyncio.get_running_loop().time()
        self._check_head(headers)
        async with self.gate.room() as take:
            body = await read_body(receive, take, self.limits)
            wish, visit.plan = await self._read(headers, body, model, make_plan, parse)
            del body
            allowed = self.limits.deadline if wish.deadline_s is None else wish.deadline_s
            ends = began + min(self.limits.deadline, allowed)
            with self.gate.admit(visit.plan.judgments):
                answer = await unless_gone(receive, visit.plan.run(ends))
        for item in answer.results:
            self.metrics.items.add(outcome="ok" if item.error is None else item.error.code)
            self.metrics.cached.add(float(item.cached))
            if item.reward is not None:
                self.metrics.rewards.observe(item.reward)
        who = self.identity
        visit.reply = Reply(
            request_id=visit.request_id,
            release=who.release,
            library_id=who.library_id,
            judge=who.judge,
            protocol=who.protocol,
            n_ok=sum(item.ok for item in answer.results),
            n_error=sum(not item.ok for item in answer.results),
            latency_ms=milliseconds(time.perf_counter() - visit.began),
            usage=answer.usage,
            results=tuple(answer.results),
            comparison=answer.comparison,
            groups=answer.groups,
        )
        return visit.reply

    def _check_head(self, headers: dict[bytes, bytes]) -> None:
        """Refuse what need not even be read."""
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
        self,
        headers: dict[bytes, bytes],
        body: bytes,
        model: type[Model],
        make_plan: Callable[[Model, ImageReader], Plan],
        parse: Parse,
    ) -> tuple[Model, Plan]:
        """Check a body and make a plan of it. The body itself is not kept."""

        def read() -> tuple[Model, Plan]:
            parsed = parse(headers.get(b"content-type", b"").decode("latin-1"), body, self.limits)
            wish = read_request(model, parsed, self.limits)
            strict = not isinstance(wish, BatchRequest)
            return wish, make_plan(wish, ImageReader(parsed, wish.images, self.limits, strict=strict))

        if len(body) > _SMALL or self.gate.requests > _FEW:
            # One after the other, with everything else in between: many at once must not stop the loop.
            async with self._desk:
                if len(body) > _AT_ONCE:
                    return await asyncio.to_thread(read)
                await asyncio.sleep(0)
                return read()
        return read()

    async def end(self) -> None:
        """Take nothing new, and wait for what is under way as long as the limits allow; then give it up."""
        self.gate.open = False
        self.readiness.ending = True
        ends = time.monotonic() + self.limits.drain_seconds
        while self.gate.requests and time.monotonic() < ends:
            await asyncio.sleep(0.02)
        await self.close()

    async def close(self) -> None:
        """Give up what is under way, and close the judge and the log."""
        await self.readiness.close()
        await self.scorer.close()

    def record(self, visit: Visit, method: str, status: int) -> Json:
        """Make the log line of a request."""
        line: Json = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "request_id": visit.request_id,
            "route": visit.route,
            "method": method,
            "status": status,
            "latency_ms": milliseconds(time.perf_counter() - visit.began),
            "release": self.identity.release,
            "library_id": self.identity.library_id,
            "judge": self.identity.judge,
            "protocol": self.identity.protocol,
            "error": visit.fault,
        }
        if visit.plan is not None:
            line["inputs"] = [content_id(list(edit.key))[:16] for edit in visit.plan.edits]
        if visit.reply is not None:
            used = visit.reply.usage
            line["n_ok"], line["n_error"] = visit.reply.n_ok, visit.reply.n_error
            line["rewards"] = [item.reward for item in visit.reply.results]
            line["errors"] = [None if item.error is None else item.error.code for item in visit.reply.results]
            line["cached"] = sum(item.cached for item in visit.reply.results)
            line["calls"], line["tokens"] = used.calls, used.input_tokens + used.output_tokens
        return line


def _relative(
    items: Sequence[ItemResult], groups: Sequence[str | None], how: Normalisation
) -> tuple[list[ItemResult], tuple[GroupStats, ...]]:
    """Make the rewards of items relative, each within its group."""
    found, stats = normalise_groups([item.reward for item in items], groups, how)
    return [replace(item, normalised=value) for item, value in zip(items, found, strict=True)], stats


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Do some work for a caller; when the caller goes away, give it up.

    Raises:
        ClientGoneError: If the caller went away.
    """
    patience = asyncio.timeout(None)  # it ends when the caller goes away, however long that takes

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        patience.reschedule(asyncio.get_running_loop().time())

    try:
        async with patience:
            watching = asyncio.create_task(watch())
            try:
                return await work
            finally:
                watching.cancel()
    except TimeoutError:
        if patience.expired():
            raise ClientGoneError from None
        raise


Handler = Callable[[Visit, dict[bytes, bytes], Receive], Awaitable[Reply]]
