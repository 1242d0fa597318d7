"""The Sub-Agent: a frozen vision-language model that judges with the routed entries of a Library.

A judgment takes several requests: every pair of candidates, in both presentation orders, for each sample. They run
concurrently, and each is looked up in the cache first. If one of them fails, the judgment fails with its reason,
because a part of the requests would have a position bias.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import combinations
from typing import Any

from rewardharness.errors import HarnessError
from rewardharness.files import content_id
from rewardharness.judging.cache import JudgmentCache, MemoryCache, remembered
from rewardharness.judging.calibration import ConfidenceCalibration
from rewardharness.judging.chain import think
from rewardharness.judging.checklist import Principles, listed, read_principles, write_checklist
from rewardharness.judging.context import Asking, Presented
from rewardharness.judging.conversation import Conversation
from rewardharness.judging.critique import add_critiques
from rewardharness.judging.evidence import EvidenceTaker
from rewardharness.judging.groups import margin_between, rank
from rewardharness.judging.instruction import request_of
from rewardharness.judging.interface import JudgeProtocol, Traits, failure_of, refuse, unjudged
from rewardharness.judging.judge import Judge
from rewardharness.judging.llm_router import LLMRouter, RoutingError
from rewardharness.judging.media import ImageFiles, Media, Preparation, content_ids, key_of
from rewardharness.judging.model_config import ALONE, READING, ModelJudgeConfig
from rewardharness.judging.model_wrappers import ReportingModel, ServerProbes, WarmUpModel
from rewardharness.judging.presentation import PresentationOrder, PresentationResult, aggregate_margins, mean_scores
from rewardharness.judging.protocols import ask_digits, ask_direct, ask_letter, ask_rubric, ask_scores
from rewardharness.judging.revision import measures_revision
from rewardharness.judging.router import Route, unconsulted
from rewardharness.judging.tools import Observation, observe
from rewardharness.library.entry import Entry
from rewardharness.library.store import Library
from rewardharness.measure.changes import MAX_CROPS
from rewardharness.models.base import ChatRequest, Message, Model, Reply
from rewardharness.models.limits import ByteBudget
from rewardharness.models.openai_compatible import OpenAICompatibleModel
from rewardharness.models.probe import Probe
from rewardharness.prompts import in_language, version
from rewardharness.schema import TIE, ChainStep, EditRequest, Example, Failure, Judgment
from rewardharness.task import TASKS
from rewardharness.views import DIMENSIONS


@dataclass(frozen=True)
class _PreparedExample:
    route: Route
    request: EditRequest
    media: Media
    model: Model
    evidence: EvidenceTaker | None


@dataclass(repr=False)
class SubAgent(Judge):
    """A judge that queries a model.

    Args:
        model: The frozen model.
        settings: Protocol and sampling.
        cache: Cache of answers; None to cache nothing.
        router: Selects entries without triggers; None to ask `model` about them.
        on_step: Called with each step of a chain and its presentation order, from the judging loop. Requests run
            concurrently, so steps of several orders are interleaved.
        pictures: Whether observations carry overlay images.
        find_out: Probes the endpoints of the model once, before the first request. Servers ignore unknown fields
            silently, so a constraint is used only if probing confirmed it.
        critiques: Whether judgments have a critique of each candidate, with a request for each.
        calibration: Turns the confidence of preferences into a probability; None: not calibrated.
        room: Limit of the bytes of images in memory; further judgments wait.
    """

    model: Model
    settings: ModelJudgeConfig = ModelJudgeConfig()
    cache: JudgmentCache | None = None
    router: LLMRouter | None = None
    on_step: Callable[[PresentationOrder, ChainStep], None] | None = None
    pictures: bool = False
    find_out: Callable[[], Awaitable[Sequence[Probe]]] | None = None
    critiques: bool = False
    calibration: ConfidenceCalibration | None = None
    concurrency: int = 32
    _servers: ServerProbes = field(default_factory=ServerProbes, repr=False, compare=False)
    _routes: JudgmentCache = field(default_factory=MemoryCache, repr=False, compare=False)
    _preparation: Preparation = field(default_factory=Preparation, repr=False, compare=False)
    room: ByteBudget = field(default_factory=lambda: ByteBudget(_room()), repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process it reports no steps, and probes its servers itself."""
        names = {attribute.name for attribute in fields(self) if attribute.name[0] != "_"} - {"on_step", "room"}
        return partial(type(self), **{name: getattr(self, name) for name in names}), ()

    @property
    def name(self) -> str:
        """The model's own id."""
        return self.model.id

    @property
    def protocol(self) -> str:
        """The protocol in words."""
        return self.settings.name

    @property
    def judges_alone(self) -> bool:
        """Whether each candidate is judged alone, without a presentation order."""
        return self.settings.protocol in ALONE

    def protocol_for(self, candidates: int) -> str:
        """Return the protocol in words for a number of candidates."""
        return self.settings.name_for(candidates)

    @property
    def revision(self) -> str:
        """Content id of the prompts, the reading of replies and the settings."""
        with in_language(self.settings.prompt_language):
            parts: list[object] = [READING, version(*self.settings.prompts), {**self.settings.pinned, "deadline": None}]
        return content_id([*parts, measures_revision()] if self.settings.evidence else parts)

    def with_ties(self, ties: bool) -> "SubAgent":
        """Return the same judge with `tie` among its answers, or without. The protocol `logprob` has no ties."""
        return replace(self, settings=replace(self.settings, ties=ties and self.settings.protocol != "logprob"))

    def with_samples(self, samples: int, first: int = 0) -> "SubAgent":
        """Return the same judge with so many samples of each request, at the sampling temperature.

        Args:
            samples: Number of samples, from 1.
            first: Number of the first sample. Other numbers give other samples.
        """
        settings = replace(self.settings, temperature=self.settings.sample_temperature)
        return replace(self, settings=replace(settings, samples=samples, first_sample=first))

    @property
    def traits(self) -> Traits:  # type: ignore[override]  # read-only
        """It is for all tasks, and calls the Tools of the Library in a conversation."""
        return Traits(
            tuple(TASKS.values()),
            concurrency=self.concurrency,
            uses_model=True,
            needs_pixels=self.settings.evidence,
            writes_critiques=True,
            calls_tools=self.settings.protocol == "chain" and self.settings.tool_calls > 0,
            router_id=(self.model if self.router is None else self.router.model).id,
        )

    def watched(
        self, on_step: Callable[[PresentationOrder, ChainStep], None], on_reply: Callable[[Reply], None]
    ) -> "SubAgent":
        """Return the same judge, reporting each step of the chain and each reply, also of an abandoned judgment."""
        return replace(self, model=ReportingModel(self.model, on_reply), on_step=on_step)

    def reusing(self, earlier: Judge) -> "SubAgent":
        """Return the same judge with the model of an earlier one; endpoints out of rotation are asked again at once."""
        if self.find_out is None or not isinstance(earlier, SubAgent):
            return self
        if isinstance(earlier.model, OpenAICompatibleModel):
            earlier.model.readmit()
        own = {name: getattr(self, name) for name in ("settings", "cache", "router", "critiques", "calibration")}
        return replace(earlier, **own)

    async def check(self) -> Sequence[Probe] | Reply:
        """Probe the endpoints of the model, or ask it a small question if it has none.

        Raises:
            ModelError: If the question is not answered.
        """
        try:
            if self.find_out is not None:
                return await self.find_out()
            return await self.model.ask(ChatRequest((Message.of("user", "Say yes."),), max_tokens=256, timeout=120.0))
        finally:
            await self.model.close()

    async def try_tool(self, tool: Entry, examples: Sequence[Example]) -> list[Observation]:
        """Call a prompted Tool on examples as in a judgment."""
        if not self.traits.calls_tools:
            return []
        try:
            with in_language(self.settings.prompt_language):
                return await observe(self.model, self.cache, self.settings.max_pixels, tool, examples)
        finally:
            await self.close()

    async def judge(self, example: Example, library: Library) -> Judgment:
        """Judge one example.

        Returns:
            A Judgment; with a failure where the example, the model or the time allowed give no answer.
        """
        failure = refuse(example, self, library)
        compared = len(example.candidates) > 1
        if failure is None and compared and self.settings.protocol == "logprob" and self.settings.ties:
            failure = Failure("input", "The logprob protocol has no ties; use another protocol or no ties.")
        if failure is not None:
            return unjudged(example, self, library, failure)
        files = ImageFiles.of(example)
        size = files.size
        await self.room.acquire(size)
        try:
            with in_language(self.settings.prompt_language):
                return await self._judge(example, library, files)
        finally:
            self.room.release(size)

    async def _judge(self, example: Example, library: Library, files: ImageFiles) -> Judgment:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self.settings.deadline):
                case = await self._prepare(example, library, files)
                results = await self._judge_orders(self.presentations(example.labels), case)
            judgment = self._conclude(example, library, case, results)
            if self.critiques and judgment.failure is None:
                judgment = await self._add_critiques(judgment, case)
        except RoutingError as error:
            judgment = unjudged(example, self, library, error.failure, error.result.usage)
            judgment = replace(judgment, steps=error.result.steps)
        except HarnessError as error:
            judgment = unjudged(example, self, library, failure_of(error))
        except ExceptionGroup as errors:  # errors in conversations
            expected = [error for error in errors.exceptions if isinstance(error, HarnessError)]
            if len(expected) < len(errors.exceptions):
                raise
            judgment = unjudged(example, self, library, failure_of(expected[0]))
        except TimeoutError:
            message = f"No answer within {self.settings.deadline:g} seconds, the timeout of a judgment."
            judgment = unjudged(example, self, library, Failure("timeout", message))
        return replace(judgment, usage=replace(judgment.usage, seconds=time.perf_counter() - started))

    async def close(self) -> None:
        """Close the model's connections."""
        await self.model.close()
        if self.router is not None:
            await self.router.model.close()

    async def _prepare(self, example: Example, library: Library, files: ImageFiles) -> _PreparedExample:
        media = await self._preparation.prepare(example, self.settings.max_pixels, files)
        model = WarmUpModel(self.model, partial(self._servers.remember, self.find_out))
        router = self.router or LLMRouter(model, self.cache or self._routes)
        chosen = await router.route(library, example.instruction)
        evidence = EvidenceTaker(example, self.cache, self.settings.max_pixels) if self.settings.evidence else None
        return _PreparedExample(chosen, request_of(example), media, model, evidence)

    def presentations(self, labels: Sequence[str]) -> list[PresentationOrder]:
        """List the presentation orders, per sample, of a judgment of these candidates."""
        orders: list[tuple[str, ...]] = [(label,) for label in labels]
        alone = self.judges_alone or len(labels) == 1
        if not alone:
            all_at_once = self.settings.groups == "all" and self.settings.protocol != "logprob"
            orders = [tuple(labels)] if all_at_once else [*combinations(labels, 2)]
        if not self.settings.one_order and not alone:
            orders = [presented for order in orders for presented in (order, order[::-1])]
        samples = range(self.settings.first_sample, self.settings.first_sample + self.settings.samples)
        return [PresentationOrder(order, sample) for order in orders for sample in samples]

    def with_critiques(self) -> "SubAgent":
        """Return the same judge, adding a critique of each candidate to its judgments; their scores are the same."""
        return replace(self, critiques=True)

    async def _add_critiques(self, judgment: Judgment, case: _PreparedExample) -> Judgment:
        requests: dict[str, Asking] = {}
        greedy = replace(self.settings, samples=1, temperature=0.0)
        for label in case.media.candidates:
            presented = case.media.present((label,))
            if case.evidence is not None:
                presented, _ = await case.evidence.add(presented)
            requests[label] = Asking(case.model, case.route, case.request, presented, greedy)
        return await add_critiques(judgment, requests, self.cache, self.settings.deadline)

    def estimate_cost(self, example: Example) -> int:
        """Return the number of requests for an example, at least: without cached answers, Tools and retries."""
        return len(self.presentations(example.labels)) + (len(example.labels) if self.critiques else 0)

    def estimate_crops(self, example: Example) -> int:
        """Return the number of crops that measured evidence adds to the requests for an example, at most."""
        candidate_count = sum(len(unit.labels) for unit in self.presentations(example.labels))
        candidate_count += len(example.labels) if self.critiques else 0
        return 2 * MAX_CROPS * candidate_count if self.settings.evidence else 0

    async def _judge_orders(
        self, units: Sequence[PresentationOrder], case: _PreparedExample
    ) -> list[PresentationResult]:
        """Judge all presentation orders concurrently; a single one without a task of its own."""
        if len(units) == 1:
            return [await self._judge_order(units[0], case)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._judge_order(unit, case)) for unit in units]
        return [task.result() for task in tasks]

    async def _judge_order(self, unit: PresentationOrder, case: _PreparedExample) -> PresentationResult:
        key, ask = partial(self._key, unit, case), partial(self._ask, unit, case)
        result, cached = await remembered(
            self.cache, key, self.model.id, ask, PresentationResult.to_json, PresentationResult.from_json
        )
        self._report(unit, result.steps if cached else ())
        return result

    async def _ask(self, unit: PresentationOrder, case: _PreparedExample) -> PresentationResult:
        presented = case.media.present(unit.labels, DIMENSIONS[: 2 + (self.settings.consistency is not None)])
        asking = Asking(case.model, case.route, case.request, presented, self.settings, unit.sample)
        measured: tuple[ChainStep, ...] = ()
        if case.evidence is not None:
            presented, step = await case.evidence.add(asking.presented)
            asking, measured = replace(asking, presented=presented), (step,)
        self._report(unit, measured)
        if self.settings.protocol == "chain":
            on_step = partial(self.on_step, unit) if self.on_step else None
            result = await Conversation(asking, self.pictures, on_step).hold()
        elif self.settings.protocol == "checklist":
            result = await self._ask_checklist(asking)
            self._report(unit, result.steps)
        else:
            odds = ask_letter if len(unit.labels) > 1 else ask_digits
            ask = {"direct": ask_direct, "logprob": odds, "pointwise": ask_scores, "rubric": ask_rubric}
            result = await ask[self.settings.protocol](asking)
            self._report(unit, result.steps)
        return replace(result, steps=(*measured, *result.steps)) if measured else result

    async def _ask_checklist(self, asking: Asking) -> PresentationResult:
        """Grade a candidate on the principles of its instruction; whoever asks first pays for writing them."""
        if self.settings.principles:
            return await self._grade(asking, read_principles(self.settings.principles), PresentationResult())
        sources = Presented(asking.presented.sources, (), (), asking.presented.task)
        greedy = replace(asking.config, temperature=0.0, samples=1)
        writing = replace(asking, presented=sources, config=greedy, seed=None)
        principles, written = await write_checklist(writing, self.cache or self._routes)
        return written if written.failure is not None else await self._grade(asking, principles, written)

    async def _grade(self, asking: Asking, principles: Principles, written: PresentationResult) -> PresentationResult:
        result = await ask_rubric(asking, principles)
        steps = (*written.steps, think(listed(principles)), *result.steps)
        return replace(result, steps=steps, usage=written.usage + result.usage)

    def _report(self, unit: PresentationOrder, steps: Sequence[ChainStep]) -> None:
        for step in steps if self.on_step else ():
            self.on_step(unit, step)  # type: ignore[misc]  # there is one

    def _key(self, unit: PresentationOrder, case: _PreparedExample) -> str:
        """Return the cache key of a request: a hash of everything that can change its answer."""
        settings, media = self.settings, case.media
        measures = [tool.measure for tool in case.route.tools if tool.measure]
        contents = (*media.sources, *(media.candidates[label] for label in unit.labels))
        return content_id(
            {
                "reading": READING,
                "model": self.model.id,
                "protocol": settings.protocol,
                "ties": settings.ties,
                "tool_limit": settings.tool_calls,
                "max_tokens": settings.max_tokens,
                "temperature": settings.request_temperature,
                "sample": unit.sample,
                "prompts": version(*settings.prompts),
                "images": [*map(content_ids, contents)],
                "sources": [len(media.sources), *key_of(media.task)],
                "letters": list(unit.labels),
                "instruction": case.request.instruction,
                "context": case.route.context_id,
                "measures": measures_revision(measures) if measures else "",
                **({"evidence": [measures_revision(), settings.max_pixels]} if settings.evidence else {}),
                **({"principles": list(settings.principles)} if settings.principles else {}),
            }
        )

    def _conclude(
        self, example: Example, library: Library, case: _PreparedExample, results: Sequence[PresentationResult]
    ) -> Judgment:
        usage = sum((result.usage for result in results), case.route.usage)
        units = self.presentations(example.labels)
        steps = tuple(
            replace(step, order=unit.labels, sample=unit.sample)
            for unit, result in zip(units, results, strict=True)
            for step in result.steps
        )
        notes = (
            *unconsulted(case.route, library),
            *case.media.notes,
            *dict.fromkeys(note for result in results for note in result.notes),
        )
        failed = next((result.failure for result in results if result.failure), None)
        judgment_with = partial(
            Judgment,
            example.id,
            self.name,
            self.protocol_for(len(example.candidates)),
            library.id,
            ties_offered=self.settings.ties,
            entries=case.route.reasons,
            consulted=(len(case.route.entries), len(library)),
            steps=steps,
            notes=notes,
            usage=usage,
            failure=failed,
        )
        if failed is not None:
            return judgment_with()
        scores = mean_scores(results, repeated=self.settings.samples > 1)
        if len(example.candidates) == 1:
            return judgment_with(ranking=(example.labels,), scores=scores)
        margins, consistent = aggregate_margins(example.labels, results, scores)
        ranking = rank(example.labels, margins)
        level = len(ranking[0]) > 1
        margin = 0.0 if level else margin_between(margins, ranking[0][0], ranking[1][0]) or 0.0
        return judgment_with(
            preference=TIE if level else ranking[0][0],
            ranking=ranking,
            margin=abs(margin),
            confidence=abs(margin),
            scores=scores,
            position_consistent=consistent if not self.settings.one_order else None,
        )


def model_judge(judge: JudgeProtocol) -> SubAgent | None:
    """Return the judge as a model judge; None for a judge without a model."""
    return judge if isinstance(judge, SubAgent) else None


def count_requests(judge: JudgeProtocol, example: Example) -> int:
    """Return the number of requests for an example, at least; 0 for a judge without a model."""
    return judge.estimate_cost(example) if isinstance(judge, SubAgent) else 0


def count_crops(judge: Judge, example: Example) -> int:
    """Return the number of crops that measured evidence adds to these requests, at most."""
    return judge.estimate_crops(example) if isinstance(judge, SubAgent) else 0


def reuse(judge: Judge, earlier: Judge) -> Judge:
    """Return a model judge with the model of an earlier one, whose endpoints were already probed."""
    return judge.reusing(earlier) if isinstance(judge, SubAgent) else judge


def with_samples(judge: Judge, samples: int, first: int = 0) -> Judge:
    """Return the same judge with a number of samples per request; itself if it always gives the same answer."""
    return judge.with_samples(samples, first) if isinstance(judge, SubAgent) else judge


def _room() -> int:
    """Return the limit of image bytes: a small share of the memory of this machine."""
    return max(512 << 20, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 48)
