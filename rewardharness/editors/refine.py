"""Better edits at test time: best of n, a critique of the best, its next instruction, and again.

Every attempt edits the original source and is judged by the original instruction. Judges are best at comparisons, so
the attempts of a round are compared with each other and with the best one so far. What is chosen in the end is compared
with the first attempt and is never worse by the judge. A judge that chooses is optimistic about what it chose
(over-optimization): a second judge that did not choose says how much of the gain it sees, too.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rewardharness.editors.config import MARGIN
from rewardharness.editors.editor import EditorProtocol, EditTask, open_editor
from rewardharness.editors.making import cached_edits, kept_edit
from rewardharness.errors import HarnessError, InputError
from rewardharness.judging.judge import Judge
from rewardharness.judging.subagent import count_requests
from rewardharness.library.store import Library
from rewardharness.runs.job import Stopped
from rewardharness.runs.spending import UNLIMITED, Account, SpendingLimits
from rewardharness.schema import LABELS, TIE, Example, ImageInput, Judgment
from rewardharness.settings import Settings

Asking = Callable[[Judge, tuple[ImageInput, ...], bool], Judgment]
STOPPED = "Stopped."
LOOK_SECONDS = 0.3
"""Maximum seconds between two looks whether to stop."""


@dataclass(frozen=True)
class Attempt:
    """One edit."""

    round: int
    """From 1; 0 for the edit that is improved."""
    seed: int
    instruction: str
    """What the editor was asked for."""
    reward: float | None
    """By the judge that chooses, beside the attempts of its round; None if it was not made or not judged."""
    image: ImageInput | None = None
    """The edit; None if it was not made."""
    failure: str = ""
    problems: tuple[str, ...] = ()
    """What its critique finds wrong; empty if there was none."""


@dataclass(frozen=True)
class SecondOpinion:
    """What a judge that did not choose says."""

    judge: str
    gain: float | None
    """Margin by which it prefers the chosen attempt to the first one; None if it did not judge them."""


@dataclass(frozen=True)
class Refined:
    """Result of refining."""

    attempts: tuple[Attempt, ...]
    best: int
    """Index of the chosen attempt."""
    gain: float
    """Margin by which it is preferred to the first attempt that was judged."""
    ended: str
    """Why no further round was made."""
    judge: str
    second: SecondOpinion | None = None

    @property
    def image(self) -> ImageInput:
        """The chosen edit."""
        image = self.attempts[self.best].image
        assert image is not None  # only judged edits are chosen
        return image


def refine(  # noqa: PLR0913  (one argument per part of the loop)
    image: Any,
    instruction: str,
    editor: EditorProtocol | str | Callable[..., Any],
    judge: Judge,
    *,
    candidate: Any = None,
    library: Library | None = None,
    rounds: int = 4,
    n: int = 4,
    margin: float = MARGIN,
    second: Judge | None = None,
    seed: int = 0,
    settings: Settings | None = None,
    progress: Callable[[str, int, int], None] = lambda activity, done, total: None,
    stop: Callable[[], bool] = lambda: False,
    limits: SpendingLimits = UNLIMITED,
    ask: Asking | None = None,
) -> Refined:
    """Improve an edit until its reward rises no more.

    Args:
        image: The source, as `ImageInput.of` accepts it.
        instruction: The edit.
        editor: An editor, its spelling, or a function; see `open_editor`.
        judge: Compares the attempts, and criticizes the best one of a round.
        candidate: An edit to improve, which counts as the first attempt; None to begin without one.
        library: Library of the judge; None for the default one.
        rounds: Maximum number of rounds.
        n: Attempts per round.
        margin: Least lead with which an attempt of a further round replaces the best one so far; without one it ends.
        second: A judge that has no part in the choice; None for none.
        seed: Seed of the first attempt; each further one has the next.
        settings: Keys of the editor, and where edits are kept; None for those of the environment.
        progress: Called with round and best reward so far, the attempts that were made, and their maximum number.
        stop: Whether to end: without the edits in progress, and after the judgment in progress.
        limits: The budget of the judges; the last comparison, with the first attempt, is reserved. Edits cost extra.
        ask: Asks a judge about images of one to four attempts, perhaps with a critique; None to ask it each time.

    Raises:
        InputError: If a number is below 1, the judge writes no critiques, or it ends before any attempt was judged.
        HarnessError: If no attempt was made and judged; it says why.
    """
    if rounds < 1 or n < 1:
        raise InputError(f"{rounds} rounds of {n} attempts are not possible.", next_step="Choose 1 or more.")
    settings = settings or Settings.from_env()
    opened = open_editor(editor, settings) if isinstance(editor, str) or callable(editor) else editor
    critic = judge.with_critiques()
    free = critic if not judge.traits.uses_model else judge
    source = ImageInput.of(image, "source")
    ask = ask or partial(ask_judge, source, instruction, library)
    contest = _Contest(free, critic, source, instruction, ask, [], Account(limits), stop)
    attempts = contest.attempts
    if candidate is not None:
        attempts.append(Attempt(0, seed, instruction, None, ImageInput.of(candidate, "candidate")))

    def edits(asked: str, made: Callable[[int], None]) -> list[Attempt]:
        seeds = range(seed + len(attempts), seed + len(attempts) + n)
        tasks = [EditTask("refine", contest.source, asked, edit_seed) for edit_seed in seeds]
        return asyncio.run(_edits(opened, tasks, cached_edits(settings), made, stop))

    best, ended = _rounds(contest, edits, rounds, n, margin, progress)
    if best < 0 or not any(attempt.image is not None and not attempt.failure for attempt in attempts):
        why = next((attempt.failure for attempt in attempts if attempt.failure), "")
        raise InputError(f"No attempt was judged. {ended} {why}".rstrip(), next_step="Correct editor, judge or budget.")
    best, gain, opinion = contest.conclusion(best, second)
    return Refined(tuple(attempts), best, gain, ended, judge.name, opinion)


def _rounds(
    contest: "_Contest",
    edits: Callable[[str, Callable[[int], None]], list[Attempt]],
    rounds: int,
    n: int,
    margin: float,
    progress: Callable[[str, int, int], None],
) -> tuple[int, str]:
    """Make rounds. Returns the index of the best attempt, below 0 if none was judged, and why no further one was made.

    Args:
        contest: The attempts, to which new ones are added.
        edits: Makes the edits of a round by an instruction; calls a function with their number so far.
        rounds: See `refine`, for the others too.
        n: Attempts per round.
        margin: Least lead.
        progress: Shows progress.
    """
    attempts, best = contest.attempts, 0 if contest.attempts else -1
    try:
        for number in range(1, rounds + 1):
            asked = contest.next_instruction(best) if best >= 0 else contest.instruction
            said = f"round {number}{contest.best_so_far(best)}"
            new = edits(asked, partial(_tell, progress, said, (number - 1) * n, rounds * n))
            attempts.extend(replace(attempt, round=number) for attempt in new)
            if contest.stop():
                return best, STOPPED
            before, best = best, contest.best(best, len(attempts) - n)
            if best < 0:
                return best, next(attempt.failure for attempt in attempts if attempt.failure)
            if before >= 0 and (contest.lead(best, before) or 0.0) < margin:
                return before, f"Round {number} brought no attempt that leads by {margin:g}."
    except Stopped as over:
        return best, str(over)
    return best, "Every round was made."


def _tell(progress: Callable[[str, int, int], None], activity: str, earlier: int, total: int, made: int) -> None:
    progress(activity, earlier + made, total)


@dataclass(frozen=True)
class _Contest:
    """The judge's part: it compares attempts with the original instruction."""

    judge: Judge
    critic: Judge
    source: ImageInput
    instruction: str
    ask: Asking
    attempts: list[Attempt]
    account: Account
    stop: Callable[[], bool]

    def judged(self, *indices: int, critique: bool = False, last: bool = False) -> Judgment:
        """Judge one to four attempts together.

        Args:
            indices: The attempts.
            critique: Whether to criticize them.
            last: Whether it is the last comparison, for which a part of the budget is reserved.

        Raises:
            Stopped: If the budget does not cover it, or it was stopped.
        """
        judge = self.critic if critique else self.judge
        images = tuple(image for index in indices if (image := self.attempts[index].image) is not None)
        example = Example("refine", self.instruction, self.source, images)
        calls = count_requests(judge, example)
        if not last:
            calls += count_requests(self.judge, replace(example, candidates=(self.source, self.source)))
        if not last and self.stop():
            raise Stopped(STOPPED)
        if not list(self.account.within([example], lambda _: calls, lambda edit: edit.id)):
            self.account.held = []
            raise Stopped(f"{self.account.reason[:1].upper()}{self.account.reason[1:]}.")
        judgment = self.ask(judge, images, critique)
        self.account.settle(example.id, judgment.usage)
        return judgment

    def best(self, champion: int, since: int) -> int:
        """Return the best of the new attempts and the best one so far, and note rewards; -1 if none was judged."""
        new = [index for index in range(since, len(self.attempts)) if self.attempts[index].image is not None]
        pool = [champion, *new] if champion >= 0 else new
        while len(pool) > 1 or (pool and champion < 0):
            taken, pool = pool[: len(LABELS)], pool[len(LABELS) :]
            judgment = self.judged(*taken)
            for label, index in zip(LABELS, taken, strict=False):
                self._note(index, label, judgment)
            if judgment.failure is None:
                order = judgment.ranking[0] if judgment.ranking else LABELS[:1]
                champion = next(index for label, index in zip(LABELS, taken, strict=False) if label in order)
            if pool and champion >= 0:
                pool = [champion, *pool]
        return champion

    def lead(self, index: int, other: int, *, last: bool = False) -> float | None:
        """Return the margin, in [-1, 1], by which an attempt is preferred to another one; None if not judged."""
        if index == other:
            return 0.0
        judgment = self.judged(index, other, last=last)
        if judgment.failure is not None:
            return None
        sign = {LABELS[0]: 1.0, LABELS[1]: -1.0}.get(judgment.preference or TIE, 0.0)
        return sign * (1.0 if judgment.margin is None else judgment.margin)

    def conclusion(self, best: int, second: Judge | None) -> tuple[int, float, SecondOpinion | None]:
        """Return what is chosen, its margin over the first attempt that was judged, and what a second judge says."""
        first = next(index for index, edit in enumerate(self.attempts) if edit.image is not None and not edit.failure)
        try:
            gain = self.lead(best, first, last=True) or 0.0
        except Stopped:  # the judgments before took more requests than expected
            gain = 0.0
        best, gain = (best, gain) if gain > 0 else (first, 0.0)
        lead: float | None = None
        with suppress(Stopped):
            lead = None if second is None else replace(self, judge=second).lead(best, first, last=True)
        return best, gain, None if second is None else SecondOpinion(second.name, lead)

    def best_so_far(self, best: int) -> str:
        """Return the reward of the best attempt in words; empty if it is unknown."""
        reward = self.attempts[best].reward if best >= 0 else None
        return "" if reward is None else f", best reward {reward:.2f}"

    def next_instruction(self, index: int) -> str:
        """Return what the critique of an attempt asks for; the original instruction without one."""
        judgment = self.judged(index, critique=True)
        critique, attempt = judgment.critiques.get(LABELS[0]), self.attempts[index]
        if critique is None:
            return self.instruction
        reward = judgment.reward if attempt.reward is None else attempt.reward
        self.attempts[index] = replace(attempt, reward=reward, problems=critique.problems)
        return critique.next_instruction or self.instruction

    def _note(self, index: int, label: str, judgment: Judgment) -> None:
        """Note the reward of an attempt, and what is wrong with it."""
        before, critique = self.attempts[index], judgment.critiques.get(label)
        reward = judgment.scores[label].reward if judgment.failure is None and label in judgment.scores else None
        failure = "" if judgment.failure is None else judgment.failure.message
        problems = before.problems if critique is None else critique.problems
        self.attempts[index] = replace(before, reward=reward, failure=failure, problems=problems)


def ask_judge(
    source: ImageInput,
    instruction: str,
    library: Library | None,
    judge: Judge,
    images: tuple[ImageInput, ...],
    critique: bool,
) -> Judgment:
    """Ask a judge about one to four attempts."""
    return judge.score(source, images, instruction, library=library, critique=critique)


async def _edits(
    editor: EditorProtocol, tasks: list[EditTask], cache: Path, made: Callable[[int], None], stop: Callable[[], bool]
) -> list[Attempt]:
    """Make edits at the same time; `made` is called with their number so far."""

    async def one(task: EditTask) -> Attempt:
        attempt = Attempt(0, task.seed, task.instruction, None)
        try:
            data, _ = await kept_edit(editor, task, cache)
        except HarnessError as error:
            return replace(attempt, failure=error.message)
        except asyncio.CancelledError:
            return replace(attempt, failure=STOPPED)
        return replace(attempt, image=ImageInput(f"attempt {task.seed}", data=data))

    working = [asyncio.create_task(one(task)) for task in tasks]
    left: set[asyncio.Task[Attempt]] = set(working)
    try:
        while left:
            made(len(working) - len(left))
            _, left = await asyncio.wait(left, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if stop():
                for task in left:
                    task.cancel()
        made(len(working))
        return [task.result() for task in working]
    finally:
        await editor.close()
