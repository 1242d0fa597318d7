"""What a judge is, and the checks that every judge makes before it looks at anything."""

from dataclasses import replace
from typing import Protocol

from rewardharness.errors import HarnessError, ImageError
from rewardharness.library.store import Library
from rewardharness.models.base import ModelError
from rewardharness.schema import LABELS, Example, Failure, Judgment, Usage

NOT_GRADABLE = "not_gradable"
"""Code of the failure of a single candidate whose instruction nothing that was measured speaks to."""


class Judge(Protocol):
    """Something that says how good a candidate is, and of several which one people would prefer."""

    @property
    def name(self) -> str:
        """Named in every Judgment and shown to people."""

    @property
    def protocol(self) -> str:
        """How it judges; numbers of different protocols are not comparable."""

    @property
    def revision(self) -> str:
        """Content id of what makes it judge as it does, beside the model and the Library: code and prompts."""

    async def judge(self, example: Example, library: Library) -> Judgment:
        """Judge one example. Trouble with the example gives a Judgment with a failure, not an exception."""

    async def close(self) -> None:
        """Close what is open on this event loop. The judge can be used again; it opens what it needs."""


def refuse(example: Example) -> Failure | None:
    """Say why an example cannot be judged by anyone, or None when it can."""
    count = len(example.candidates)
    if not example.instruction.strip():
        return Failure("input", "There is no instruction; say in words what the edit should do.")
    if count < 1:
        return Failure("input", "There is no candidate; give one to be scored, or several to be compared.")
    if count > len(LABELS):
        return Failure("input", f"There are {count} candidates; at most {len(LABELS)} can be compared at once.")
    return None


def failure_of(error: HarnessError) -> Failure:
    """Put an error met while judging one example into its record."""
    code = error.code if isinstance(error, ModelError) else "image" if isinstance(error, ImageError) else "input"
    return Failure(code, f"{error.message} {error.next_step}".strip())


def with_ungradable(judgment: Judgment) -> Judgment:
    """Accept general evidence as the reward where the instruction could not be graded. The confidence stays low."""
    several = judgment.scores.values()
    if all(each.reward is not None for each in several) or any(each.evidence is None for each in several):
        return judgment
    scores = {label: replace(each, reward=each.evidence) for label, each in judgment.scores.items()}
    failed = judgment.failure is not None and judgment.failure.code != NOT_GRADABLE
    return replace(judgment, scores=scores, failure=judgment.failure if failed else None)


def unjudged(
    example: Example, judge: Judge, library: Library, failure: Failure, usage: Usage | None = None
) -> Judgment:
    """Record that an example was not judged. Never a tie, never a score."""
    return Judgment(
        example_id=example.id,
        judge=judge.name,
        protocol=judge.protocol,
        library_id=library.id,
        failure=failure,
        usage=usage or Usage(),
    )
