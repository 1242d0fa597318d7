"""The run of an evolution: splits the data, judges, searches, compares on held-out examples, reports, and resumes."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rewardharness.codec import to_json
from rewardharness.errors import HarnessError, InputError
from rewardharness.evolution import events
from rewardharness.evolution.checkpoint import CHAMPION, CHECKPOINT, TRIED, Checkpoints
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.events import Concluding, Decided, Event, Finished, Judged, read_events
from rewardharness.evolution.held_out import Score, evaluate_held_out
from rewardharness.evolution.plan import EvolutionPlan, evaluate_regression_set
from rewardharness.evolution.progress import PROGRESS, Exhausted, Meter, RunProgress, progress_writer
from rewardharness.evolution.proposal import Replies
from rewardharness.evolution.report import REPORT, EvolutionReport, build_report, read_report
from rewardharness.evolution.report_page import PAGE, headline, report_page
from rewardharness.evolution.schedules import Schedule
from rewardharness.evolution.state import COVERAGE, State, begin, credit_of
from rewardharness.evolution.steps import Run
from rewardharness.files import read_jsonl, write_json, write_text
from rewardharness.judging.evaluate import Executor
from rewardharness.measure.table import known_measures
from rewardharness.runs.job import RunPaused, Session, Stopped
from rewardharness.runs.records import Recording
from rewardharness.runs.spending import NOTHING, OVER_BUDGET, SpendingLimits, ledger_usage
from rewardharness.runs.store import MANIFEST, RunFolder, check_manifest
from rewardharness.schema import Example, Json
from rewardharness.tracking.run import RunTracking, known_numbers, share_numbers, spending_numbers


def evolve(
    plan: EvolutionPlan,
    folder: Path,
    session: Session | None = None,
    *,
    disks: Sequence[Path] = (),
    record: Recording | None = None,
    executor: Executor | None = None,
) -> EvolutionReport:
    """Evolve a Library in a run folder, or resume the run of the folder.

    Args:
        plan: The plan of the run.
        folder: The run folder; created if missing.
        session: Receives events and progress, and may stop the run or start it over.
        disks: Further folders that are written to, such as that of the cache.
        record: The record of the run; see `records.record_run`.
        executor: What judges; None for this process.

    Returns:
        The report, which is also written to `report.json`.

    Raises:
        InputError: If there are too few labeled examples, or the budget does not cover the first judgments.
        RunError: If the folder holds another run, or another process runs it.
        RunPaused: If an error paused it. The same call resumes it.
        OSError: If something could not be saved. The same call resumes it.
        Stopped: If a stop was requested. The same call resumes it.
    """
    session = session or Session()
    if session.restart or not (folder / CHECKPOINT).exists():
        plan.check_budget()
    manifest = {**plan.manifest, "started": datetime.now(UTC).isoformat(timespec="seconds")}
    with RunFolder(folder, manifest, restart=session.restart, record=record, stop=session.stop) as run_folder:
        work = _Work(plan, run_folder, session, (folder, *disks), executor)
        try:
            with work.meter.beating():
                return work.run()
        except (Stopped, RunPaused, OSError) as error:
            work.pause(error)
            raise
        finally:
            (folder / PROGRESS).unlink(missing_ok=True)


def finished_report(plan: EvolutionPlan, folder: Path) -> EvolutionReport | None:
    """Return the report of a finished run; None if `evolve` has something left to do.

    Raises:
        RunError: If the folder holds another run.
    """
    if not (folder / MANIFEST).exists():
        return None
    check_manifest(folder, plan.manifest)
    report = _last_report(folder)
    return None if report is None or _can_continue(plan.limits, Checkpoints(folder), report) else report


def _last_report(folder: Path) -> EvolutionReport | None:
    """Return the report of a finished run; None if it is out of date or cannot be read."""
    written = events.read_events(folder) if Checkpoints(folder).ending else []
    if not written or not isinstance(written[-1], events.Finished):
        return None
    with suppress(HarnessError):
        return read_report(folder)
    return None


def _can_continue(limits: SpendingLimits, checkpoints: Checkpoints, report: EvolutionReport | None) -> bool:
    """Return whether a search that its budget ended can continue, because the budget was changed."""
    budget = report.spent.budget if report else None
    ended = checkpoints.ending.startswith(OVER_BUDGET)
    return ended and budget != limits.budget and limits.exceeded(checkpoints.spent) is None


def search(run: Run, schedule: Schedule, state: State, save: Callable[[State], None]) -> State:
    """Search from a state until the schedule or the budget ends the search.

    Args:
        run: The judge, the Orchestrator and the training examples.
        schedule: The order of the search.
        state: The first state.
        save: Called with the state after every step; a killed run resumes from the last one.

    Returns:
        The last state, with the reason in `ending`.

    Raises:
        Stopped: If a stop was requested.
        RunPaused: After an error that a person must resolve.
    """
    while not state.ending:
        try:
            state = schedule.advance(run, state)
        except Exhausted as end:
            state = replace(state, ending=str(end))
        state = replace(state, step=state.step + 1)
        save(state)
    return state


class _Work:
    """The work of one process on a run."""

    def __init__(
        self,
        plan: EvolutionPlan,
        folder: RunFolder,
        session: Session,
        disks: tuple[Path, ...],
        executor: Executor | None,
    ) -> None:
        self.plan, self.folder, self.session = plan, folder, session
        self.training, self.held_out = plan.parts
        self.checkpoints = Checkpoints(folder.path)
        step, spent, replies = self.checkpoints.step or 0, self.checkpoints.spent, Replies(folder.path)
        lines = [line for _, line in read_jsonl(folder.results_file)]
        # Both files are ahead of the checkpoint, unless a user removed them.
        judged, self._asked_before = (
            max(usages, key=lambda usage: usage.calls)
            for usages in ((ledger_usage(lines), spent.judge), (replies.before, spent.orchestrator))
        )
        self.write_progress = progress_writer(folder.path / PROGRESS)
        self.meter = Meter(self.report_progress, plan.estimate.work)
        spent = replace(spent, judge=judged, orchestrator=self._asked_before)
        counted = {line["id"] for line in lines if line["step"] < step}
        recorded = {line["id"] for line in lines if line["step"] >= step and not line.get("failure")}
        options = (plan.limits, session.stop, folder.append, plan.concurrency, disks, executor, self.meter)
        self.evaluator = Evaluator(plan.judge, *options, spent, step, counted, recorded)
        data = f"{plan.dataset.name}: {len(self.training)} examples that edits were chosen on; expect less on others"
        judge = f"{plan.judge.name}, {plan.judge.protocol}"
        setting = {"data": data, "data_digest": plan.dataset.digest, "judge": judge}
        measures = known_measures(plan.dataset.task.candidate)
        workers = min(plan.concurrency, os.cpu_count() or 1)
        known = (self.observe, measures, plan.seed, self.emit, setting, replies, self.meter.subphase, workers)
        self.steps = Run(self.evaluator, plan.orchestrator, self.training, *known)

    def emit(self, event: events.Event) -> None:
        """Write an event, then pass it on."""
        events.write_event(self.folder.path, event)
        self.session.on_event(event)

    def report_progress(self, progress: RunProgress) -> None:
        """Write the progress, then pass it on."""
        self.write_progress(progress)
        self.session.on_progress(progress)

    def observe(self, example: Example) -> Mapping[str, Mapping[str, float]]:
        """Return the grades of the measures; counted as progress, because measuring is slow.

        Raises:
            Stopped: If a stop was requested.
        """
        self.session.stop.check()
        grades = self.plan.observe(example)
        self.meter.step(phase="proposals")
        return grades

    def pause(self, error: Stopped | RunPaused | OSError) -> None:
        """Emit why the run is paused, if the disk is not full."""
        reason = "stopped", "A stop was requested.", "The same command resumes the run."
        if isinstance(error, RunPaused):
            reason = error.kind, error.message, error.next_step
        elif isinstance(error, OSError):
            reason = "disk", f"Something could not be saved: {error}.", "Free space, then give the same command."
        with suppress(OSError):
            self.emit(events.Paused(*reason, step=self.evaluator.step))

    def run(self) -> EvolutionReport:
        """Run or resume it."""
        state = None
        if self.folder.resumed:
            report = _last_report(self.folder.path)
            reopened = _can_continue(self.plan.limits, self.checkpoints, report)
            if report is not None and not reopened:
                return report
            self.meter.begin("pool", self.plan.estimate.begin)
            with self.evaluator.outside_budget():
                state = self.checkpoints.load(self.training, self.evaluator)
            if state is not None and reopened:
                state = replace(state, ending="")
            self.emit(events.Resumed(step=self.evaluator.step))
        if state is None:
            state = self._begin()
        estimate = self.plan.estimate
        self.meter.begin("search", estimate.search, max(0, self.evaluator.spent.judgments - estimate.begin))
        return self._conclude(search(self.steps, self.plan.schedule, state, self.save))

    def save(self, state: State) -> None:
        """Save a state and the spending so far."""
        self.evaluator.tick()
        asked = self._asked_before + self.plan.orchestrator.spent
        self.evaluator.spent = replace(self.evaluator.spent, orchestrator=asked)
        self.checkpoints.save(state, self.evaluator.spent)
        self.evaluator.step = state.step

    def _begin(self) -> State:
        """Judge the training examples with the starting Library."""
        plan = self.plan
        if not self.folder.resumed:
            names = (plan.judge.name, plan.orchestrator.name, plan.schedule.name, plan.dataset.name)
            sizes = (len(self.training), len(self.held_out))
            self.emit(events.Started(*names, *sizes, plan.library.id, plan.seed, to_json(plan.estimate)))
        self.meter.begin("pool", plan.estimate.begin)
        try:
            outcomes = self.evaluator.judge(plan.library, plan.schedule.watched(self.training))
        except Exhausted as end:
            raise InputError(
                f"The training examples could not be judged once: {end}.",
                next_step="Increase the budget, and give the same command again.",
            ) from end
        failed = sum(credit_of(outcome) is None for outcome in outcomes)
        if failed > (1 - COVERAGE) * len(outcomes):
            codes = {outcome.judgment.failure.code for outcome in outcomes if outcome.judgment.failure}
            raise RunPaused(
                f"{failed} of {len(outcomes)} examples could not be judged ({', '.join(sorted(codes))}).",
                next_step="Find the cause (rh score shows it), then give the same command again.",
                kind="endpoint",
            )
        score = Score.of(outcomes)
        self.emit(events.Judged(score.judged, score.n - score.judged, score.accuracy))
        state = replace(begin(plan.library, outcomes), step=1)
        self.save(state)
        return state

    def _conclude(self, state: State) -> EvolutionReport:
        """Compare the Libraries on held-out examples, and write the report."""
        plan, folder = self.plan, self.folder.path
        self.emit(events.Concluding(state.ending, self.evaluator.spent, step=state.step))
        held_out = evaluate_held_out(self.evaluator, self.held_out, plan.library, state.library, plan.samples)
        regression = evaluate_regression_set(self.evaluator, plan.regression, plan.library, state.library)
        result = plan.library if held_out[0].lower or regression.lost else state.library
        self.meter.end()
        with self.evaluator.outside_budget():
            start = self.evaluator.judge(plan.library, plan.schedule.watched(self.training))
        self.save(state)
        shutil.rmtree(folder / TRIED, ignore_errors=True)
        if result.id != state.library.id:
            state.library.save(folder / TRIED)
            result.save(folder / CHAMPION)
        report = build_report(plan, state, result, start, held_out, regression, self.evaluator.spent, folder)
        write_json(folder / REPORT, to_json(report))
        write_text(folder / PAGE, report_page(report))
        final, start_score, spent = report.audit.final, report.audit.start, self.evaluator.spent
        scores = (state.accuracy, final.accuracy, result.id, final, start_score, headline(report), spent)
        self.emit(events.Finished(state.ending, *scores, step=state.step))
        return report


def tracked(session: Session, tracking: RunTracking, plan: EvolutionPlan, folder: Path, config: Any = None) -> Session:
    """Return a session that also passes the numbers of a run on to its trackers.

    Args:
        session: The session, whose functions are called first.
        tracking: The tracking of the run; it begins with the first event, when the run folder is locked.
        plan: The plan of the run.
        folder: Its run folder.
        config: The configuration of the job; None for a run of Python objects.
    """
    if not tracking.active:
        return session
    decided: list[Decided] = []

    def on_event(event: Event) -> None:
        session.on_event(event)
        new = [event]
        if not tracking.begun:
            tracking.begin(folder, plan.manifest, config)
            new = read_events(folder)  # the file has this event already
        decided.extend(item for item in new if isinstance(item, Decided))
        if numbers := _numbers(event):
            counts = {"evolve/tested": len(decided), "evolve/accepted": sum(item.accepted for item in decided)}
            tracking.log({**numbers, **counts}, event.step)

    def on_progress(progress: RunProgress) -> None:
        session.on_progress(progress)
        tracking.progress({f"progress/{progress.phase}": progress.done / progress.total if progress.total else 1.0})

    return replace(session, on_event=on_event, on_progress=on_progress)


def _numbers(event: Event) -> Json:
    """Return the numbers of an event; empty if it has none."""
    match event:
        case Judged():
            done = event.judged + event.failed
            coverage = {"progress/coverage": event.judged / done} if done else {}
            accuracy = {} if event.accuracy is None else {"train/accuracy": event.accuracy}
            return {**accuracy, **coverage, "progress/failures": event.failed}
        case Decided():
            net = event.evidence.fixes - event.evidence.breaks
            numbers = {"train/accuracy": event.accuracy, "evolve/net_gain": net, "evolve/version": event.version}
            return {**known_numbers(numbers), **spending_numbers(to_json(event.spent))}
        case Concluding() | Finished() if event.spent != NOTHING:
            return spending_numbers(to_json(event.spent))
    return {}


def evolution_numbers(report: EvolutionReport) -> dict[str, float]:
    """Return the result of a run."""
    held_out, train = report.audit, report.pool
    compared = held_out.final_against_start
    scores = {"held_out/before": held_out.start, "held_out/after": held_out.final}
    scores |= {"train/before": train.start, "train/after": train.final}
    numbers = known_numbers({"held_out/p_value": compared.p}) | share_numbers("held_out/gain", vars(compared), "gain")
    for name, score in scores.items():
        numbers |= share_numbers(name, vars(score), "accuracy")
    return numbers
