"""An Orchestrator with a language model: it asks what goes wrong, then for one typed edit per finding.

Replies are parsed tolerantly and checked strictly. The model gets one chance to correct an unusable reply; a second one
is dropped and recorded. A refusal or timeout costs one proposal, not the round.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from rewardharness.errors import HarnessError, RunError, shown
from rewardharness.evolution import analyzer
from rewardharness.evolution.analyzer import MAX_INSTRUCTION, analyze, grammar, kind_of, quoted, shape_findings
from rewardharness.evolution.evolver import EditError, changes_of, find_objects, problem_of, read_proposal, similarity
from rewardharness.evolution.operators import condition_problem
from rewardharness.evolution.proposal import MAX_CITED, Dropped, Finding, Mutation, Outcome, Proposal, Replies, View
from rewardharness.judging.answers import ReplyProblem
from rewardharness.judging.evaluate import run_to_end
from rewardharness.library.store import EMPTY, Library
from rewardharness.measure.encoded import encode_for_model
from rewardharness.measure.table import known_measures
from rewardharness.models.base import ChatRequest, ImagePart, Message, Model, ModelError, Reply
from rewardharness.prompts import Language, in_language, load
from rewardharness.schema import EDIT_KINDS, Example, Failure, Judgment, Usage

MAX_EXCERPT = 300
"""Characters of an unusable reply that are recorded."""
MAX_FINDING = 600
"""Characters of a finding that are kept."""
MAX_OBSERVED = 3000
"""Characters that are shown of what a Tool replied."""
MISSES, HITS = 16, 8
"""Maximum number of failures per round whose chains are shown, and of successes of the same kinds."""
SAME_ROUND = 0.8
"""Share of word shingles from which on two proposals of one round say the same."""
MAX_TOKENS, TEMPERATURE, TIMEOUT = 6000, 0.7, 300.0
"""Of a reply, hidden thinking included; above 0, so that rounds differ; and seconds per reply, including retries."""
MAX_PIXELS = 512 * 512
"""Maximum size of the images of cited examples."""

T = TypeVar("T")


async def ask_twice(
    ask: Callable[[Sequence[Message], int], Awaitable[Reply]],
    messages: Sequence[Message],
    read: Callable[[str], T | ReplyProblem],
) -> T | Dropped:
    """Ask a model; an unusable reply is sent back once with its problem.

    Args:
        ask: Sends messages; gets the number of the attempt, from 0.
        messages: The question.
        read: Reads a reply, or returns what is wrong with it.

    Returns:
        What was read; the last unusable reply if the second one is unusable, too.
    """
    for attempt in range(2):
        reply = await ask(messages, attempt)
        outcome = read(reply.text)
        if not isinstance(outcome, ReplyProblem):
            return outcome
        problem = "The reply was cut off at the limit of its length; be shorter." if reply.cut_off else outcome.message
        repair = Message.of("user", load("repair_proposal", problem=problem))
        messages = [*messages, Message.of("assistant", reply.text or "(nothing)"), repair]
    return Dropped(problem, shown(reply.text, MAX_EXCERPT))


class LLMOrchestrator:
    """Proposes with a model.

    Args:
        model: Any model; it is closed after each round and reopened in the next.
        images: Whether the images of cited examples are shown. For models that see.
        language: Language of the prompts.
    """

    def __init__(self, model: Model, *, images: bool = False, language: Language = "en") -> None:
        self._model, self._images, self._language = model, images, language
        self.spent = Usage()
        self.findings: tuple[Finding, ...] = ()
        self.dropped: tuple[Dropped, ...] = ()

    @property
    def name(self) -> str:
        """The model's own id, whether it sees images, and the language of its prompts unless it is English."""
        language = "" if self._language == "en" else f", {self._language} prompts"
        return f"{self._model.id}{', with images' if self._images else ''}{language}"

    def propose(self, view: View) -> Sequence[Proposal]:
        """Analyse, then ask for one edit per finding.

        Raises:
            ModelError: If the model gave no answer at all.
        """
        self.findings, self.dropped = (), ()
        if view.phase != "prune" and not any(outcome.missed for outcome in view.outcomes):
            return ()
        with in_language(self._language):
            return run_to_end(self._round(view))

    def repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        """Show the replies of a Tool, and ask for a better one.

        Raises:
            ModelError: If the model gave no answer.
        """
        self.dropped = ()
        with in_language(self._language):
            return run_to_end(self._repair(view, proposal, problem))

    async def _repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        library, quote = analyzer.library_text(view.library), analyzer.quoted(problem, MAX_OBSERVED)
        tool = "\n".join(analyzer.entry_text(entry, True) for entry in proposal.entries)
        statement = analyzer.quoted(proposal.statement, MAX_FINDING)
        asked = load("evolve_rehearsed", library=library, tool=tool, statement=statement, problem=quote)
        try:
            aim = Finding(proposal.statement, proposal.cited, (), 0, 0)
            return await self._write(view, [asked], aim, proposal.mutation)
        finally:
            await self._model.close()

    async def _round(self, view: View) -> Sequence[Proposal]:
        try:
            self.findings = aims = await self._aims(view)
            edits = (self._evolve(view, aim, number) for number, aim in enumerate(aims))
            asked = await asyncio.gather(*edits, return_exceptions=True)
        finally:
            await self._model.close()
        proposals: list[Proposal] = []
        errors = [outcome for outcome in asked if isinstance(outcome, ModelError)]
        if errors and len(errors) == len(aims):
            raise errors[0]
        for aim, outcome in zip(aims, asked, strict=True):
            if isinstance(outcome, ModelError):
                self._drop(f"{outcome.title}: {outcome.message}", aim.statement)
            elif isinstance(outcome, BaseException):
                raise outcome
            elif outcome is not None and any(_alike(outcome, other) for other in proposals):
                self._drop("Another proposal of this round says nearly the same.", outcome.statement)
            elif outcome is not None:
                proposals.append(outcome)
        return proposals

    async def _aims(self, view: View) -> tuple[Finding, ...]:
        """Return the aims of edits: findings about failures, and one about the structure of the Library.

        Pruning only makes the Library smaller, so it uses only the structure.
        """
        shape = shape_findings(view) if view.phase != "tools" else ()
        if view.phase == "prune":
            return shape[: view.limit]
        findings = await self._analyze(view)
        if not shape or view.limit < 2:
            return findings[: view.limit]
        return (*findings[: view.limit - 1], shape[view.seed % len(shape)])

    def _drop(self, problem: str, excerpt: str) -> None:
        self.dropped = (*self.dropped, Dropped(problem, shown(excerpt, MAX_EXCERPT)))

    async def _ask(self, view: View, messages: Sequence[Message], attempt: int) -> Reply:
        limits, seed = (MAX_TOKENS, TEMPERATURE), (view.seed + attempt) % (1 << 31)
        request = ChatRequest(tuple(messages), *limits, seed=seed, timeout=TIMEOUT)
        try:
            reply, paid = await view.replies.ask(self._model, request)
        except ModelError:
            self.spent += Usage(calls=1)
            raise
        self.spent += paid
        return reply

    async def _analyze(self, view: View) -> tuple[Finding, ...]:
        """Ask what goes wrong. If the model refuses or gives no usable reply, use the rules."""
        cases = analyzer.choose_cases(view.outcomes, MISSES, HITS, view.seed)
        names = {f"e{number}": outcome.example.id for number, outcome in enumerate(cases, 1)}
        limits = {"cited": str(MAX_CITED), "limit": str(view.limit), "kinds": analyzer.kinds_text(view)}
        system = load("analyze", view.task.wording, **limits)
        library, counts = analyzer.library_text(view.library), analyzer.counts_text(view.outcomes)
        asked = load("analyze_cases", library=library, counts=counts, cases=analyzer.cases_text(cases))
        messages = [Message.of("system", system), Message.of("user", asked)]
        unusable = ReplyProblem('The reply holds no JSON object with "findings" that cite known cases.')
        try:
            outcome = await ask_twice(
                partial(self._ask, view), messages, lambda text: read_findings(text, view, names) or unusable
            )
        except ModelError as error:
            if error.code not in {"refused", "context_too_long"}:
                raise
            outcome = Dropped(f"{error.title}: {error.message}")
        if not isinstance(outcome, Dropped):
            return outcome[: view.limit]
        self._drop(f"{outcome.problem} The findings are those of the rules.", outcome.excerpt)
        return analyze(view.outcomes, view.limit)

    async def _evolve(self, view: View, aim: Finding, number: int) -> Proposal | None:
        """Ask for one edit that addresses a finding, with an operator if some are wanted."""
        by_id = {outcome.example.id: outcome for outcome in view.outcomes}
        cases = [by_id[name] for name in aim.cited if name in by_id]
        consulted = Counter(entry.name for outcome in cases for entry in outcome.judgment.entries)
        library = analyzer.library_text(view.library, [name for name, _ in consulted.most_common(5)])
        tried, finding = analyzer.tried_text(view.rejected), analyzer.quoted(aim.statement, MAX_FINDING)
        asked = load("evolve_case", library=library, tried=tried, finding=finding, cases=analyzer.cases_text(cases))
        more = await asyncio.to_thread(self._pictures, cases) if self._images else []
        mutation = view.mutations[number % len(view.mutations)] if view.mutations else None
        more += [analyzer.mutation_text(mutation)] if mutation else []
        return await self._write(view, [asked, *more], aim, mutation)

    async def _write(
        self, view: View, asked: Sequence[str | ImagePart], aim: Finding, mutation: Mutation | None
    ) -> Proposal | None:
        """Ask for one edit, with one chance to correct a reply that is unusable or misses the operator's condition."""

        def read(text: str) -> Proposal | ReplyProblem | None:
            outcome = read_proposal(text, view, self.name, aim.cited)
            if mutation is None or not isinstance(outcome, Proposal):
                return outcome
            unmet = condition_problem(mutation, outcome, view)
            return ReplyProblem(f"It is no `{mutation}`: {unmet}") if unmet else replace(outcome, mutation=mutation)

        system = load("evolve", view.task.wording, grammar=analyzer.grammar(view))
        messages = [Message.of("system", system), Message.of("user", *asked)]
        outcome = await ask_twice(partial(self._ask, view), messages, read)
        if isinstance(outcome, Proposal):
            return outcome
        dropped = outcome or Dropped("The model has nothing to propose.", aim.statement)
        self._drop(dropped.problem, dropped.excerpt)
        return None

    def _pictures(self, cases: Sequence[Outcome]) -> list[str | ImagePart]:
        """Encode the images of cited examples; an example with an unreadable image is shown without any."""
        parts: list[str | ImagePart] = []
        for number, outcome in enumerate(cases, 1):
            example = outcome.example
            titles = [f"e{number}, {title[0].lower()}{title[1:]}:" for title in example.titles]
            try:
                images = [encode_for_model(image, MAX_PIXELS) for image in example.images]
            except HarnessError:
                continue
            for title, image in zip(titles, images, strict=True):
                parts += [title, ImagePart(image.data, image.mime)]
        return parts


def read_findings(text: str, view: View, names: Mapping[str, str]) -> tuple[Finding, ...]:
    """Read the findings of a model. Those without a statement or a known example are ignored.

    Args:
        text: The reply.
        view: What the round sees; hits and misses are counted here, not believed.
        names: Alias to example id.
    """
    by_id = {outcome.example.id: outcome for outcome in view.outcomes}
    findings: dict[str, Finding] = {}
    for row in (row for value in find_objects(text) for row in _list(value.get("findings", value))):
        statement = row.get("statement") if isinstance(row, dict) else None
        if not isinstance(statement, str) or not statement.strip():
            continue
        aliases = [alias.strip() for alias in _list(row.get("examples")) if isinstance(alias, str)]
        cited = tuple(dict.fromkeys(names[alias] for alias in aliases if alias in names))
        if not cited:
            continue
        named = [kind for kind in _list(row.get("kinds")) if kind in EDIT_KINDS]
        kinds = tuple(dict.fromkeys(named or [kind_of(by_id[name].example) for name in cited]))
        alike = [outcome for outcome in view.outcomes if kind_of(outcome.example) in kinds]
        failures = sum(outcome.missed for outcome in alike)
        successes = sum(outcome.judged and not outcome.missed for outcome in alike)
        short = shown(" ".join(statement.split()), MAX_FINDING)
        findings.setdefault(short, Finding(short, cited[:MAX_CITED], kinds, failures, successes))
    return tuple(findings.values())


def _alike(one: Proposal, other: Proposal) -> bool:
    same_words = one.names == other.names and similarity(one.text, other.text) >= SAME_ROUND
    return one.signature == other.signature or same_words


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


LLM = "llm"
"""Name of the starting Library that a model writes."""
FOLDER = "initial"
"""Folder below `RH_HOME` with the saved replies."""
MOST_SKILLS = 6
"""Maximum number of Skills."""
MOST_INSTRUCTIONS = 60
"""Maximum number of instructions that the model sees."""
_MAX_TOKENS = 8000

_log = logging.getLogger(__name__)


def write_library(
    model: Model, examples: Sequence[Example], replies: Replies, seed: int = 0, origin: Mapping[str, str] | None = None
) -> Library:
    """Ask a model for a starting Library.

    Args:
        model: The model; it is closed afterwards.
        examples: The training examples, of which it sees instructions.
        replies: Saves its replies.
        seed: Seed of the choice of instructions.
        origin: Fields of the line in the lineage: `data` and `data_digest`.

    Raises:
        RunError: If it gives no answer, or no usable Skill.
    """
    try:
        library, problems = run_to_end(_write(model, examples, replies, seed))
    except ModelError as error:
        raise RunError(
            f"The initializer {model.id} gives no answer ({error.code}). {error.message}",
            next_step="Choose another starting Library, or give the same command again.",
        ) from error
    for problem in problems:
        _log.warning("The initializer %s wrote something unusable: %s", model.id, problem)
    if not library.entries:
        raise RunError(
            f"The initializer {model.id} wrote no usable Skill.",
            next_step="Choose another starting Library (--library), or another --initializer-model.",
        )
    names = [entry.name for entry in library.entries]
    statement = f"Written from instructions of {len(examples)} training examples."
    line = {"operator": "initialize", "entries": names, "statement": statement, "source": model.id}
    return library.with_lineage({"library": library.id, **line, **(origin or {})})


async def _write(
    model: Model, examples: Sequence[Example], replies: Replies, seed: int
) -> tuple[Library, Sequence[str]]:
    """Return the Library of the last reply with usable Skills, and what is wrong with the others."""
    failure = Failure("unjudged", "Not judged.")  # the checks of proposals need the instructions alone
    outcomes = tuple(Outcome(example, Judgment(example.id, "", "", "", failure=failure), 0.0) for example in examples)
    view = View(EMPTY, outcomes, lambda example: {}, (), seed=seed)
    view = replace(view, known_measures=known_measures(view.task.candidate))
    distinct = sorted({" ".join(example.instruction.split()) for example in examples})
    chosen = random.Random(seed).sample(distinct, min(MOST_INSTRUCTIONS, len(distinct)))
    listed = "\n".join(f"- {quoted(instruction, MAX_INSTRUCTION)}" for instruction in chosen)
    system = load("initialize", view.task.wording, limit=str(MOST_SKILLS), grammar=grammar(view))
    messages = [Message.of("system", system), Message.of("user", load("initialize_from", instructions=listed))]
    drafts: list[tuple[Library, Sequence[str]]] = []

    async def ask(messages: Sequence[Message], attempt: int) -> Reply:
        request = ChatRequest(tuple(messages), max_tokens=_MAX_TOKENS, temperature=TEMPERATURE, seed=seed + attempt)
        reply, _ = await replies.ask(model, request)
        return reply

    def read(text: str) -> ReplyProblem | None:
        drafts.append(read_skills(text, view))
        problems = drafts[-1][1]
        return ReplyProblem(" ".join(problems)) if problems else None

    try:
        await ask_twice(ask, messages, read)
    finally:
        await model.close()
    return [draft for draft in drafts if draft[0].entries or draft is drafts[0]][-1]


def read_skills(text: str, view: View) -> tuple[Library, Sequence[str]]:
    """Read the Skills of a reply: a Library of those without problems, and the problems of the others."""
    rows = next((rows for value in find_objects(text) if isinstance(rows := value.get("skills"), list)), None)
    if not rows:
        return EMPTY, ('The reply holds no JSON object with "skills".',)
    problems = [f"There are {len(rows)} Skills; at most {MOST_SKILLS} are allowed."] if len(rows) > MOST_SKILLS else []
    for row in rows[:MOST_SKILLS]:
        try:
            proposal = Proposal("add", changes_of("add", {"entry": row}, view, ""), "", (), LLM)
            problem = problem_of(proposal, view)
        except EditError as error:
            problem = str(error)
        if problem:
            problems.append(problem)
        else:
            view = replace(view, library=proposal.applied_to(view.library))
    library = view.library
    if library.entries and not any(trigger.always for entry in library.entries for trigger in entry.triggers):
        problems.append("No Skill has the triggers `always`.")
    return library, problems
