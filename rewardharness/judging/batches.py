"""Judging of a known number of examples into a run folder, and `JudgingJob`, what the jobs share that do so.

Judgments of earlier sessions are kept, failures that `runs.results.ASKED_AGAIN` names are judged again. A stop request
or the budget ends a session; the same call resumes the run.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from rewardharness.files import read_jsonl
from rewardharness.judging.evaluate import Executor, judge_each, run_to_end
from rewardharness.judging.judge import Judge
from rewardharness.judgments import result_line
from rewardharness.library.store import Library
from rewardharness.models.base import ModelError
from rewardharness.runs.job import Progress, RunPaused, Session, Stopped, StopRequest, default_folder
from rewardharness.runs.records import record_run
from rewardharness.runs.results import Results, is_due
from rewardharness.runs.spending import UNLIMITED, Account, Cost, SpendingLimits, ledger_usage
from rewardharness.runs.store import RunFolder, results_of
from rewardharness.schema import Example, Failure, Json, Judgment, Usage
from rewardharness.settings import Settings
from rewardharness.tracking.run import RunTracking, track_run

K = TypeVar("K")
R = TypeVar("R")

JUDGING = "judging"
"""Activity that is reported while a job judges."""
OUTAGE = 40
"""Examples in succession that could not be judged because the model cannot be asked, after which a run pauses."""

NOT_YET = Failure("stopped", "The run was stopped before it was judged.")
"""Failure of what an output folder lacks after a stop; see `runs.results.ASKED_AGAIN`."""
_UNASKED = frozenset({"unreachable", "unauthorized", "model_not_found", "not_public"})
"""Codes of failures that concern the model, not the example."""
_PROMPT_TOKENS = 1500
"""Usual text of a request: prompt, Library and instruction."""
_PIXELS, _PIXELS_PER_TOKEN = 2**20, 784
"""Usual size of an image, and how Qwen2.5-VL reads it."""
_REPLY_TOKENS = {"direct": 10, "logprob": 1}
_LONG_REPLY = 300
"""Usual tokens of the replies of the other protocols."""


@dataclass(frozen=True)
class Batch:
    """Examples that one judge judges with one Library."""

    judge: Judge
    library: Library
    examples: Sequence[Example]
    line: Callable[[str], Json]
    """Returns the fields of a result line that identify it, `id` among them, by the id of the example."""
    label: str = JUDGING
    """What is being done, for progress."""
    concurrency: int = 0
    """Examples judged at the same time; 0 for what suits the judge."""

    def name(self, example: Example) -> str:
        """Return the id of the result of an example."""
        return str(self.line(example.id)["id"])

    def due(self, known: Results, retry_failed: bool) -> list[Example]:
        """Return the examples that are left to judge."""
        names = ((example, self.name(example)) for example in self.examples)
        return [example for example, name in names if name not in known or is_due(known.failure(name), retry_failed)]

    def cost(self, known: Results, retry_failed: bool) -> Cost:
        """Return the expected cost of what is left to judge."""
        left = self.due(known, retry_failed)
        names = {self.name(example) for example in self.examples}
        again = sum(self.name(example) in known for example in left)
        failed = sum(bool(known.failure(name)) for name in names if name in known) - again
        return Cost(len(names), len(names) - len(left), again, failed) + expected_cost(self.judge, left, self.library)


def expected_cost(judge: Judge, examples: Iterable[Example], library: Library) -> Cost:
    """Return the expected requests and tokens of judging examples; none without a model."""
    requests = images = crops = 0
    instructions = set()
    if not judge.traits.uses_model:
        return Cost()
    from rewardharness.judging.subagent import SubAgent

    if not isinstance(judge, SubAgent):
        return Cost()
    for example in examples:
        count, units = judge.estimate_cost(example), judge.presentations(example.labels)
        requests, crops = requests + count, crops + judge.estimate_crops(example)
        images += count * len(example.sources) + sum(len(unit.labels) for unit in units)
        instructions.add(example.instruction)
    if judge.traits.router_id and any(not entry.triggers for entry in library.entries):
        requests += len(instructions)  # which entries apply is asked about each instruction
    pixels = min(judge.settings.max_pixels or _PIXELS, _PIXELS)
    tokens = requests * _PROMPT_TOKENS + images * pixels // _PIXELS_PER_TOKEN
    replies = requests * _REPLY_TOKENS.get(judge.settings.protocol, _LONG_REPLY)
    return Cost(requests=requests, input_tokens=tokens, output_tokens=replies, crops=crops)


class Outage:
    """Pauses a run that would only collect failures, because the model cannot be asked.

    Args:
        judge: Name of the judge.
        answered: Whether it has answered before. Until then, one refused key pauses the run.
    """

    def __init__(self, judge: str, *, answered: bool = False) -> None:
        self._judge, self._answered, self._failed = judge, answered, 0

    def watch(self, judgment: Judgment) -> None:
        """Count a judgment.

        Raises:
            RunPaused: If the model cannot be asked.
        """
        failure = judgment.failure
        if failure is None or failure.code not in _UNASKED:
            self._answered, self._failed = self._answered or failure is None, 0
            return
        self._failed += 1
        refused = failure.code == "unauthorized" and not self._answered
        if refused or self._failed >= OUTAGE:
            what = "gives no access" if refused else f"could not be asked about {OUTAGE} examples in succession"
            step = ModelError(failure.code, "").next_step  # type: ignore[arg-type]
            raise RunPaused(
                f"{self._judge} {what}. {failure.message.removesuffix(step).rstrip()}",
                next_step=f"{step} Then give the same command again: what was judged is kept.",
                kind="endpoint",
            )


async def judge_within(
    judge: Judge,
    library: Library,
    items: Iterable[tuple[K, Example]],
    on_judgment: Callable[[K, Example, Judgment], None],
    *,
    account: Account,
    stop: StopRequest,
    answered: bool = False,
    **options: Any,
) -> None:
    """Judge examples until the budget is spent or a stop is requested. The judge is not closed.

    Args:
        judge: The judge.
        library: Its Library.
        items: Keys and examples, read lazily.
        on_judgment: Called with the key, the example and each judgment, one at a time.
        account: What may be spent.
        stop: Ends the work when asked.
        answered: Whether the judge has answered before; see `Outage`.
        options: Further arguments of `judge_each`.

    Raises:
        RunPaused: If the model cannot be asked.
    """
    outage = Outage(judge.name, answered=answered)

    def keep(key: tuple[int, K], example: Example, judgment: Judgment) -> None:
        account.settle(str(key[0]), judgment.usage)
        on_judgment(key[1], example, judgment)
        outage.watch(judgment)

    from rewardharness.judging.subagent import count_requests

    numbered = (((number, key), example) for number, (key, example) in enumerate(items))
    going = True
    while going:
        due = account.within(numbered, lambda item: count_requests(judge, item[1]), lambda item: str(item[0][0]))
        await judge_each(judge, library, due, keep, should_stop=stop, **options)
        going = bool(account.held) and not account.reason and not stop()


def judge_batches(
    run: RunFolder,
    batches: Iterable[Batch],
    *,
    progress: Progress | None = None,
    stop: StopRequest | None = None,
    limits: SpendingLimits = UNLIMITED,
    spent: Usage = Usage(),
    retry_failed: bool = False,
    executor: Executor | None = None,
) -> Results:
    """Judge what a run folder does not hold yet.

    Args:
        run: The run folder, open.
        batches: What is judged, in order.
        progress: Called first with the number of judgments of earlier sessions, and after each judgment.
        stop: Ends the session when asked.
        limits: The budget of the run.
        spent: What the run has spent elsewhere.
        retry_failed: Judge all failed examples again.
        executor: What judges; None for this process.

    Returns:
        All results.

    Raises:
        Stopped: If a stop was requested or the budget is spent before everything is judged.
        RunPaused: If a model cannot be asked.
    """
    known, stop = run.results(), stop or StopRequest()
    report = progress or (lambda activity, done, total: None)
    batches = list(batches)
    due = [(batch, batch.due(known, retry_failed)) for batch in batches]
    total = sum(len(batch.examples) for batch in batches)
    done = total - sum(len(left) for _, left in due)
    lines = (line for _, line in read_jsonl(run.results_file)) if limits.budget != UNLIMITED.budget else ()
    account = Account(limits, spent + ledger_usage(lines))
    report(batches[0].label if batches else JUDGING, done, total)
    for batch, left in due:
        judge, count = batch.judge, len(left)

        def keep(key: None, example: Example, judgment: Judgment, batch: Batch = batch) -> None:
            nonlocal done, count
            done, count = done + 1, count - 1
            line = {**result_line(judgment), **batch.line(example.id)}
            known[line["id"]] = line
            run.append(line)
            report(batch.label, done, total)

        if left:
            work = judge_within(
                judge,
                batch.library,
                ((None, example) for example in left),
                keep,
                account=account,
                stop=stop,
                concurrency=batch.concurrency or judge.traits.concurrency,
                answered=any(name in known and not known.failure(name) for name in map(batch.name, batch.examples)),
                executor=executor,
            )
            run_to_end(closing(judge, work))
        if count:
            raise Stopped(account.reason)
    return known


async def closing(judge: Judge, work: Coroutine[Any, Any, None]) -> None:
    """Do some work, and close the judge."""
    try:
        await work
    finally:
        await judge.close()


JudgeBatches = Callable[[Sequence[Batch], Session], Results]


class JudgingJob(ABC, Generic[R]):
    """A job that judges a known number of examples into a run folder; see `runs.job.Job`."""

    settings: Settings
    config: Any
    chosen_folder: Path | None
    """The run folder; None for one that follows from the manifest."""

    name: ClassVar[str]
    """Name of the job type."""

    @property
    @abstractmethod
    def manifest(self) -> Json:
        """What must stay the same when a run is resumed."""

    @property
    @abstractmethod
    def batches(self) -> Sequence[Batch]:
        """What is judged."""

    @abstractmethod
    def conclude(self, results: Results) -> R:
        """Make the result of the run from its judgments."""

    def numbers(self, result: R) -> Mapping[str, float]:
        """Return the result of the run for trackers."""
        return {}

    @property
    def tracked(self) -> Json:
        """The manifest for trackers."""
        return self.manifest

    @property
    def resolved(self) -> Json:
        """Values for the record of a run that do not follow from its configuration."""
        return {}

    @cached_property
    def folder(self) -> Path:
        """The run folder; it may hold a run that is resumed."""
        return self.chosen_folder or default_folder(self.name, self.manifest, self.settings)

    @cached_property
    def limits(self) -> SpendingLimits:
        """The budget of the run, with prices."""
        limits: SpendingLimits = self.config.make_limits(self.settings) if self.config else SpendingLimits()
        return limits

    def finished(self) -> R | None:
        """See `Job.finished`."""
        return None

    def cost(self, *, restart: bool = False, retry_failed: bool = False) -> Cost:
        """Return the expected cost of what the run folder does not hold yet."""
        known = Results() if restart else results_of(self.folder)
        return sum((batch.cost(known, retry_failed) for batch in self.batches), Cost())

    def run(self, session: Session | None = None, executor: Executor | None = None) -> R:
        """See `Job.run`."""
        session = session or Session()
        with track_run(session.track, self.settings) as tracking:
            results = self.judge_all(session, executor, tracking)
            result = self.conclude(results)
            if tracking.active:
                tracking.finish(self.numbers(result))
        return result

    def judge_all(
        self, session: Session, executor: Executor | None, tracking: RunTracking, spent: Usage | None = None
    ) -> Results:
        """Judge what the run folder does not hold yet.

        Args:
            session: How the session works.
            executor: What judges; None for this process.
            tracking: The trackers of the run.
            spent: What the run has spent in another folder, of which this one is a part; None if it is none.
        """
        main = spent is None
        options: dict[str, Any] = {"restart": session.restart, "on_result": tracking.result}
        if main:
            options["stop"] = session.stop
        if main and session.arguments is not None:
            options["record"] = record_run(session.arguments, self.settings, config=self.config, **self.resolved)
        with RunFolder(self.folder, self.manifest, **options) as run:
            if main:
                known = run.results().values() if tracking.active else ()
                tracking.begin(run.path, self.tracked, self.config, known)
            self.prepare(run)
            return self.judge_in(run, session, partial(self._judge, run, executor, spent))

    def prepare(self, run: RunFolder) -> None:
        """Write what else the run folder holds, before anything is judged."""

    def judge_in(self, run: RunFolder, session: Session, judge: JudgeBatches) -> Results:
        """Judge all batches, or choose them from earlier results.

        Args:
            run: The run folder, open.
            session: How the session works.
            judge: Judges what the run folder does not hold yet of batches, and returns all results.
        """
        return judge(self.batches, session)

    def _judge(
        self,
        run: RunFolder,
        executor: Executor | None,
        spent: Usage | None,
        batches: Sequence[Batch],
        session: Session,
    ) -> Results:
        return judge_batches(
            run,
            batches,
            progress=session.progress,
            stop=session.stop,
            limits=self.limits,
            spent=spent or Usage(),
            retry_failed=session.retry_failed,
            executor=executor,
        )
