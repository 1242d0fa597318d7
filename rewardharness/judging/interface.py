"""The interface of judges, and checks that all judges share."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from rewardharness.errors import HarnessError, ImageError, InputError
from rewardharness.judging.identity import Identified
from rewardharness.library.store import Library
from rewardharness.schema import LABELS, SOURCES, Example, Failure, Judgment, Usage
from rewardharness.task import ANY, IMAGE_EDIT, TEXT, Task, task_of

if TYPE_CHECKING:  # a judge without a calibration does not load it
    from rewardharness.judging.calibration import ConfidenceCalibration

NOT_GRADABLE = "not_gradable"
"""Failure code of a single candidate if it cannot be measured whether its instruction was followed."""


@dataclass(frozen=True)
class Traits:
    """What callers need to know about a judge before it judges."""

    tasks: tuple[Task, ...] = (IMAGE_EDIT,)
    """What it can judge."""
    concurrency: int = 8
    """Number of examples that are judged concurrently by default."""
    uses_model: bool = False
    """Whether it sends requests to a model."""
    uses_library: bool = True
    """Whether its judgments depend on the Library."""
    needs_ids: bool = False
    """Whether it looks judgments up by the id of an example, so that it can judge only these examples."""
    needs_pixels: bool = False
    """Whether it compares the pixels of images, besides what a model sees."""
    writes_critiques: bool = False
    """Whether it can say in words what is wrong with a candidate."""
    calls_tools: bool = False
    """Whether a model calls the Tools of the Library."""
    router_id: str | None = None
    """Id of the model that selects entries without triggers; None if their description decides."""


class JudgeProtocol(Identified, Protocol):
    """A judge, as an evaluation uses it."""

    @property
    def traits(self) -> Traits:
        """What it can do."""

    @property
    def calibration(self) -> "ConfidenceCalibration | None":
        """Turns the confidence of preferences into a probability, with the Library that it was fitted for."""

    async def judge(self, example: Example, library: Library) -> Judgment:
        """Judge one example. An error of the example gives a Judgment with a failure, not an exception."""

    async def close(self) -> None:
        """Close the connections of this event loop. The judge can be used again."""


def check_task(task: Task, judge: JudgeProtocol, library: Library) -> None:
    """Check that a judge and a Library are for a task. Rubrics for images are never used on text.

    Raises:
        InputError: If one of them is for another task.
    """
    traits = judge.traits
    if task not in traits.tasks:
        raise InputError(
            f"{judge.name} cannot judge {task.words}.",
            next_step="Judge with a model: --judge vllm:NAME@URL or openai:NAME@URL.",
        )
    if traits.needs_pixels and task is not IMAGE_EDIT:
        raise InputError(
            f"Measured evidence compares the pixels of images; there is none for {task.words}.",
            next_step="Judge without it: leave out --evidence, or +evidence after the judge.",
        )
    entries = library.entries if traits.uses_library else ()
    known = [entry for entry in entries if entry.task != ANY]
    other = next((entry for entry in known if (entry.task == TEXT.name) != (task is TEXT)), None)
    if other is not None:
        choice = "--library builtin:text, or --library empty" if task is TEXT else "--library builtin"
        raise InputError(
            f"The Library is not for {task.words}: its entry {other.name!r} is for the task {other.task}.",
            next_step=f"Choose a Library for this task, such as {choice}.",
        )


def refuse(example: Example, judge: JudgeProtocol, library: Library) -> Failure | None:
    """Return why a judge cannot judge an example with a Library; None if it is valid."""
    count = len(example.candidates)
    if not example.instruction.strip():
        return Failure("input", "There is no instruction; say in words what the edit should do.")
    if count < 1:
        return Failure("input", "There is no candidate; give one to be scored, or several to be compared.")
    if count > len(LABELS):
        return Failure("input", f"There are {count} candidates; at most {len(LABELS)} can be compared at once.")
    if len(example.sources) > SOURCES:
        return Failure("input", f"There are {len(example.references)} reference images; give at most {SOURCES - 1}.")
    try:
        check_task(task_of(example), judge, library)
    except InputError as error:
        return failure_of(error)
    return None


def failure_of(error: HarnessError) -> Failure:
    """Convert an error during a judgment to its failure."""
    code = getattr(error, "code", "image" if isinstance(error, ImageError) else "input")  # those of models have one
    return Failure(code, f"{error.message} {error.next_step}".strip())


def with_ungradable(judgment: Judgment) -> Judgment:
    """Use general evidence as the reward if the instruction could not be graded. The confidence stays low."""
    several = judgment.scores.values()
    if all(score.reward is not None for score in several) or any(score.evidence is None for score in several):
        return judgment
    scores = {label: replace(score, reward=score.evidence) for label, score in judgment.scores.items()}
    failed = judgment.failure is not None and judgment.failure.code != NOT_GRADABLE
    return replace(judgment, scores=scores, failure=judgment.failure if failed else None)


def unjudged(
    example: Example, judge: JudgeProtocol, library: Library, failure: Failure, usage: Usage | None = None
) -> Judgment:
    """Create the judgment of an example that was not judged: neither a tie nor a score."""
    return Judgment(
        example_id=example.id,
        judge=judge.name,
        protocol=judge.protocol,
        library_id=library.id,
        failure=failure,
        usage=usage or Usage(),
    )
