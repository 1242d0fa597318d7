"""An estimate, before anyone trusts a Library, of what evolution would bring on a dataset.

All labeled examples are used. Each is judged with a Library that was fitted on the examples of all other source images
(leave one source out), so the estimate is about images that the fit has not seen. Nothing is saved.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rewardharness.errors import InputError
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.gate import detectable_gain
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.joint.scopes import LEAST_CASES
from rewardharness.evolution.joint.step import cross_validate, fit_data, fits, part_of
from rewardharness.evolution.plan import EvolutionPlan
from rewardharness.evolution.progress import Meter, RunProgress
from rewardharness.evolution.schedules import DefaultSchedule
from rewardharness.evolution.state import State, begin, seed_of
from rewardharness.evolution.steps import Run
from rewardharness.judging.evaluate import Executor
from rewardharness.measure.table import known_measures
from rewardharness.schema import Json


@dataclass(frozen=True)
class Check:
    """The estimate."""

    start: Score
    """The starting Library on all labeled examples."""
    detectable_gain: float
    """Gain of accuracy, in [0, 1], that this many examples can show."""
    scopes: tuple[Json, ...]
    """The estimate of each scope: name, examples, fixes, breaks, gain, interval, p-value, accepted."""

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
            verdict = f"A run would {'accept' if scope['accepted'] else 'reject'} the fit, if it saw the same evidence."
            lines.append(f"{scope['name']}: {scope['reason']}. {verdict}")
        need = f"A joint fit needs {LEAST_CASES} labeled examples whose images can be measured, so nothing is fitted."
        return lines if self.scopes else [*lines, need]


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
        run = Run(evaluator, plan.orchestrator, examples, plan.observe, known_measures(), plan.seed)
        meter.begin("search", len(examples))
        scopes = _scopes(run, state, plan) if fits(state) else ()
    score = Score.of(outcomes)
    return Check(score, detectable_gain(max(1, score.judged)), scopes)


def _scopes(run: Run, state: State, plan: EvolutionPlan) -> tuple[Json, ...]:
    collects, scopes = fit_data(run, state), list[Json]()
    alpha = (plan.schedule if isinstance(plan.schedule, DefaultSchedule) else DefaultSchedule()).fit_alpha
    for number, collect in enumerate(collects):
        data, part = collect(), alpha * part_of(number, len(collects))
        folds = len(np.unique(data.comparisons.sources))
        tested = cross_validate(run, plan.library, state.outcomes, data, seed_of(plan.seed, "fit", number), folds)
        evidence = tested.evidence(part, len(data.examples), tested.judged + tested.failed)
        scopes.append({**evidence.to_json(), "name": data.name, "accepted": evidence.decision == "accept"})
    return tuple(scopes)
