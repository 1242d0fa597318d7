"""The loop: splits the data, judges the pool, searches, audits, reports; and goes on where a killed run stopped."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from rewardharness.errors import HarnessError, InputError
from rewardharness.evolution.audit import Score, hold_audit
from rewardharness.evolution.bench import JudgeBench
from rewardharness.evolution.checkpoint import CHAMPION, CHECKPOINT, TRIED, Checkpoints
from rewardharness.evolution.events import (
    Concluding,
    Event,
    Finished,
    Judged,
    Rested,
    Resumed,
    Started,
    read_events,
    write_event,
)
from rewardharness.evolution.observing import KNOWN_MEASURES
from rewardharness.evolution.plan import Plan
from rewardharness.evolution.progress import PROGRESS, Meter, Progress, ProgressFile
from rewardharness.evolution.regression import hold_regression
from rewardharness.evolution.replies import Replies
from rewardharness.evolution.report import REPORT, build_report, read_report
from rewardharness.evolution.report_page import PAGE, headline, report_page
from rewardharness.evolution.schedules import Schedule
from rewardharness.evolution.state import State, begin
from rewardharness.evolution.steps import Run
from rewardharness.evolution.stop import (
    OVER_BUDGET,
    STOP_FILE,
    Exhausted,
    Limits,
    Paused,
    Stopped,
    StopRequest,
    ledger_usage,
)
from rewardharness.evolution.trial import COVERAGE, worth
from rewardharness.files import read_jsonl, write_json, write_text
from rewardharness.runs.records import Recording
from rewardharness.runs.store import MANIFEST, RunFolder, check_manifest
from rewardharness.schema import Example, Json


@dataclass
class Watch:
    """Who looks on, and may ask for an end."""

    stop: StopRequest = field(default_factory=StopRequest)
    on_event: Callable[[Event], None] = lambda event: None
    """Told each event after it was written."""
    on_progress: Callable[[Progress], None] = lambda progress: None
    """Told after each judgment, and whenever a phase begins."""


def evolve(
    plan: Plan,
    folder: Path,
    watch: Watch,
    *,
    restart: bool = False,
    disks: Sequence[Path] = (),
    record: Recording | None = None,
) -> Json:
    """Evolve a Library in a run folder, or go on with the run that the folder holds.

    Args:
        plan: What the run is about.
        folder: The run folder; made when missing.
        watch: Who looks on.
        restart: Begin anew; what the folder held is put aside.
        disks: Further folders that are written to, such as that of the cache.
        record: How the run was asked for and what it runs in, for its record; see `records.record_run`.

    Returns:
        The report, as it stands in `report.json`.

    Raises:
        InputError: If there are too few labelled examples, or the budget does not cover the first judging.
        RunError: If the folder holds another run, or another process runs it.
        Paused: If trouble stopped it. The same call goes on.
        OSError: If something could not be saved. The same call goes on.
        Stopped: If somebody asked for an end. The same call goes on.
    """
    parts = plan.parts
    if restart or not (folder / CHECKPOINT).exists():
        plan.check_budget()
    started = {"started": datetime.now(UTC).isoformat(timespec="seconds")}
    with RunFolder(folder, {**plan.manifest, **started}, restart=restart, record=record) as run_folder:
        (folder / STOP_FILE).unlink(missing_ok=True)
        watch.stop.folder = folder
        sitting = _Sitting(plan, run_folder, watch, parts, (folder, *disks))
        try:
            return sitting.run()
        except Stopped:
            sitting.rest("stopped", "Somebody asked for an end.", "The same command goes on.")
            raise
        except Paused as trouble:
            sitting.rest(trouble.kind, trouble.message, trouble.next_step)
            raise
        except OSError as error:
            sitting.rest("disk", f"Something could not be saved: {error}.", "Free space, then give the same command.")
            raise
        finally:
            (folder / PROGRESS).unlink(missing_ok=True)


def finished_report(plan: Plan, folder: Path) -> Json | None:
    """The report of a run that is over, for which `evolve` has nothing left to do; None where it has.

    Raises:
        RunError: If the folder holds another run.
    """
    if not (folder / MANIFEST).exists():
        return None
    check_manifest(folder, plan.manifest)
    report = _concluded(folder)
    return None if report is None or _more_to_spend(plan.limits, Checkpoints(folder), report) else report


def _concluded(folder: Path) -> Json | None:
    """The report, when the run is finished; one that is of an earlier end, or cannot be read, is written anew."""
    events = read_events(folder) if Checkpoints(folder).ending else []
    if not events or not isinstance(events[-1], Finished):
        return None
    with suppress(HarnessError):
        return read_report(folder)
    return None


def _more_to_spend(limits: Limits, checkpoints: Checkpoints, report: Json | None) -> bool:
    """Whether a search that its budget ended may go on, because the budget is another one now."""
    known = report["spent"].get("budget") if report else None
    ended = checkpoints.ending.startswith(OVER_BUDGET)
    return ended and known != asdict(limits.budget) and limits.exceeded(checkpoints.spent) is None


def search(run: Run, schedule: Schedule, state: State, keep: Callable[[State], None]) -> State:
    """Go on from a state until the schedule or the budget ends the search.

    Args:
        run: The judge, the Orchestrator and the pool.
        schedule: The order of things.
        state: Where to go on from.
        keep: Given the state after every step. What it has kept is where a killed run goes on from.

    Returns:
        The last state, with the reason in `ending`.

    Raises:
        Stopped: If somebody asked for an end.
        Paused: If there is trouble that a person has to see to.
    """
    while not state.ending:
        try:
            state = schedule.advance(run, state)
        except Exhausted as end:
            state = replace(state, ending=str(end))
        state = replace(state, step=state.step + 1)
        keep(state)
    return state


class _Sitting:
    """One process's work on a run: from where it stands to its end, or to the next interruption."""

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        watch: Watch,
        parts: tuple[tuple[Example, ...], tuple[Example, ...]],
        disks: tuple[Path, ...],
    ) -> None:
        self.plan, self.folder, self.watch = plan, folder, watch
        self.pool, self.audit = parts
        self.checkpoints = Checkpoints(folder.path)
        step, lines = self.checkpoints.step, [line for _, line in read_jsonl(folder.results_file)]
        spent = self.checkpoints.spent
        replies = Replies(folder.path)
        # Both ledgers run ahead of the checkpoint, unless somebody has removed them.
        judged, self._asked_before = (
            max(each, known, key=lambda usage: usage.calls)
            for each, known in ((ledger_usage(lines), spent.judge), (replies.before, spent.orchestrator))
        )
        self.progress = ProgressFile(folder.path / PROGRESS)
        self.bench = JudgeBench(
            plan.judge,
            limits=plan.limits,
            stop=watch.stop,
            record=folder.append,
            concurrency=plan.concurrency,
            disks=disks,
            meter=Meter(self.tell, plan.estimate.work),
            spent=replace(spent, judge=judged, orchestrator=self._asked_before),
            step=step or 0,
            counted={line["id"] for line in lines if line["step"] < (step or 0)},
        )
        setting = {
            "data": f"{plan.dataset.name}: {len(self.pool)} examples that edits were chosen on; expect less on others",
            "data_digest": plan.dataset.digest,
            "judge": f"{plan.judge.name}, {plan.judge.protocol}",
        }
        self.steps = Run(
            self.bench,
            plan.orchestrator,
            self.pool,
            self.observe,
            KNOWN_MEASURES,
            plan.seed,
            self.emit,
            setting,
            replies,
            self.bench.meter.aside,
        )

    def emit(self, event: Event) -> None:
        """Write an event, then tell who looks on."""
        write_event(self.folder.path, event)
        self.watch.on_event(event)

    def tell(self, progress: Progress) -> None:
        """Write how far the run has come, then tell who looks on."""
        self.progress.write(progress)
        self.watch.on_progress(progress)

    def observe(self, example: Example) -> Mapping[str, Mapping[str, float]]:
        """What the measures say of an example; counted, because the first look at each takes long."""
        found = self.plan.observe(example)
        self.bench.meter.step_in("proposals")
        return found

    def rest(self, kind: str, reason: str, next_step: str) -> None:
        """Say why it goes no further. On a full disk that may not be possible any more."""
        with suppress(OSError):
            self.emit(Rested(kind, reason, next_step, step=self.bench.step))

    def run(self) -> Json:
        """Go on from where the run stands."""
        state = None
        if self.folder.resumed:
            report = _concluded(self.folder.path)
            reopened = _more_to_spend(self.plan.limits, self.checkpoints, report)
            if report is not None and not reopened:
                return report
            self.bench.meter.begin("pool", self.plan.estimate.begin)
            with self.bench.outside_budget():
                state = self.checkpoints.load(self.pool, self.bench)
            if state is not None and reopened:
                state = replace(state, ending="")
            self.emit(Resumed(step=self.bench.step))
        if state is None:
            state = self._begin()
        expected = self.plan.estimate
        self.bench.meter.begin("search", expected.search, max(0, self.bench.spent.judgments - expected.begin))
        state = search(self.steps, self.plan.schedule, state, self.keep)
        return self._conclude(state)

    def keep(self, state: State) -> None:
        """Save a state, and whatever was spent up to it."""
        self.bench.tick()
        asked = self._asked_before + self.plan.orchestrator.spent
        self.bench.spent = replace(self.bench.spent, orchestrator=asked)
        self.checkpoints.save(state, self.bench.spent)
        self.bench.step = state.step

    def _begin(self) -> State:
        """Judge the pool with the starting Library."""
        plan = self.plan
        if not self.folder.resumed:
            names = (plan.judge.name, plan.orchestrator.name, plan.schedule.name, plan.dataset.name)
            sizes = (len(self.pool), len(self.audit))
            self.emit(Started(*names, *sizes, plan.library.id, plan.seed, plan.estimate.to_json()))
        self.bench.meter.begin("pool", plan.estimate.begin)
        try:
            outcomes = self.bench.judge(plan.library, plan.schedule.watched(self.pool))
        except Exhausted as end:
            raise InputError(
                f"The pool could not be judged once: {end}.", next_step="Allow more, and give the same command again."
            ) from end
        failed = sum(worth(outcome) is None for outcome in outcomes)
        if failed > (1 - COVERAGE) * len(outcomes):
            codes = {outcome.judgment.failure.code for outcome in outcomes if outcome.judgment.failure}
            raise Paused(
                f"{failed} of {len(outcomes)} examples could not be judged ({', '.join(sorted(codes))}).",
                next_step="See why (rh score-folder shows it), then give the same command again.",
                kind="endpoint",
            )
        score = Score.of(outcomes)
        self.emit(Judged(score.judged, score.n - score.judged, score.accuracy))
        state = replace(begin(plan.library, outcomes), step=1)
        self.keep(state)
        return state

    def _conclude(self, state: State) -> Json:
        """Hold the audit, write the report."""
        plan, folder = self.plan, self.folder.path
        self.emit(Concluding(state.ending, self.bench.spent.to_json(), step=state.step))
        audit = hold_audit(self.bench, self.audit, plan.library, state.library, plan.samples)
        regression = hold_regression(self.bench, plan.regression, plan.library, state.library)
        result = plan.library if audit.lower or regression.lost else state.library
        self.bench.meter.end()
        with self.bench.outside_budget():
            start = self.bench.judge(plan.library, plan.schedule.watched(self.pool))
        self.keep(state)
        shutil.rmtree(folder / TRIED, ignore_errors=True)
        if result.id != state.library.id:
            state.library.save(folder / TRIED)
            result.save(folder / CHAMPION)
        report = build_report(plan.manifest, state, result, start, audit, self.bench.spent, plan.limits, folder)
        report["regression"] = regression.to_json()
        report["skipped_rows"] = plan.dataset.skipped_json()
        write_json(folder / REPORT, report)
        write_text(folder / PAGE, report_page(report))
        final = Score.of(audit.final)
        self.emit(
            Finished(
                state.ending,
                state.accuracy,
                final.accuracy,
                report["library"]["final_id"],
                step=state.step,
                audit=final.to_json(),
                start=Score.of(audit.start).to_json(),
                headline=headline(report),
                spent=self.bench.spent.to_json(),
            )
        )
        return report
