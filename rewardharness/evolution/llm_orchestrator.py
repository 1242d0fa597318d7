"""An Orchestrator with a language model: it asks what goes wrong, then for one typed edit per finding.

Replies are parsed tolerantly and checked strictly. The model gets one chance to correct an unusable reply; a second one
is dropped and recorded. A refusal or timeout costs one proposal, not the round.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rewardharness.errors import HarnessError, shown
from rewardharness.evolution.analyzer import analyze, kind_of, missed
from rewardharness.evolution.briefing import (
    aliases_of,
    case_text,
    choose_cases,
    counts_text,
    entry_text,
    grammar,
    kinds_text,
    library_text,
    mutation_text,
    quoted,
    tried_text,
)
from rewardharness.evolution.evolver import find_objects, read_proposal, similarity
from rewardharness.evolution.operators import condition_problem
from rewardharness.evolution.proposal import MAX_CITED, Dropped, Finding, Mutation, Outcome, Proposal, View
from rewardharness.evolution.shape import shape_findings
from rewardharness.judging.evaluate import run_to_end
from rewardharness.library.store import RemoveEntry
from rewardharness.measure.encoded import encode_for_model
from rewardharness.models.base import ChatRequest, ImagePart, Message, Model, ModelError, Reply
from rewardharness.prompts import Language, in_language, load
from rewardharness.schema import EDIT_KINDS, Usage

MAX_EXCERPT = 300
"""Characters of an unusable reply that are recorded."""
MAX_FINDING = 600
"""Characters of a finding that are kept."""
MAX_OBSERVED = 3000
"""Characters that are shown of what a Tool replied."""
SAME_ROUND = 0.8
"""Share of word shingles from which on two proposals of one round say the same."""


@dataclass(frozen=True)
class LLMSettings:
    """Settings of the requests."""

    temperature: float = 0.7
    """Above 0, so that rounds differ."""
    max_tokens: int = 6000
    """Maximum tokens of a reply, hidden thinking included."""
    misses: int = 16
    """Maximum number of failures per round whose chains are shown."""
    hits: int = 8
    """Maximum number of successes of the same kinds that are shown."""
    chain_characters: int = 2500
    """Characters of one chain that are shown."""
    images: bool = False
    """Whether the images of cited examples are shown. For models that see."""
    max_pixels: int = 512 * 512
    """Maximum size of these images."""
    timeout: float | None = 300.0
    """Seconds per reply, including retries."""
    language: Language = "en"
    """Language of the prompts."""


class LLMOrchestrator:
    """Proposes with a model.

    Args:
        model: Any model; it is closed after each round and reopened in the next.
        settings: How it is asked.
    """

    def __init__(self, model: Model, settings: LLMSettings = LLMSettings()) -> None:
        self._model = model
        self._settings = settings
        self.spent = Usage()
        self.findings: tuple[Finding, ...] = ()
        self.dropped: tuple[Dropped, ...] = ()

    @property
    def name(self) -> str:
        """The model's own id, whether it sees images, and the language of its prompts unless it is English."""
        language = "" if self._settings.language == "en" else f", {self._settings.language} prompts"
        return f"{self._model.id}{', with images' if self._settings.images else ''}{language}"

    def propose(self, view: View) -> Sequence[Proposal]:
        """Analyse, then ask for one edit per finding.

        Raises:
            ModelError: If the model gave no answer at all.
        """
        self.findings, self.dropped = (), ()
        if view.phase != "prune" and not any(missed(outcome) for outcome in view.outcomes):
            return ()
        with in_language(self._settings.language):
            return run_to_end(self._round(view))

    def repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        """Show the replies of a Tool, and ask for a better one.

        Raises:
            ModelError: If the model gave no answer.
        """
        self.dropped = ()
        with in_language(self._settings.language):
            return run_to_end(self._repair(view, proposal, problem))

    async def _repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        entries = [change.entry for change in proposal.changes if not isinstance(change, RemoveEntry)]
        asked = load(
            "evolve_rehearsed",
            library=library_text(view.library),
            tool="\n".join(entry_text(each, True) for each in entries),
            statement=quoted(proposal.statement, MAX_FINDING),
            problem=quoted(problem, MAX_OBSERVED),
        )
        try:
            messages = [Message.of("user", asked)]
            return await self._write(view, messages, proposal.statement, proposal.cited, proposal.mutation)
        finally:
            await self._model.close()

    async def _round(self, view: View) -> Sequence[Proposal]:
        try:
            self.findings = aims = await self._aims(view)
            asked = await asyncio.gather(
                *(self._evolve(view, aim, _mutation(view, number)) for number, aim in enumerate(aims)),
                return_exceptions=True,
            )
        finally:
            await self._model.close()
        proposals: list[Proposal] = []
        errors: list[ModelError] = []
        for aim, outcome in zip(aims, asked, strict=True):
            if isinstance(outcome, ModelError):
                errors.append(outcome)
                self._drop(f"{outcome.title}: {outcome.message}", aim.statement)
            elif isinstance(outcome, BaseException):
                raise outcome
            elif outcome is not None:
                self._take(outcome, proposals)
        if errors and len(errors) == len(aims):
            raise errors[0]
        return proposals

    async def _aims(self, view: View) -> tuple[Finding, ...]:
        """Return the aims of edits: findings about failures, and one about the structure of the Library.

        Pruning only makes the Library smaller, so it uses only the structure.
        """
        shape = shape_findings(view) if view.phase != "tools" else ()
        if view.phase == "prune":
            return shape[: view.limit]
        found = await self._analyze(view)
        if not shape or view.limit < 2:
            return found[: view.limit]
        return (*found[: view.limit - 1], shape[view.seed % len(shape)])

    def _take(self, proposal: Proposal, proposals: list[Proposal]) -> None:
        for other in proposals:
            same = proposal.signature == other.signature
            if same or (proposal.names == other.names and similarity(proposal.text, other.text) >= SAME_ROUND):
                self._drop("Another proposal of this round says nearly the same.", proposal.statement)
                return
        proposals.append(proposal)

    def _drop(self, problem: str, excerpt: str) -> None:
        self.dropped = (*self.dropped, Dropped(problem, shown(excerpt, MAX_EXCERPT)))

    async def _ask(self, view: View, messages: Sequence[Message], attempt: int) -> Reply:
        settings = self._settings
        request = ChatRequest(
            tuple(messages),
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            seed=(view.seed + attempt) % (1 << 31),
            timeout=settings.timeout,
        )
        try:
            reply, paid = await view.replies.ask(self._model, request)
        except ModelError:
            self.spent += Usage(calls=1)
            raise
        self.spent += paid
        return reply

    async def _analyze(self, view: View) -> tuple[Finding, ...]:
        """Ask what goes wrong. If the model refuses or gives no usable reply, use the rules."""
        settings = self._settings
        cases = choose_cases(view.outcomes, settings.misses, settings.hits, view.seed)
        aliases = aliases_of(cases)
        system = load("analyze", view.task.wording, cited=str(MAX_CITED), limit=str(view.limit), kinds=kinds_text(view))
        asked = load(
            "analyze_cases",
            library=library_text(view.library),
            counts=counts_text(view.outcomes),
            cases="\n".join(case_text(each, aliases[each.example.id], settings.chain_characters) for each in cases),
        )
        messages = [Message.of("system", system), Message.of("user", asked)]
        problem = text = ""
        try:
            for attempt in range(2):
                reply = await self._ask(view, messages, attempt)
                text = reply.text
                findings = read_findings(text, view, {alias: name for name, alias in aliases.items()})
                if findings:
                    return findings[: view.limit]
                problem = _cut_off(reply) or 'The reply holds no JSON object with "findings" that cite known cases.'
                messages += [Message.of("assistant", text or "(nothing)"), _repair(problem)]
        except ModelError as error:
            if error.code not in {"refused", "context_too_long"}:
                raise
            problem = f"{error.title}: {error.message}"
        self._drop(f"{problem} The findings are those of the rules.", text)
        return analyze(view.outcomes, view.limit)

    async def _evolve(self, view: View, aim: Finding, mutation: Mutation | None) -> Proposal | None:
        """Ask for one edit that addresses a finding, with an operator if one is wanted."""
        by_id = {outcome.example.id: outcome for outcome in view.outcomes}
        cases = [by_id[name] for name in aim.cited if name in by_id]
        aliases = aliases_of(cases)
        consulted = [entry.name for outcome in cases for entry in outcome.judgment.entries]
        asked = load(
            "evolve_case",
            library=library_text(view.library, [name for name, _ in Counter(consulted).most_common(5)]),
            tried=tried_text(view.rejected),
            finding=quoted(aim.statement, MAX_FINDING),
            cases="\n".join(
                case_text(each, aliases[each.example.id], self._settings.chain_characters) for each in cases
            ),
        )
        pictures = await asyncio.to_thread(self._pictures, cases, aliases) if self._settings.images else []
        wanted = [mutation_text(mutation)] if mutation else []
        messages = [Message.of("user", asked, *pictures, *wanted)]
        return await self._write(view, messages, aim.statement, aim.cited, mutation)

    async def _write(
        self, view: View, asked: Sequence[Message], aim: str, cited: tuple[str, ...], mutation: Mutation | None
    ) -> Proposal | None:
        """Ask for one edit, with one chance to correct a reply that is unusable or misses the operator's condition."""
        messages = [Message.of("system", load("evolve", view.task.wording, grammar=grammar(view))), *asked]
        problem = text = ""
        for attempt in range(2):
            reply = await self._ask(view, messages, attempt)
            text = reply.text
            outcome = read_proposal(text, view, self.name, cited)
            if outcome is None:
                self._drop("The model has nothing to propose.", aim)
                return None
            if isinstance(outcome, Proposal):
                unmet = condition_problem(mutation, outcome, view) if mutation else ""
                if not unmet:
                    return replace(outcome, mutation=mutation)
                problem = f"It is no `{mutation}`: {unmet}"
            else:
                problem = _cut_off(reply) or outcome.message
            messages += [Message.of("assistant", text or "(nothing)"), _repair(problem)]
        self._drop(problem, text)
        return None

    def _pictures(self, cases: Sequence[Outcome], aliases: Mapping[str, str]) -> list[str | ImagePart]:
        """Encode the images of cited examples; an example with an unreadable image is shown without any."""
        parts: list[str | ImagePart] = []
        for outcome in cases:
            example, alias = outcome.example, aliases[outcome.example.id]
            shown_as = [f"{alias}, {title[0].lower()}{title[1:]}:" for title in example.titles]
            try:
                images = [encode_for_model(each, self._settings.max_pixels) for each in example.images]
            except HarnessError:
                continue
            for words, image in zip(shown_as, images, strict=True):
                parts += [words, ImagePart(image.data, image.mime)]
        return parts


def read_findings(text: str, view: View, names: Mapping[str, str]) -> tuple[Finding, ...]:
    """Read the findings of a model. Those without a statement or a known example are ignored.

    Args:
        text: The reply.
        view: What the round sees; hits and misses are counted here, not believed.
        names: Alias to example id.
    """
    rows = [row for value in find_objects(text) for row in _rows(value)]
    by_id = {outcome.example.id: outcome for outcome in view.outcomes}
    found: dict[str, Finding] = {}
    for row in rows:
        statement, given = row.get("statement"), row.get("examples")
        given = given if isinstance(given, list) else [given]
        cited = dict.fromkeys(names[each.strip()] for each in given if isinstance(each, str) and each.strip() in names)
        if not isinstance(statement, str) or not statement.strip() or not cited:
            continue
        named = row.get("kinds")
        kinds = [each for each in named if each in EDIT_KINDS] if isinstance(named, list) else []
        kinds = list(dict.fromkeys(kinds or [kind_of(by_id[name].example) for name in cited]))
        alike = [each for each in view.outcomes if kind_of(each.example) in kinds]
        failures = sum(missed(each) for each in alike)
        successes = sum(each.judged and not missed(each) for each in alike)
        words = shown(" ".join(statement.split()), MAX_FINDING)
        found.setdefault(words, Finding(words, tuple(cited)[:MAX_CITED], tuple(kinds), failures, successes))
    return tuple(found.values())


def _rows(value: Mapping[str, object]) -> list[Mapping[str, object]]:
    given = value.get("findings")
    rows = given if isinstance(given, list) else [value]
    return [row for row in rows if isinstance(row, dict)]


def _mutation(view: View, number: int) -> Mutation | None:
    return view.mutations[number % len(view.mutations)] if view.mutations else None


def _repair(problem: str) -> Message:
    return Message.of("user", load("repair_proposal", problem=problem))


def _cut_off(reply: Reply) -> str:
    return "The reply was cut off at the limit of its length; be shorter." if reply.finish_reason == "length" else ""
