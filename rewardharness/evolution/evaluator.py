"""The judge of an evolution: judges nothing twice, counts what is spent, and pauses the run after errors."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

from rewardharness.evolution.progress import Exhausted, Meter, check_disk
from rewardharness.evolution.proposal import Outcome
from rewardharness.files import content_id
from rewardharness.judging.ensemble import judges_of
from rewardharness.judging.evaluate import Executor, evaluate, run_to_end
from rewardharness.judging.judge import Judge
from rewardharness.judging.report import credit
from rewardharness.judging.router import fires
from rewardharness.judging.subagent import model_judge, with_samples
from rewardharness.judging.tools import Observation
from rewardharness.judgments import result_line
from rewardharness.library.entry import Entry
from rewardharness.library.store import Library
from rewardharness.models.base import ErrorCode
from rewardharness.runs.job import RunPaused, Stopped, StopRequest
from rewardharness.runs.spending import NOTHING, OVER_BUDGET, UNLIMITED, SpendingLimits, Spent, usage_json
from rewardharness.schema import Example, Failure, Judgment

MODEL_FAILURES = frozenset(get_args(ErrorCode)) - {"context_too_long", "refused", "bad_request"}
"""Codes of judgments that failed because the model gave no answer, whatever the example."""

OUTAGES: frozenset[str] = frozenset({"unreachable", "unauthorized", "model_not_found", "wrong_address", "rate_limited"})
"""Codes that do not depend on the question: if all judgments of a batch fail so, the endpoint is down."""

DOWN_AFTER = 6
"""Judgments in a row that fail with `MODEL_FAILURES` before the endpoint counts as down."""


def may_fire(entry: Entry, instruction: str, router: bool) -> bool:
    """Return whether an entry may be consulted.

    Args:
        entry: The entry.
        instruction: The instruction.
        router: Whether a model decides on entries without triggers; its decision is not known here.
    """
    return (router and not entry.triggers) or fires(entry, instruction) is not None


def affected(
    before: Library, after: Library, examples: Iterable[Example], router: bool = False, tools: bool = True
) -> tuple[Example, ...]:
    """Find the examples whose context differs between two Libraries.

    Every entry is routed on its own, so these are the examples on which the old or the new version of a changed entry
    fires: the same as those whose `Route.context_id` differs, without routing everything else.

    Args:
        before: One Library.
        after: Another Library.
        examples: Examples to search.
        router: Whether a model decides on entries without triggers.
        tools: Whether the judge calls Tools; otherwise they are not part of the context.
    """
    old, new = ({(entry.name, entry.entry_id): entry for entry in library.entries} for library in (before, after))
    versions = ({**old, **new}[key] for key in old.keys() ^ new.keys())
    changed = [entry for entry in versions if tools or entry.kind == "skill"]
    return tuple(one for one in examples if any(may_fire(entry, one.instruction, router) for entry in changed))


def question_key(library: Library, example: Example, router: bool = False) -> str:
    """Return the id of the judgment of an example with a Library in the results file."""
    entries = (*library.skills, *library.tools)
    context = [entry.entry_id for entry in entries if may_fire(entry, example.instruction, router)]
    return f"{content_id(context)[:24]}/{example.id}"


@dataclass
class Evaluator:
    """Judges examples for a run.

    Args:
        base_judge: The judge.
        limits: The budget.
        stop: Whether a stop was requested.
        record: Called with one line per judgment, for the results file of the run.
        concurrency: Examples judged at the same time.
        disks: Folders whose disks must not fill up.
        executor: What judges; None for this process.
        meter: Counts judgments, cached ones included.
    """

    base_judge: Judge
    limits: SpendingLimits = UNLIMITED
    stop: StopRequest = field(default_factory=StopRequest)
    record: Callable[[dict[str, Any]], None] = lambda line: None
    concurrency: int = 8
    disks: tuple[Path, ...] = ()
    executor: Executor | None = None
    meter: Meter = field(default_factory=Meter)
    spent: Spent = NOTHING
    step: int = 0
    """Step of the run that judgments are recorded with."""
    counted: set[str] = field(default_factory=set)
    """Keys of judgments that are part of `spent`."""
    recorded: set[str] = field(default_factory=set)
    """Keys of judgments that the results file has from a step that was killed; each is recorded once."""
    _cache: dict[str, Outcome] = field(default_factory=dict)
    _failed_in_a_row: int = 0
    _clock: float = field(default_factory=time.monotonic)

    @property
    def noisy(self) -> bool:
        """Whether the same question may get another answer."""
        return with_samples(self.base_judge, 1) is not self.base_judge

    @property
    def calls_tools(self) -> bool:
        """Whether the judge calls Tools."""
        return self.base_judge.traits.calls_tools

    def judge(self, library: Library, examples: Sequence[Example], *, again: bool = False) -> list[Outcome]:
        """Judge examples.

        Args:
            library: The Library.
            examples: Labeled examples.
            again: Count those that were judged before in the same context once more, as the paper's loop does.

        Raises:
            Stopped: If a stop was requested.
            Exhausted: If the budget does not allow it.
            RunPaused: If the judge gives no answers, or they could not be saved.
        """
        keys = self._keys(library, examples)
        due = [example for example in examples if again or keys[example.id] not in self._cache]
        cost = sum(again or keys[example.id] not in self.counted for example in due)
        if len(due) < len(examples):
            self.meter.step(len(examples) - len(due))
        judged = {outcome.example.id: outcome for outcome in self._judge_each(library, due, keys, cost)}
        kept = (outcome for outcome in judged.values() if outcome.judged or outcome.unsupported)
        self._cache |= {keys[outcome.example.id]: outcome for outcome in kept}
        return [judged.get(example.id) or self._cache[keys[example.id]] for example in examples]

    def judge_with(self, judge: Judge, prefix: str, library: Library, examples: Sequence[Example]) -> list[Outcome]:
        """Judge examples with another judge on the same budget; raises as `judge`.

        Args:
            judge: The judge.
            prefix: Prefix of the ids of its judgments in the results file.
            library: The Library.
            examples: Labeled examples.
        """
        keys = self._keys(library, examples, prefix)
        return self._judge(judge, library, examples, keys, self._new(keys))

    def affected(self, before: Library, after: Library, examples: Sequence[Example]) -> tuple[Example, ...]:
        """Find the examples whose context differs between two Libraries."""
        return affected(before, after, examples, self.base_judge.traits.router_id is not None, self.calls_tools)

    def rehearse(self, tool: Entry, examples: Sequence[Example]) -> list[Observation]:
        """Call a prompted Tool on examples; each call counts as a judgment. Raises as `judge`.

        Returns:
            The observations; none if the judge does not call Tools.
        """
        judge = model_judge(self.base_judge)
        if judge is None or not self.calls_tools or not examples:
            return []
        keys = {example.id: f"tool-{tool.entry_id[:24]}/{example.id}" for example in examples}
        cost = self._new(keys)
        self.check(cost)
        observations = run_to_end(judge.try_tool(tool, examples))
        for item in observations:
            self.spent = replace(self.spent, judge=self.spent.judge + item.usage)
            line = {"id": keys[item.example], "example": item.example, "step": self.step, "tool": tool.name}
            reason = f"{item.lost}: {item.problem}" if item.lost else item.problem or None
            self.record({**line, "preference": None, "credit": 0.0, "reason": reason, **usage_json(item.usage)})
        self._count(keys, cost)
        if all(item.lost in MODEL_FAILURES for item in observations):
            self._pause(Failure(observations[-1].lost, observations[-1].problem), len(observations))
        return observations

    @contextmanager
    def outside_budget(self) -> Iterator[None]:
        """Within this context, judgments are neither limited by the budget nor counted as those of the search."""
        limits, judgments = self.limits, self.spent.judgments
        self.limits = UNLIMITED
        try:
            yield
        finally:
            self.limits = limits
            self.spent = replace(self.spent, judgments=judgments)

    def tick(self) -> None:
        """Update the wall time."""
        now = time.monotonic()
        self.spent = replace(self.spent, seconds=self.spent.seconds + now - self._clock)
        self._clock = now

    def check(self, cost: int = 0) -> None:
        """Check that more may be judged.

        Args:
            cost: Judgments that are about to be made and are not cached.

        Raises:
            Stopped: If a stop was requested.
            Exhausted: If the budget does not allow it.
            RunPaused: If the disk is nearly full.
        """
        self.tick()
        self.stop.check()
        limit = self.limits.budget.judgments
        reason = self.limits.exceeded(self.spent) if cost else None
        if reason is None and limit is not None and self.spent.judgments + cost > limit:
            reason = f"{OVER_BUDGET} of {limit} judgments does not cover the next {cost}"
        if reason is not None:
            raise Exhausted(reason)
        check_disk(self.disks)

    def _keys(self, library: Library, examples: Sequence[Example], prefix: str = "") -> dict[str, str]:
        """Return the keys of questions: everything that can change an answer and changes within a run."""
        router = self.base_judge.traits.router_id is not None
        return {example.id: prefix + question_key(library, example, router) for example in examples}

    def _new(self, keys: dict[str, str]) -> int:
        return sum(key not in self.counted for key in keys.values())

    def _count(self, keys: dict[str, str], cost: int) -> None:
        self.spent = replace(self.spent, judgments=self.spent.judgments + cost)
        self.counted.update(keys.values())
        self.tick()

    def _judge_each(
        self, library: Library, examples: Sequence[Example], keys: dict[str, str], cost: int
    ) -> list[Outcome]:
        """Judge examples with the judge, or with each of several; budget and progress count these as one judgment."""
        first, *others = judges_of(self.base_judge)
        outcomes = [self._judge(first, library, examples, keys, cost)]
        for number, judge in enumerate(others, 2):
            meter, self.meter = self.meter, Meter()
            try:
                with self.outside_budget():
                    outcomes.append(self.judge_with(judge, f"judge{number}-", library, examples))
            finally:
                self.meter = meter
        return [self._pooled(group) for group in zip(*outcomes, strict=True)] if others else outcomes[0]

    def _pooled(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the outcomes of several judges on an example as one, with the judgment that agrees least.

        It has the mean credit, so an example counts once however many judges there are. What one of the judges cannot
        judge is not judged.
        """
        if missing := [outcome for outcome in outcomes if not outcome.judged]:
            return min(missing, key=lambda outcome: outcome.unsupported)
        judges = enumerate(judges_of(self.base_judge), 1)
        credits = {
            f"{place}. {one.name}": outcome.credit for (place, one), outcome in zip(judges, outcomes, strict=True)
        }
        least = min(outcomes, key=lambda outcome: outcome.credit)
        judgment = replace(least.judgment, judge=self.base_judge.name, protocol=self.base_judge.protocol)
        return Outcome(least.example, judgment, fmean(credits.values()), credits)

    def _judge(
        self, judge: Judge, library: Library, examples: Sequence[Example], keys: dict[str, str], cost: int
    ) -> list[Outcome]:
        if not examples:
            return []
        self.check(cost)
        judged = evaluate(
            judge,
            library,
            examples,
            concurrency=self.concurrency,
            on_judgment=lambda example, judgment: self._record(keys[example.id], example, judgment, cost > 0),
            should_stop=lambda: self.stop() or self._failed_in_a_row >= DOWN_AFTER,
            executor=self.executor,
        )
        self._count(keys, cost)
        codes = {judgment.failure.code if judgment.failure else "" for _, judgment in judged}
        if self._failed_in_a_row >= DOWN_AFTER or (codes and codes <= OUTAGES):
            failure = [judgment.failure for _, judgment in judged if judgment.failure is not None][-1]
            count, self._failed_in_a_row = self._failed_in_a_row, 0
            self._pause(failure, count or len(judged))
        if len(judged) < len(examples):
            raise Stopped
        return [Outcome(example, judgment, credit(example, judgment)) for example, judgment in judged]

    def _record(self, key: str, example: Example, judgment: Judgment, costs: bool) -> None:
        failure = judgment.failure
        down = failure is not None and failure.code in MODEL_FAILURES
        self._failed_in_a_row = self._failed_in_a_row + 1 if down else 0
        self.spent = replace(self.spent, judge=self.spent.judge + judgment.usage)
        known = key in self.recorded and not judgment.usage.calls
        self.recorded.discard(key)
        if not known and (costs or judgment.usage.calls):  # a resumed run has recorded its cached judgments already
            line = {**result_line(judgment), "id": key, "example": example.id, "step": self.step}
            self.record({**line, "credit": credit(example, judgment)})
        self.meter.step()

    def _pause(self, failure: Failure, count: int) -> None:
        raise RunPaused(
            f"The judge {self.base_judge.name} gives no answers: the last {count} requests failed ({failure.code}). "
            f"{failure.message}",
            next_step="Restore the endpoint (rh doctor), then give the same command again.",
            kind="endpoint",
        )
