"""Why a run gained nothing, and what to do next: too few examples, no headroom in the measures, or noise."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rewardharness.errors import InputError
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.events import EvidenceReport
from rewardharness.evolution.gate import ALPHA, Evidence, detectable_gain, estimate_gain
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.joint.proposing import LEAST_CASES
from rewardharness.evolution.joint.step import POLICY, cross_validate, fit_data, fits, part_of
from rewardharness.evolution.plan import EvolutionPlan
from rewardharness.evolution.progress import NO_PROPOSALS, Meter, RunProgress, ended
from rewardharness.evolution.report import EvolutionReport
from rewardharness.evolution.schedules import DefaultSchedule
from rewardharness.evolution.state import State, begin, seed_of
from rewardharness.evolution.steps import Run
from rewardharness.judging.evaluate import Executor
from rewardharness.measure.table import known_measures

NEARLY_ALL = 0.95
"""Accuracy of the starting Library above which little is left to gain."""

CHANCE = 0.5
"""Accuracy of guessing on pairs."""

LEAST_AGREEMENT = 0.8
"""Agreement of people with each other below which the labels limit every judge."""


@dataclass(frozen=True)
class Cause:
    """A reason why nothing was gained."""

    title: str
    text: str
    """The numbers that it follows from, in a sentence."""
    step: str
    """What to do about it."""


def examples_for(gain: float) -> int:
    """Return how many examples show a gain of accuracy in (0, 1]; the inverse of `gate.detectable_gain`."""
    one = 10 * detectable_gain(1000) ** 2 * 1000  # the squared sum of its normal quantiles
    return math.ceil(one * 0.1 / gain**2 if gain <= 0.1 else one / gain)


def diagnose(report: EvolutionReport) -> list[Cause]:
    """Return why a run has gained nothing, the likeliest reason first; none if it shows a gain."""
    held_out, library, people = report.audit, report.library, report.people
    test = held_out.final_against_start
    if library.tried_id != library.start_id:
        gained = test.p is not None and test.p <= ALPHA and test.fixes > test.breaks
        return [] if not held_out.n or (gained and library.final_id == library.tried_id) else [_not_shown(report)]
    tests = [edit.evidence for edit in report.edits]
    causes = likely_causes(report.pool.start, tests, judge=report.run.judge, contradictions=report.contradictions)
    if people is not None and people.share < LEAST_AGREEMENT:
        text = f"People agree with each other on {people.share:.0%} of the edits (n {people.n})."
        causes.append(Cause("The labels are noisy", text, "Use only examples on which several people agree."))
    if report.ending != NO_PROPOSALS:
        causes.append(Cause("The search was short", ended(report.ending), "Raise the limit, and resume or run again."))
    if report.puzzles:
        text = f"Training examples that were judged wrong with every Library: {len(report.puzzles)}."
        causes.append(Cause("Some labels may be wrong", text, "Check them: the report and the app list them."))
    return causes


def likely_causes(
    start: Score, tests: Sequence[Evidence], *, judge: str = "", contradictions: Sequence[str] = ()
) -> list[Cause]:
    """Return why edits were rejected, the likeliest reason first.

    Args:
        start: The starting Library on the training examples.
        tests: The evidence of the tested edits.
        judge: Name of the judge.
        contradictions: Labels that contradict each other.
    """
    n, causes = start.judged, list[tuple[int, Cause]]()
    judged = [test for test in tests if test.judged]
    best = max(judged, key=_net, default=None)
    if contradictions:
        text = f"{contradictions[0]} There are {len(contradictions)} such cases."
        step = "Keep one label of each, the one that is right."
        causes.append((0, Cause("Labels contradict each other", text, step)))
    if best is None or n < LEAST_CASES:
        text = f"{n} training examples are too few to fit criteria to them or to test an idea."
        step = f"Label more: {LEAST_CASES} training examples at least, better a hundred."
        causes.append((1, Cause("There are too few examples", text, step)))
    elif (net := _net(best)) > 0:
        need = math.ceil(n * examples_for(net / best.judged) / best.judged)
        text = f"The best edit fixed {best.fixes} and broke {best.breaks} of {best.judged} examples. About {need:,} "
        text += f"training examples would show such a gain, if it is real; there are {n}."
        if net <= math.sqrt(best.fixes + best.breaks):
            step = "It may be chance: have several people label the examples, or add many more."
            causes.append((4, Cause("The best idea is within the noise", text, step)))
        elif need > n:
            step = f"Label about {need - n:,} more examples of the same kind."
            causes.append((2, Cause("There are too few examples", text, step)))
    fit = max((test for test in judged if test.policy == POLICY), key=_net, default=None)
    if start.accuracy is not None and start.accuracy >= NEARLY_ALL:
        text = f"The starting Library agrees with {start.accuracy:.0%} of the labels (n {n})."
        step = "Use it as it is, or add examples that it gets wrong."
        causes.append((3, Cause("Little is left to gain", text, step)))
    elif fit is not None and _net(fit) < detectable_gain(max(1, n)) * fit.judged:
        causes.append((3, _no_headroom(start, fit, judge)))
    return [cause for _, cause in sorted(causes, key=lambda item: item[0])]


def _net(test: Evidence) -> int:
    return test.fixes - test.breaks


def _no_headroom(start: Score, fit: Evidence, judge: str) -> Cause:
    """Return that new weights of the criteria do not help."""
    gain, interval = estimate_gain(fit.fixes, fit.breaks, fit.judged)
    text = f"With the best weights of all criteria, no verdict on {fit.judged} examples changes."
    if gain is not None and interval is not None and fit.fixes + fit.breaks:
        low, high = (f"{100 * bound:+.0f}" for bound in interval)
        text = "On examples that they were not fitted on, the best weights of all criteria change the accuracy by "
        text += f"{100 * gain:+.0f} points (95% CI {low} to {high}, n {fit.judged})."
    step = "Judge with a model, which sees more than the measures (--judge; in the app under Judge)."
    if not judge.startswith("measured"):
        step = "Let a model propose new criteria (--orchestrator; in the app under Orchestrator)."
    if start.interval is None or not start.interval[0] <= CHANCE <= start.interval[1]:
        return Cause("The criteria do not see what decides", text, step)
    now = f"The starting Library agrees with {start.accuracy:.0%} of the labels (n {start.judged}), as guessing would."
    step = f"Look at some labels first: they may be wrong or random. {step}"
    return Cause("The labels look random to these criteria", f"{now} {text}", step)


def _not_shown(report: EvolutionReport) -> Cause:
    """Return why accepted edits are not a gain on held-out examples."""
    test = report.audit.final_against_start
    counts = f"On {test.n} held-out examples, the accepted edits fixed {test.fixes} and broke {test.breaks}"
    if report.library.final_id != report.library.tried_id or test.breaks > test.fixes:
        step = "Label more examples, of all kinds that the Library is for, and run again."
        return Cause("The edits fit the training examples only", f"{counts}.", step)
    gain = 100 * detectable_gain(max(1, test.n))
    text = f"{counts}; so many examples show a gain of about {gain:.0f} points or more."
    need = examples_for(test.gain) if test.gain else 4 * test.n
    step = f"Hold out about {need} examples: label more, or increase --audit-share."
    return Cause("There are too few held-out examples", text, step)


def cause_lines(causes: Sequence[Cause]) -> list[str]:
    """Return causes as numbered lines with their next steps."""
    return [f"{number}. {cause.title}. {cause.text} Next: {cause.step}" for number, cause in enumerate(causes, 1)]


@dataclass(frozen=True)
class Check:
    """The estimate."""

    start: Score
    """The starting Library on all labeled examples."""
    detectable_gain: float
    """Gain of accuracy, in [0, 1], that this many examples can show."""
    scopes: tuple["ScopeCheck", ...]

    @property
    def lines(self) -> list[str]:
        """The estimate in sentences."""
        score, interval = self.start, self.start.interval
        now = "no example was judged" if score.accuracy is None else f"accuracy {score.accuracy:.3f}"
        bounds = "" if interval is None else f" (95% CI {interval[0]:.3f} to {interval[1]:.3f})"
        lines = [
            f"Starting Library: {now}{bounds} on {score.judged} of {score.n} labeled examples.",
            f"A gain of about {100 * self.detectable_gain:.0f} points or more can be detected.",
        ]
        for scope in self.scopes:
            verdict = f"A run would {scope.decision} the fit, if it saw the same evidence."
            lines.append(f"{scope.name}: {scope.reason}. {verdict}")
        if any(scope.accepted for scope in self.scopes):
            return lines
        return [*lines, *cause_lines(likely_causes(self.start, self.scopes, judge="measured"))]


@dataclass(frozen=True)
class ScopeCheck(EvidenceReport):
    """The estimate of a scope."""

    name: str = ""
    accepted: bool = False


def check(
    plan: EvolutionPlan,
    on_progress: Callable[[RunProgress], None] = lambda progress: None,
    executor: Executor | None = None,
) -> Check:
    """Estimate what the joint fit would bring on all labeled examples of a plan.

    Args:
        plan: The plan of a run.
        on_progress: Called after each judgment, and every two seconds without one, by another thread.
        executor: What judges; None for this process.

    Raises:
        InputError: If there are too few labeled examples, or the judge is a model: each fold would be a run of its own.
    """
    if plan.judge.traits.uses_model:
        raise InputError(
            f"--check does not work with the judge {plan.judge.name}: every fold would cost the calls of a run.",
            next_step="Use the pixel-based judge (--judge measured), or run the evolution: it holds out a test set.",
        )
    examples = tuple(example for part in plan.parts for example in part)
    meter = Meter(on_progress, {"pool": float(len(examples)), "search": float(len(examples))})
    evaluator = Evaluator(plan.judge, concurrency=plan.concurrency, meter=meter, executor=executor)
    with meter.beating():
        meter.begin("pool", len(examples))
        outcomes = evaluator.judge(plan.library, examples)
        state = begin(plan.library, outcomes)
        known = plan.observe, known_measures(plan.dataset.task.candidate), plan.seed
        run = Run(evaluator, plan.orchestrator, examples, *known)
        meter.begin("search", len(examples))
        scopes = _scopes(run, state, plan) if fits(state) else ()
    score = Score.of(outcomes)
    return Check(score, detectable_gain(max(1, score.judged)), scopes)


def _scopes(run: Run, state: State, plan: EvolutionPlan) -> tuple[ScopeCheck, ...]:
    collects, scopes = fit_data(run, state), list[ScopeCheck]()
    alpha = (plan.schedule if isinstance(plan.schedule, DefaultSchedule) else DefaultSchedule()).fit_alpha
    for number, collect in enumerate(collects):
        data, part = collect(), alpha * part_of(number, len(collects))
        folds = len(np.unique(data.comparisons.sources))
        tested = cross_validate(run, plan.library, state.outcomes, data, seed_of(plan.seed, "fit", number), folds)
        evidence = tested.evidence(part, len(data.examples), tested.judged + tested.failed)
        report = vars(EvidenceReport.of(evidence))
        scopes.append(ScopeCheck(**report, name=data.name, accepted=evidence.decision == "accept"))
    return tuple(scopes)
