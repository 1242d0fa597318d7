"""The judge of a profile: a published reward model, asked and read as its authors do it; see `profile`.

It shares presentation orders, cache, retries and costs with the Sub-Agent. Libraries, Tools and measured evidence do
not apply: such a model was trained on one prompt.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from rewardharness.errors import InputError
from rewardharness.files import content_id
from rewardharness.judging.answers import ReplyProblem
from rewardharness.judging.chain import raw
from rewardharness.judging.interface import Traits, unjudged
from rewardharness.judging.media import ImageFiles, Media, content_ids
from rewardharness.judging.model_config import READING, ModelJudgeConfig
from rewardharness.judging.presentation import PresentationOrder, PresentationResult, no_answer, usage_of
from rewardharness.judging.profile import NOTE, Call, ImageForm, MessagePart, Node, Profile, Values
from rewardharness.judging.profile_replies import evaluate_score, read_tokens, read_values
from rewardharness.judging.protocols import read_shares
from rewardharness.judging.router import Route
from rewardharness.judging.subagent import SubAgent, _PreparedExample
from rewardharness.library.store import EMPTY, Library
from rewardharness.measure.encoded import encode_for_model
from rewardharness.models.base import ChatRequest, ImagePart, Message, ModelError, Reply, TextPart
from rewardharness.schema import (
    SCALE,
    ChainStep,
    EditRequest,
    Example,
    Failure,
    ImageInput,
    Judgment,
    Scores,
    Usage,
)
from rewardharness.task import IMAGE_EDIT
from rewardharness.views import DIMENSIONS

NO_NOTES: Mapping[str, str] = MappingProxyType({})
Images = Mapping[str, ImagePart]
"""Images of a request by their names in the profile."""
_NEXT = 1000
"""Added to the seed for another attempt."""


def settings_of(profile: Profile, model: ModelJudgeConfig) -> ModelJudgeConfig:
    """Return how the model of a profile judges: as many samples as the profile takes, and its temperature."""
    samples = profile.samples if model.samples == 1 else model.samples
    return replace(model, samples=samples, ties=True, temperature=float(profile.sampling.temperature))


@dataclass(frozen=True)
class _ProfileExample(_PreparedExample):
    notes: Mapping[str, str]
    category: str


@dataclass(repr=False)
class ProfileJudge(SubAgent):
    """A judge that a profile describes.

    Args:
        profile: The profile.
        texts: Its texts by name.
    """

    profile: Profile = field(kw_only=True)
    texts: Mapping[str, str] = field(kw_only=True)

    @property
    def protocol(self) -> str:
        """Name and version of the profile."""
        return self.protocol_for(2)

    def protocol_for(self, candidates: int) -> str:
        """Return the protocol in words for a number of candidates."""
        parts = [self.profile.protocol, *(["one order"] if not self.judges_alone and self.settings.one_order else [])]
        return ", ".join([*parts, *([f"{self.settings.samples} samples"] if self.settings.samples > 1 else [])])

    @property
    def judges_alone(self) -> bool:
        """Whether the profile shows one candidate at a time."""
        return self.profile.mode == "single"

    @property
    def revision(self) -> str:
        """Content id of the profile, the hashes of its texts, and the settings."""
        own = {name: self.settings.pinned[name] for name in ("both_orders", "samples", "first_sample", "max_pixels")}
        return content_id([READING, self.profile.id, own])

    @property
    def traits(self) -> Traits:  # type: ignore[override]  # read-only
        """It is for image edits, and reads no Library."""
        return Traits((IMAGE_EDIT,), concurrency=self.concurrency, uses_model=True, uses_library=False)

    def with_ties(self, ties: bool) -> "ProfileJudge":
        """Return the same judge: whether there are ties is up to the profile."""
        return self

    def with_samples(self, samples: int, first: int = 0) -> "ProfileJudge":
        """Return the same judge with so many samples of each request, at the temperature of the profile."""
        return replace(self, settings=replace(self.settings, samples=samples, first_sample=first))

    def with_critiques(self) -> "ProfileJudge":
        """Raise an error: such a model answers one question.

        Raises:
            InputError: Always.
        """
        step = "Leave the critiques out, or judge with --judge vllm:NAME@URL."
        raise InputError(f"{self.profile.name} writes no critiques.", next_step=step)

    async def judge(self, example: Example, library: Library) -> Judgment:
        """Judge one example; the Library is not read."""
        if not self.judges_alone and len(example.candidates) == 1:
            message = f"{self.profile.name} compares candidates; give two or more."
            return unjudged(example, self, library, Failure("input", message))
        return await super().judge(example, library)

    async def _prepare(self, example: Example, library: Library, files: ImageFiles) -> _PreparedExample:
        prepared = await super()._prepare(example, EMPTY, files)
        media, form = prepared.media, self.profile.images
        if form != ImageForm():
            media = await asyncio.to_thread(_converted, media, form)
        hidden = 0 if self._shows_reference else len(example.references)
        notes = [f"{hidden} reference images were not shown."] if hidden else []
        request = prepared.request
        if example.category in self._categories:  # what the data say precedes what the instruction seems to ask for
            request = replace(request, kinds=(example.category, *request.kinds))
        media = replace(media, notes=(*media.notes, *notes))
        return _ProfileExample(
            Route((), ()), request, media, prepared.model, prepared.evidence, self._notes_of(example), example.category
        )

    @property
    def _categories(self) -> frozenset[str]:
        """The categories of data that decide about texts and calls."""
        calls = self.profile.calls.values()
        named = (name for call in calls for part in (*call.system, *call.user) for name in part.categories)
        return frozenset((*named, *(name for call in calls for name in call.only)))

    @property
    def _shows_reference(self) -> bool:
        parts = [part for call in self.profile.calls.values() for part in call.user]
        return any(part.image == "reference" or "reference" in part.slots.values() for part in parts)

    def _notes_of(self, example: Example) -> dict[str, str]:
        """Return the notes of the data that calls show or depend on."""
        calls = self.profile.calls.values()
        slots = {slot.removeprefix(NOTE) for call in calls for part in call.user for slot in part.slots.values()}
        used = slots.union(*((*call.needs, *call.without) for call in calls))
        return {name: text for name, text in sorted(example.notes.items()) if name in used}

    def _key(self, unit: PresentationOrder, case: _PreparedExample) -> str:
        images = (case.media.sources[0], *(case.media.candidates[label] for label in unit.labels))
        parts = [self.revision, self.model.id, unit.sample, *map(content_ids, images), case.request.instruction]
        parts += [kind for kind in case.request.kinds[:1] if kind in self._categories]
        if isinstance(case, _ProfileExample):
            parts += [[name, text] for name, text in case.notes.items()]
            parts += [content_ids(reference) for reference in case.media.sources[1:2] if self._shows_reference]
        return content_id(["profile", *parts])

    async def _ask(self, unit: PresentationOrder, case: _PreparedExample) -> PresentationResult:
        """Send the calls of one presentation order at once, and compute the scores from what they say."""
        names = ("candidate",) if self.judges_alone else ("a", "b")
        assert isinstance(case, _ProfileExample)
        media = dict(zip(("source", "reference"), case.media.sources, strict=False))
        media |= {name: case.media.candidates[label] for name, label in zip(names, unit.labels, strict=True)}
        images = {name: part for name, (part, *_) in media.items() if isinstance(part, ImagePart)}
        there = {*case.notes, *(name for name in ("reference",) if name in images)}
        made = [name for name, call in self.profile.calls.items() if call.applies(case.category, there)]
        if not made:
            return PresentationResult(failure=Failure("input", self._not_made_for(case)))
        results = await asyncio.gather(*(self._call(call, case, images, unit) for call in made))
        usage = sum((outcome.usage for _, outcome in results), Usage())
        steps = tuple(step for _, outcome in results for step in outcome.steps)
        self._report(unit, steps)
        result = PresentationResult(steps=steps, usage=usage)
        failure = next((outcome.failure for _, outcome in results if outcome.failure), None)
        if failure is not None:
            return replace(result, failure=failure)
        values = dict.fromkeys(self.profile.values) | {
            name: value for readings, _ in results for name, value in readings.items()
        }
        try:
            return self._scored(result, values, unit)
        except (ValueError, ArithmeticError) as error:
            return replace(result, failure=Failure("no_answer", f"The reply gives no score: {error}."))

    def _not_made_for(self, case: "_ProfileExample") -> str:
        """Say which categories of the data the profile has questions for, or what it needs of them."""
        only = sorted({name for call in self.profile.calls.values() for name in call.only})
        if only and case.category not in only:
            said = f"the category {case.category!r}" if case.category else "no category"
            return f"{self.profile.name} judges the categories {', '.join(only)}; this example has {said}."
        needs = sorted({need for call in self.profile.calls.values() for need in call.needs})
        name = self.profile.name
        return f"{name} needs more of the data ({', '.join(needs)}); see rh judges show {name}."

    def _scored(self, result: PresentationResult, values: Values, unit: PresentationOrder) -> PresentationResult:
        score = self._share(self.profile.score, values)
        if score is None:
            return replace(result, failure=Failure("no_answer", "No value of the reply applies."))
        if not self.judges_alone:
            first, second = unit.labels
            return replace(result, margins={(first, second): 2 * score - 1})
        grades = [self._share(node, values) for node in attrgetter(*DIMENSIONS)(self.profile)]
        on_scale = [None if grade is None else SCALE[0] + grade * (SCALE[1] - SCALE[0]) for grade in grades]
        return replace(result, scores={unit.labels[0]: Scores(on_scale[0], on_scale[1], score, None, on_scale[2])})

    def _share(self, node: Node, values: Values) -> float | None:
        """Compute a score as a share of the range of the profile; None without a value that applies."""
        low, high = self.profile.range
        number = None if node is None else evaluate_score(node, values)
        return None if number is None else min(max((number - low) / (high - low), 0.0), 1.0)

    async def _call(
        self, name: str, case: "_ProfileExample", images: Images, unit: PresentationOrder
    ) -> tuple[dict[str, float | None], PresentationResult]:
        """Ask one question until its reply can be read, with another seed each time."""
        subject = unit.labels[0] if self.judges_alone else ""
        usage, steps, failure = Usage(), list[ChainStep](), Failure("no_answer", "")
        for attempt in range(self.profile.attempts):
            request = self.request(name, case.request, images, unit.sample + _NEXT * attempt, case.notes)
            try:
                reply = await case.model.ask(request)
            except ModelError as error:
                failure = Failure(error.code, error.message)
                return {}, PresentationResult(steps=tuple(steps), usage=usage, failure=failure)
            usage += usage_of(reply)
            steps.append(replace(raw(reply.text, subject), kind="answer"))
            values = self._read(name, reply)
            if isinstance(values, dict):
                return values, PresentationResult(steps=tuple(steps), usage=usage)
            steps[-1] = raw(reply.text, subject)
            failure = values if isinstance(values, Failure) else no_answer(reply, f"{name}: {values.message}")
        return {}, PresentationResult(steps=tuple(steps), usage=usage, failure=failure)

    def _read(self, name: str, reply: Reply) -> dict[str, float | None] | ReplyProblem | Failure:
        tokens = self.profile.calls[name].reply.tokens
        if tokens is None:
            return read_values(self.profile, name, reply)
        shares = read_shares(reply)
        values = shares if isinstance(shares, Failure) else read_tokens(tokens, shares)
        # one token is all that is asked for, so a reply that ends at the limit is not truncated
        return Failure("no_answer", f"{name}: {values.message}") if isinstance(values, ReplyProblem) else values

    def request(
        self, name: str, asked: EditRequest, images: Images, sample: int = 0, notes: Mapping[str, str] = NO_NOTES
    ) -> ChatRequest:
        """Write the request of a call.

        Args:
            name: Name of the call.
            asked: The instruction, and the kinds of edit that it names.
            images: Images by their names: `source`, and `candidate` or `a` and `b`.
            sample: Added to the seed.
            notes: Notes of the data, for slots.
        """
        call, sampling = self.profile.calls[name], self.profile.sampling
        more = {
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "chat_template_kwargs": dict(sampling.chat_template_kwargs) or None,
        }
        return ChatRequest(
            self._messages(call, asked, images, notes),
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            seed=None if sampling.seed is None else sampling.seed + sample,
            top_logprobs=20 if call.reply.tokens else 0,
            more={key: value for key, value in more.items() if value is not None},
        )

    def _messages(
        self, call: Call, asked: EditRequest, images: Images, notes: Mapping[str, str]
    ) -> tuple[Message, ...]:
        written = {"system": call.system, "user": call.user}
        return tuple(
            Message(role, tuple(piece for part in parts for piece in self._write(part, asked, images, notes)))  # type: ignore[arg-type]
            for role, parts in written.items()
            if parts
        )

    def _write(
        self, part: MessagePart, asked: EditRequest, images: Images, notes: Mapping[str, str]
    ) -> Sequence[TextPart | ImagePart]:
        """Write a part of a message. Slots are filled once: an instruction is never searched for slots."""
        if part.image:
            return [images[part.image]]
        use = part.text_for(asked.kinds) if part.use else ""
        text, braces = (self.texts[use], self.profile.texts[use].braces) if use else (part.text, False)
        slots, places = {slot: name.split() for slot, name in part.slots.items()}, "|".join(map(re.escape, part.slots))
        parts: list[TextPart | ImagePart] = []
        said = ""
        for number, piece in enumerate(re.split(f"({places})", text) if places else [text]):
            if number % 2 == 0:
                said += piece.replace("{{", "{").replace("}}", "}") if braces else piece
            elif not slots[piece] or slots[piece] == ["instruction"]:
                said += asked.instruction if slots[piece] else ""
            elif slots[piece][0].startswith(NOTE):
                said += notes.get(slots[piece][0].removeprefix(NOTE), "")
            else:
                name = slots[piece].pop(0) if len(slots[piece]) > 1 else slots[piece][0]
                parts += [*([TextPart(said)] if said else []), images[name]]
                said = ""
        return [*parts, *([TextPart(said)] if said else [])]


def _converted(media: Media, form: ImageForm) -> Media:
    """Return images as a profile sends them."""

    def convert(part: Any) -> Any:
        if not isinstance(part, ImagePart):
            return part
        encoded = encode_for_model(
            ImageInput("image", data=part.data), form.max_pixels, form=form.format, quality=form.quality
        )
        return ImagePart(encoded.data, encoded.mime)

    sources = tuple(tuple(map(convert, parts)) for parts in media.sources)
    candidates = {label: tuple(map(convert, parts)) for label, parts in media.candidates.items()}
    return replace(media, sources=sources, candidates=candidates)
