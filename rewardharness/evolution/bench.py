"""The judge as an evolution uses it: nothing is judged twice, all is counted, and trouble pauses the run."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, get_args

from rewardharness.evolution.analyzer import LIBRARY_FAILURES
from rewardharness.evolution.progress import Meter
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.stop import (
    NOTHING,
    OVER_BUDGET,
    UNLIMITED,
    Exhausted,
    Limits,
    Paused,
    Spent,
    Stopped,
    StopRequest,
    check_disk,
    usage_json,
)
from rewardharness.files import content_id
from rewardharness.judging.evaluate import evaluate, run_to_end
from rewardharness.judging.judge import Judge
from rewardharness.judging.report import credit
from rewardharness.judging.router import fires
from rewardharness.judging.tool_calls import Observation
from rewardharness.judgments import result_line
from rewardharness.library.entry import Entry
from rewardharness.library.store import Library
from rewardharness.models.base import ErrorCode
from rewardharness.schema import Example, Failure, Judgment

MODEL_FAILURES = frozenset(get_args(ErrorCode)) - {"context_too_long", "refused", "bad_request"}
"""Codes of judgments that failed because the model could not be asked, whatever the example."""

OUTAGES: frozenset[str] = frozenset({"unreachable", "unauthorized", "model_not_found", "rate_limited"})
"""Those that have nothing to do with what was asked: if all judgments asked for at once fail so, nobody is there."""

DOWN_AFTER = 6
"""Judgments in a row that fail with `MODEL_FAILURES` before the endpoint counts as dead."""


class Bench(Protocol):
    """Where an evolution has examples judged."""

    @property
    def spent(self) -> Spent:
        """What was spent so far."""

    @property
    def noisy(self) -> bool:
        """Whether another look at the same question may give another answer."""

    def judge(self, library: Library, examples: Sequence[Example], *, again: bool = False) -> list[Outcome]:
        """Judge examples.

        Args:
            library: What the judge knows.
            examples: Labelled examples.
            again: Count those that were judged before under the same context once more. For the paper's loop.

        Raises:
            Stopped: If somebody asked for an end.
            Exhausted: If the budget does not allow it.
            Paused: If the judge gives no answers, or they could not be saved.
        """

    def fresh(self, library: Library, examples: Sequence[Example]) -> list[Outcome]:
        """Judge examples once more, with other luck. Only for noisy judges; raises the same."""

    def affected(self, before: Library, after: Library, examples: Sequence[Example]) -> tuple[Example, ...]:
        """Find the examples whose context differs between two Libraries."""

    @property
    def calls_tools(self) -> bool:
        """Whether the judge calls Tools, so that one can make a difference."""

    def rehearse(self, tool: Entry, examples: Sequence[Example]) -> list[Observation]:
        """Make a prompted Tool's call on examples; nothing where there is no model to make it. Raises the same."""


def may_fire(entry: Entry, instruction: str, router: bool) -> bool:
    """Whether an entry may be consulted.

    Args:
        entry: The entry.
        instruction: What was asked for.
        router: Whether a model decides on entries without triggers. What it would say is not known here.
    """
    if router and not entry.triggers:
        return True
    return fires(entry, instruction) is not None


def affected(
    before: Library, after: Library, examples: Iterable[Example], router: bool = False, tools: bool = True
) -> tuple[Example, ...]:
    """Find the examples whose context differs between two Libraries.

    Because every entry is routed on its own, these are the ones on which the old or the new version of a changed
    entry fires: the same as those whose `Route.context_id` differs, without routing everything else.

    Args:
        before: One Library.
        after: Another.
        examples: Where to look.
        router: Whether a model decides on entries without triggers.
        tools: Whether the judge calls Tools. To one that does not, they are no part of the context.
    """
    old = {entry.name: entry for entry in before.entries}
    new = {entry.name: entry for entry in after.entries}
    changed: list[Entry] = []
    for name in sorted({*old, *new}):
        versions = [library[name] for library in (old, new) if name in library]
        if len({entry.entry_id for entry in versions}) + (len(versions) == 1) > 1:
            changed += [each for each in versions if tools or each.kind == "skill"]
    return tuple(
        example for example in examples if any(may_fire(each, example.instruction, router) for each in changed)
    )


def question_key(library: Library, example: Example, router: bool = False) -> str:
    """Name what a run asks about an example with a Library; the ledger's id of its judgment."""
    entries = (*library.skills, *library.tools)
    context = [each.entry_id for each in entries if may_fire(each, example.instruction, router)]
    return f"{content_id(context)[:24]}/{example.id}"


@dataclass
class JudgeBench:
    """A real judge. See `Bench`.

    Args:
        judge_: Who judges.
        limits: The budget.
        stop: Whether somebody asked for an end.
        record: Takes one line for every judgment, for the run's ledger.
        concurrency: Examples under way at once.
        disks: Folders whose disks must not fill up.
        meter: Counts judgments, those that are remembered included.
    """

    judge_: Judge
    limits: Limits = UNLIMITED
    stop: StopRequest = field(default_factory=StopRequest)
    record: Callable[[dict[str, Any]], None] = lambda line: None
    concurrency: int = 8
    disks: tuple[Path, ...] = ()
    meter: Meter = field(default_factory=Meter)
    spent: Spent = NOTHING
    step: int = 0
    """Step of the run that judgments are recorded under."""
    counted: set[str] = field(default_factory=set)
    """Keys of judgments that count as spent already."""
    _known: dict[str, Outcome] = field(default_factory=dict)
    _down: int = 0
    _clock: float = field(default_factory=time.monotonic)

    @property
    def noisy(self) -> bool:
        """Whether another look at the same question may give another answer."""
        return self.judge_.with_samples(1) is not self.judge_

    def judge(self, library: Library, examples: Sequence[Example], *, again: bool = False) -> list[Outcome]:
        """Judge examples; see `Bench.judge`."""
        keys = {example.id: self.key(library, example) for example in examples}
        due = [example for example in examples if again or keys[example.id] not in self._known]
        cost = sum(again or keys[example.id] not in self.counted for example in due)
        if len(due) < len(examples):
            self.meter.step(len(examples) - len(due))
        found = {outcome.example.id: outcome for outcome in self._ask(self.judge_, library, due, keys, cost)}
        for name, outcome in found.items():
            if outcome.judged or _silent(outcome.judgment):
                self._known[keys[name]] = outcome
        return [found.get(example.id) or self._known[keys[example.id]] for example in examples]

    def fresh(self, library: Library, examples: Sequence[Example]) -> list[Outcome]:
        """Judge examples once more, with other luck; see `Bench.fresh`."""
        return self.ask(self.judge_.with_samples(1), "again-", library, examples)

    def affected(self, before: Library, after: Library, examples: Sequence[Example]) -> tuple[Example, ...]:
        """Find the examples whose context differs between two Libraries."""
        return affected(before, after, examples, self._router, self.calls_tools)

    @property
    def calls_tools(self) -> bool:
        """Whether the judge calls Tools, so that one can make a difference."""
        return self.judge_.calls_tools

    @property
    def _router(self) -> bool:
        """Whether a model decides on entries without triggers."""
        return self.judge_.router_id is not None

    def rehearse(self, tool: Entry, examples: Sequence[Example]) -> list[Observation]:
        """Make a prompted Tool's call on examples; see `Bench.rehearse`. Each counts as a judgment does."""
        if not self.calls_tools or not examples:
            return []
        keys = {example.id: f"tool-{tool.entry_id[:24]}/{example.id}" for example in examples}
        cost = sum(key not in self.counted for key in keys.values())
        self.check(cost)
        seen = run_to_end(self.judge_.try_tool(tool, examples))
        for each in seen:
            self.spent = replace(self.spent, judge=self.spent.judge + each.usage)
            line = {"id": keys[each.example], "example": each.example, "step": self.step, "tool": tool.name}
            reason = f"{each.lost}: {each.problem}" if each.lost else each.problem or None
            self.record({**line, "preference": None, "credit": 0.0, "reason": reason, **usage_json(each.usage)})
        self.spent = replace(self.spent, judgments=self.spent.judgments + cost)
        self.counted.update(keys.values())
        self.tick()
        if all(each.lost in MODEL_FAILURES for each in seen):
            self._pause(Failure(seen[-1].lost, seen[-1].problem), len(seen))
        return seen

    def key(self, library: Library, example: Example) -> str:
        """Name what is asked about an example by all that can change the answer and changes within a run."""
        return question_key(library, example, self._router)

    @contextmanager
    def outside_budget(self) -> Iterator[None]:
        """While this lasts, judgments are neither held against the budget nor counted as the search's."""
        limits, judgments = self.limits, self.spent.judgments
        self.limits = UNLIMITED
        try:
            yield
        finally:
            self.limits = limits
            self.spent = replace(self.spent, judgments=judgments)

    def ask(self, judge: Judge, mark: str, library: Library, examples: Sequence[Example]) -> list[Outcome]:
        """Have examples judged by another judge, at this bench's expense.

        Args:
            judge: Who judges.
            mark: Tells its judgments from others' in the ledger.
            library: What it knows.
            examples: Labelled examples.

        Raises:
            Stopped, Exhausted, Paused: As `Bench.judge`.
        """
        keys = {example.id: mark + self.key(library, example) for example in examples}
        cost = sum(key not in self.counted for key in keys.values())
        return self._ask(judge, library, examples, keys, cost)

    def tick(self) -> None:
        """Bring the wall time up to date."""
        now = time.monotonic()
        self.spent = replace(self.spent, seconds=self.spent.seconds + now - self._clock)
        self._clock = now

    def check(self, cost: int = 0) -> None:
        """Make sure that judging may go on.

        Args:
            cost: Judgments that are about to be made and are not remembered.

        Raises:
            Stopped: If somebody asked for an end.
            Exhausted: If the budget does not allow it.
            Paused: If the disk is nearly full.
        """
        self.tick()
        self.stop.check()
        most = self.limits.budget.judgments
        reason = self.limits.exceeded(self.spent) if cost else None
        if reason is None and most is not None and self.spent.judgments + cost > most:
            reason = f"{OVER_BUDGET} of {most} judgments does not cover the next {cost}"
        if reason is not None:
            raise Exhausted(reason)
        check_disk(self.disks)

    def _ask(
        self, judge: Judge, library: Library, examples: Sequence[Example], keys: dict[str, str], cost: int
    ) -> list[Outcome]:
        if not examples:
            return []
        self.check(cost)

        def keep(example: Example, judgment: Judgment) -> None:
            self._keep(keys[example.id], example, judgment, cost > 0)

        judged = evaluate(
            judge,
            library,
            examples,
            concurrency=self.concurrency,
            on_judgment=keep,
            should_stop=lambda: self.stop() or self._down >= DOWN_AFTER,
        )
        self.spent = replace(self.spent, judgments=self.spent.judgments + cost)
        self.counted.update(keys.values())
        self.tick()
        codes = {judgment.failure.code if judgment.failure else "" for _, judgment in judged}
        if self._down >= DOWN_AFTER or (codes and codes <= OUTAGES):
            failure, count, self._down = judged[-1][1].failure, self._down, 0
            assert failure is not None
            self._pause(failure, count or len(judged))
        if len(judged) < len(examples):
            raise Stopped
        return [Outcome(example, judgment, credit(example, judgment)) for example, judgment in judged]

    def _keep(self, key: str, example: Example, judgment: Judgment, costs: bool) -> None:
        failure = judgment.failure
        self._down = self._down + 1 if failure is not None and failure.code in MODEL_FAILURES else 0
        self.spent = replace(self.spent, judge=self.spent.judge + judgment.usage)
        if costs or judgment.usage.calls:  # what a resumed run brings back is in the ledger already
            line = {**result_line(judgment), "id": key, "example": example.id, "step": self.step}
            self.record({**line, "credit": credit(example, judgment)})
        self.meter.step()

    def _pause(self, failure: Failure, count: int) -> None:
        raise Paused(
            f"The judge {self.judge_.name} gives no answers: the last {count} requests failed ({failure.code}). "
            f"{failure.message}",
            next_step="Bring the endpoint back (rh doctor), then give the same command again.",
            kind="endpoint",
        )


def _silent(judgment: Judgment) -> bool:
    return judgment.failure is not None and judgment.failure.code in LIBRARY_FAILURES
