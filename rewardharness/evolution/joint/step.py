"""The step of a run that fits weights jointly, and tests the result by cross-validation.

All training examples are used, as no other edit is tested on them yet. There are two tests, each at half of the level:
a sign test of the preferences that are fixed against those that are broken, on examples that the weights were not
fitted on, and a test whether the new criteria see something that the Library does not (`fit.novelty_p_value`). One of
them must reject; and the net number of fixed preferences must exceed its standard error, as the second test also
rejects where new criteria only correct how certain the Library is.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rewardharness.errors import LibraryError
from rewardharness.evolution.builtin.forecast import Forecast
from rewardharness.evolution.gate import Evidence, estimate_gain, sign_test
from rewardharness.evolution.joint.fit import FOLDS, fold_numbers, novelty_p_value
from rewardharness.evolution.joint.proposing import LEAST_CASES, ScopeData, find_scopes, scope_data
from rewardharness.evolution.joint.reweighting import Reweighting, graded_examples, reweighting_data
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.state import State, credit_of, seed_of
from rewardharness.evolution.steps import Run, accept, emit_decided, emit_proposed, skip, view_of
from rewardharness.library.store import Library

POLICY = "cross-validation"
"""Name of the acceptance test."""
NOT_SUPPORTED = "Cross-validation does not support it."
"""What an Orchestrator learns about a rejected fit."""


@dataclass(frozen=True)
class CrossValidation:
    """Judgments of examples with Libraries that were fitted on other examples."""

    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    ties: int
    failed: int
    novelty: float
    """P-value of the hypothesis that the new criteria see nothing new."""
    sources: int

    @property
    def judged(self) -> int:
        """Examples with a judgment before and after."""
        return len(self.fixed) + len(self.broken) + self.ties

    @property
    def p_value(self) -> float:
        """P-value of both tests (Bonferroni)."""
        return min(1.0, 2 * min(sign_test(len(self.fixed), len(self.broken)), self.novelty))

    def evidence(self, alpha: float, affected: int, calls: int) -> Evidence:
        """Return the evidence, with the decision at a level."""
        fixed, broken = len(self.fixed), len(self.broken)
        clear = fixed - broken > math.sqrt(fixed + broken)
        accepted = self.p_value <= alpha and clear
        gain, interval = estimate_gain(fixed, broken, self.judged)
        net = "no examples" if gain is None else f"gain {100 * gain:+.1f} points"
        bounds = "" if interval is None else f" (95% CI {100 * interval[0]:+.1f} to {100 * interval[1]:+.1f})"
        reason = (
            f"cross-validated on {self.judged} examples of {self.sources} source images: {fixed} fixed, "
            f"{broken} broken, {net}{bounds}; p {self.p_value:.2g}, at most {alpha:.2g} is needed"
            f"{'' if clear else '; the gain does not exceed its standard error'}"
        )
        counts = fixed, broken, self.ties, self.failed, 0, self.judged
        tests = self.p_value, self.fixed, self.broken
        return Evidence("accept" if accepted else "reject", reason, POLICY, *counts, affected, calls, *tests)


FitData = ScopeData | Reweighting
"""Training data of a fit, and how its result is written."""


def fits(state: State) -> bool:
    """Return whether every judgment has grades per criterion, so that a fit needs no further requests to a model."""
    protocols = {outcome.judgment.protocol for outcome in state.outcomes.values() if outcome.judged}
    return protocols == {"measured"} or (bool(protocols) and all(name.startswith("rubric") for name in protocols))


def fit_data(run: Run, state: State) -> list[Callable[[], FitData]]:
    """Return functions that collect the data of each fit: of each scope, or of the weights of a model's criteria."""
    outcomes = [state.outcomes[example.id] for example in run.pool]
    if any(outcome.judgment.protocol.startswith("rubric") for outcome in outcomes):
        graded = graded_examples(state.library, outcomes)
        return [partial(reweighting_data, state.library, graded)] if len(graded) >= LEAST_CASES else []
    with run.subphase("proposals", len(outcomes)):
        forecast = Forecast(view_of(run, state, outcomes, 1))
    return [partial(scope_data, forecast, scope) for scope in find_scopes(forecast.cases)]


def fit_next(run: Run, state: State, alpha: float) -> State:
    """Fit and test the next scope.

    Args:
        run: The run.
        state: The state; `fitted` scopes are done.
        alpha: Maximum probability that any scope is accepted although the labels are random.

    Returns:
        The state after the decision; `fitting` is false if no scope is left.
    """
    collectors, number = fit_data(run, state), state.fitted
    if number >= len(collectors):
        return replace(state, fitting=False)
    done = replace(state, fitted=number + 1)
    data, seed = collectors[number](), seed_of(run.seed, "fit", number)
    proposal = data.propose(state.library, data.comparisons, seed)
    if proposal is None:
        return done
    try:
        after = proposal.applied_to(state.library)
    except LibraryError as error:
        skip(run, done, proposal, error.message)
        return done
    emit_proposed(run, done, proposal, after)
    tested = cross_validate(run, state.library, state.outcomes, data, seed)
    touched = run.evaluator.affected(state.library, after, run.pool)
    evidence = tested.evidence(alpha * part_of(number, len(collectors)), len(touched), tested.judged + tested.failed)
    if evidence.decision == "accept":
        outcomes = {outcome.example.id: outcome for outcome in run.evaluator.judge(after, touched)}
        done = accept(run, done, proposal, outcomes, evidence)
    else:
        done = done.rejecting(proposal, NOT_SUPPORTED)
    emit_decided(run, done, proposal, evidence)
    return done


def part_of(number: int, scopes: int) -> float:
    """Return the part of the error budget of the fit for a scope: half for the first, the rest divided equally."""
    if scopes == 1:
        return 1.0
    return 0.5 if number == 0 else 0.5 / (scopes - 1)


def cross_validate(
    run: Run, library: Library, outcomes: Mapping[str, Outcome], data: FitData, seed: int, folds: int = FOLDS
) -> CrossValidation:
    """Judge each example of a scope with a Library that was fitted without the examples of its fold.

    Args:
        run: The run.
        library: The Library before the fit.
        outcomes: Its outcomes by example id.
        data: The training data of the scope.
        seed: Seed of the folds.
        folds: Number of folds; no source image is in two of them.
    """
    numbers = fold_numbers(data.comparisons.sources, folds, seed)
    examples = data.examples
    judged: list[Outcome] = []
    for fold in range(int(numbers.max()) + 1):
        names = dict.fromkeys(name for name, at in zip(data.example_ids, numbers, strict=True) if at == fold)
        left = data.comparisons.where(np.array([name not in names for name in data.example_ids]))
        proposal = data.propose(library, left, seed)
        tried = library if proposal is None else proposal.applied_to(library)
        judged += run.evaluator.judge(tried, [examples[name] for name in names])
    changes: dict[str, float] = {}
    for outcome in judged:
        before, now = credit_of(outcomes[outcome.example.id]), credit_of(outcome)
        if before is not None and now is not None:
            changes[outcome.example.id] = now - before
    return CrossValidation(
        fixed=tuple(name for name, change in changes.items() if change > 0),
        broken=tuple(name for name, change in changes.items() if change < 0),
        ties=sum(change == 0 for change in changes.values()),
        failed=len(judged) - len(changes),
        novelty=novelty_p_value(data.comparisons, seed),
        sources=len(np.unique(data.comparisons.sources)),
    )
