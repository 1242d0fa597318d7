"""A starting Library that a model writes from the instructions of the training examples.

The model sees no label, no image and no held-out example. Each Skill is checked like a proposal; problems are returned
to the model once, and Skills that still have problems are left out. There are at most two requests. Their replies are
saved, so that opening the same run again gives the same Library and costs nothing.
"""

import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rewardharness.errors import RunError
from rewardharness.evolution.briefing import MAX_INSTRUCTION, grammar, quoted
from rewardharness.evolution.evolver import EditError, changes_of, find_objects, problem_of
from rewardharness.evolution.llm_orchestrator import TEMPERATURE, ask_twice
from rewardharness.evolution.proposal import Outcome, Proposal, View
from rewardharness.evolution.replies import Replies
from rewardharness.judging.answers import ReplyProblem
from rewardharness.judging.evaluate import run_to_end
from rewardharness.library.store import EMPTY, Library
from rewardharness.measure.table import known_measures
from rewardharness.models.base import ChatRequest, Message, Model, ModelError, Reply
from rewardharness.prompts import load
from rewardharness.schema import Example, Failure, Judgment
from rewardharness.task import IMAGE_EDIT

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
    view = _view(examples, seed)
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


def _view(examples: Sequence[Example], seed: int) -> View:
    """Return an input of the checks: an empty Library, and examples of which only the instructions are known."""
    failure = Failure("unjudged", "Not judged.")
    outcomes = tuple(Outcome(each, Judgment(each.id, "", "", "", failure=failure), 0.0) for each in examples)
    view = View(EMPTY, outcomes, lambda example: {}, (), seed=seed)
    return replace(view, known_measures=known_measures()) if view.task is IMAGE_EDIT else view


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
