"""Population searches: several Libraries at once, from which parents are chosen and children proposed.

Parents are rated and children compared on the examples that proposals are written from. Children are judged on a few
examples first and dropped early (successive halving). The best member becomes the champion only if it passes the
acceptance test against the champion on the other examples, which the search has not used.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from rewardharness.errors import LibraryError
from rewardharness.evolution.analyzer import kind_of
from rewardharness.evolution.events import PhaseBegan
from rewardharness.evolution.gate import ALPHA, Evidence, SignTest, level
from rewardharness.evolution.joint.step import fit_next, fits
from rewardharness.evolution.objective import objective_named, outcome_pairs, paired_gain
from rewardharness.evolution.operator_schedule import (
    OperatorSchedule,
    OperatorState,
    ScheduleKind,
    diversity_of,
    next_operators,
)
from rewardharness.evolution.operators import possible_mutations
from rewardharness.evolution.proposal import Mutation, Outcome, Proposal, wording
from rewardharness.evolution.schedules import FIT, NO_PROPOSALS
from rewardharness.evolution.state import Member, Population, State, seed_of
from rewardharness.evolution.steps import Run, accept, emit_decided, request_proposals, skip, view_of
from rewardharness.evolution.trial import GateSettings, try_edit
from rewardharness.library.store import AddEntry, Change, Library, RemoveEntry, ReplaceEntry
from rewardharness.schema import Example, Usage

Strategy = Literal["iterative", "evolutionary", "pareto", "random"]
"""`iterative`: one lineage, each child replaces its parent if it is no worse. `evolutionary`: the best members survive,
with places reserved for children. `pareto`: members survive that no other one beats on every kind of edit and in
length. `random`: parents, operators and survivors are drawn, as a control."""

Selection = Literal["rank", "tournament", "top_k", "pareto"]
"""How parents are chosen: by the share of their rank, as the best of two drawn members, from the better third, or from
the members that no other one beats."""

Scope = Literal["library", "entry", "category"]
"""What the children of a generation may change: anything, one entry, or what helps one kind of edit. Entries and kinds
take turns."""

MIGRATION = 5
"""Generations of an island between two migrations of its best member to the next island."""

RACE = (8, 24)
"""Examples on which children are compared before all are judged; each time the better half goes on."""

FINAL_TESTS = 3
"""Members that may be tested against the champion at the end."""

SOURCE = "search"
"""Who proposes the difference between a member and the champion."""


@dataclass(frozen=True)
class PopulationSchedule:
    """A population search; see `Strategy`."""

    strategy: Strategy = "evolutionary"
    proposals: int = 60
    """Maximum number of children."""
    population: int = 8
    """Members; at least 2, and 1 for `iterative`."""
    elites: int = 2
    """Best members that survive in any case. At least one more place is for children."""
    parents: int = 3
    """Parents per generation."""
    per_parent: int = 2
    """Children per parent and generation."""
    patience: int = 4
    """Generations without a better member after which the search ends."""
    selection: Selection = "tournament"
    operators: ScheduleKind = "success_feedback"
    objective: str = "default"
    scope: Scope = "library"
    islands: int = 1
    """Populations with own random numbers that take turns; the best member of each migrates to the next."""
    alpha: float = ALPHA
    """Maximum probability that a run accepts an edit although none helps."""

    @property
    def name(self) -> str:
        """Name, as in the configuration."""
        return self.strategy

    def watched(self, pool: tuple[Example, ...]) -> tuple[Example, ...]:
        """Return all of them."""
        return pool

    def advance(self, run: Run, state: State) -> State:
        """Take the next step: a joint fit, a generation, or a final test."""
        if state.fitting and self.strategy != "random" and fits(state):
            return fit_next(run, state, FIT * self.alpha)
        if state.population is None:
            run.emit(PhaseBegan("skills", 0, step=state.step))
            first = self._member(run, state.library)
            members = tuple(replace(first, island=island) for island in range(self.islands))
            return replace(state, population=Population(members))
        if state.phase == "prune" or state.proposed >= self.proposals or state.idle >= self.patience * self.islands:
            return self._test_best(run, state)
        return self._generation(run, state, state.population)

    def _member(self, run: Run, library: Library, island: int = 0) -> Member:
        """Judge a Library on the examples that proposals are written from."""
        outcomes = run.evaluator.judge(library, run.sides[0])
        pairs = outcome_pairs(outcomes)
        kinds: dict[str, list[float]] = {}
        for outcome in outcomes:
            if outcome.judged:
                kinds.setdefault(kind_of(outcome.example), []).append(outcome.credit)
        value = objective_named(self.objective)(pairs, _length(library)).value
        return Member(library, value, {kind: fmean(credits) for kind, credits in sorted(kinds.items())}, island)

    def _generation(self, run: Run, state: State, population: Population) -> State:
        source = random.Random(seed_of(run.seed, "generation", population.generation))
        island = population.generation % self.islands
        here = [member for member in population.members if member.island == island]
        seen, operators = set(population.seen), OperatorState.from_json(population.operators)
        children: list[_Child] = []
        silent = True
        count = 1 if self.strategy == "iterative" else self.parents
        for parent in choose_parents(here, count, self._selection, source):
            limit = min(self.per_parent, self.proposals - state.proposed - len(children))
            if limit <= 0:
                break
            state, proposals, operators, replied = self._ask(run, state, parent, population, operators, limit)
            silent = silent and not replied
            for proposal in proposals:
                library = _applied(run, state, proposal, parent.library, seen)
                if library is not None:
                    children.append(_Child(parent.library, proposal, library))
        state, raced, operators = self._race(run, state, children, operators, source)
        judged = [self._member(run, child.library, island) for child in raced]
        kept = survivors(self.strategy, here, judged, self.population, self.elites, source)
        better = max(each.fitness for each in kept) > max(each.fitness for each in population.members)
        idle = 0 if better else self.patience * self.islands if silent and self.islands == 1 else state.idle + 1
        members = (*(each for each in population.members if each.island != island), *kept)
        members = self._migrated(members, population.generation)
        population = Population(members, tuple(sorted(seen)), operators.to_json(), population.generation + 1)
        return replace(state, population=population, idle=idle, proposed=state.proposed + len(children))

    def _ask(
        self, run: Run, state: State, parent: Member, population: Population, operators: OperatorState, limit: int
    ) -> tuple[State, list[Proposal], OperatorState, bool]:
        """Ask for children of one parent, within the scope of the generation."""
        at = replace(state, library=parent.library)
        outcomes = run.evaluator.judge(parent.library, run.sides[0])
        chosen, operators = self._operators(run, at, outcomes, population, operators)
        turn = population.generation // self.islands
        shown, name = outcomes, ""
        if self.scope == "category":
            kinds = sorted({kind_of(outcome.example) for outcome in outcomes})
            shown = [each for each in outcomes if kind_of(each.example) == kinds[turn % len(kinds)]]
        elif self.scope == "entry" and parent.library.entries:
            name = parent.library.entries[turn % len(parent.library.entries)].name
        asked, proposals, replied = request_proposals(run, at, shown, limit, chosen)
        if not replied and run.orchestrator.spent == Usage():  # rules know other edits than these operators
            asked, proposals, replied = request_proposals(run, at, shown, limit)
        fitting = [each for each in proposals if not name or set(each.names) == {name}]
        for proposal in proposals:
            if proposal not in fitting:
                skip(run, state, proposal, f"It changes more than {name}, the scope of this generation.")
        return replace(asked, library=state.library), fitting, operators, replied

    def _migrated(self, members: tuple[Member, ...], generation: int) -> tuple[Member, ...]:
        """Return the members after the best one of an island has replaced the worst one of the next, if it is due."""
        turn, island = divmod(generation, self.islands)
        if self.islands == 1 or turn % MIGRATION != MIGRATION - 1:
            return members
        best = max((each for each in members if each.island == island), key=_rank)
        target = (island + 1) % self.islands
        others = [each for each in members if each.island == target]
        if any(each.library.id == best.library.id for each in others):
            return members
        worst = min(others, key=_rank) if len(others) >= self.population else None
        return (*(each for each in members if each is not worst), replace(best, island=target))

    @property
    def _selection(self) -> Selection:
        return "pareto" if self.strategy == "pareto" else self.selection

    def _operators(
        self, run: Run, state: State, outcomes: Sequence[Outcome], population: Population, remembered: OperatorState
    ) -> tuple[tuple[Mutation, ...], OperatorState]:
        view = view_of(run, state, outcomes, self.per_parent)
        possible = possible_mutations(view, model=not run.orchestrator.name.startswith("built-in"))
        diversity = None
        if self.operators == "diversity_driven":
            judged = [run.evaluator.judge(each.library, run.sides[0]) for each in population.members]
            diversity = diversity_of([outcome_pairs(each) for each in judged])
        seed = seed_of(run.seed, "operators", state.round)
        plan = OperatorSchedule("fixed" if self.strategy == "random" else self.operators)
        return next_operators(plan, remembered, self.per_parent, seed=seed, possible=possible, diversity=diversity)

    def _race(
        self, run: Run, state: State, children: Sequence["_Child"], operators: OperatorState, source: random.Random
    ) -> tuple[State, list["_Child"], OperatorState]:
        """Judge children on more and more examples; after each part the better half goes on."""
        plan = OperatorSchedule("fixed" if self.strategy == "random" else self.operators)
        order = self._hard_first(run, state, source)
        left = list(children)
        for size in (*(size for size in RACE if size < len(order)), len(order)):
            for child in left:
                child.gain = self._gain(run, child, order[:size])
            kept = len(left) if size == len(order) else math.ceil(len(left) / 2)
            if self.strategy == "random":
                source.shuffle(left)
            else:
                left.sort(key=lambda child: -child.gain)
            for child in left[kept:]:
                reason = f"dropped after {size} examples: gain {100 * child.gain:+.1f} points over its parent"
                emit_decided(run, state, child.proposal, Evidence("reject", reason, "successive halving"))
            left = left[:kept]
        for child in children:
            if child.proposal.mutation:
                operators = operators.observed(child.proposal.mutation, child.gain, plan)
        return state, left, operators

    def _gain(self, run: Run, child: "_Child", examples: Sequence[Example]) -> float:
        before, after = (run.evaluator.judge(library, examples) for library in (child.parent, child.library))
        return paired_gain(objective_named(self.objective), outcome_pairs(before), outcome_pairs(after))

    def _hard_first(self, run: Run, state: State, source: random.Random) -> list[Example]:
        """Order examples: two that are hard for the champion (missed, or a small margin), then a drawn one."""

        def ease(example: Example) -> tuple[float, str]:
            outcome = state.outcomes[example.id]
            return outcome.credit + (outcome.judgment.margin or 0.0), example.id

        hard = sorted(run.sides[0], key=ease)
        order: list[Example] = []
        while hard:
            order += hard[:2]
            hard = hard[2:]
            if hard:
                order.append(hard.pop(source.randrange(len(hard))))
        return order

    def _test_best(self, run: Run, state: State) -> State:
        """Test the best member against the champion on examples that the search has not used."""
        population = state.population
        assert population is not None
        if state.phase != "prune":
            run.emit(PhaseBegan("prune", state.round, step=state.step))
        state = replace(state, phase="prune")
        full = state.proposed >= self.proposals
        ending = f"the limit of {self.proposals} proposals is reached" if full else NO_PROPOSALS
        members = [each for each in population.members if each.library.id != state.library.id]
        best = max(members, key=_rank, default=None)
        if self.strategy == "random" and members:
            best = random.Random(seed_of(run.seed, "final", state.tests)).choice(members)
        if best is None or state.tests >= FINAL_TESTS:
            return replace(state, ending=ending)
        rest = tuple(each for each in population.members if each.library.id != best.library.id)
        state = replace(state, population=replace(population, members=rest))
        proposal = difference(state.library, best.library)
        policy = SignTest(level(state.tests + 1, (1 - FIT) * self.alpha if state.fitted else self.alpha))
        evidence = {example.id for example in run.sides[1]}
        touched = run.evaluator.affected(state.library, best.library, run.pool)
        if sum(example.id in evidence for example in touched) < policy.least:
            skip(run, state, proposal, f"It affects fewer than {policy.least} of the examples that count as evidence.")
            return state
        trial = try_edit(
            touched,
            proposal,
            state.outcomes,
            state.histories,
            lambda examples: run.evaluator.judge(best.library, examples),
            GateSettings(policy, run.noise),
            seed_of(run.seed, "gate", state.step, proposal.signature),
            evidence,
        )
        state = replace(state, tests=state.tests + 1)
        if trial.evidence.decision == "accept":
            state = replace(accept(run, state, proposal, trial.outcomes, trial.evidence), ending=ending)
        else:
            state = state.judged(trial.outcomes, run.noise, accepted=False)
        emit_decided(run, state, proposal, trial.evidence)
        return state


@dataclass
class _Child:
    parent: Library
    proposal: Proposal
    library: Library
    gain: float = field(default=0.0)


def choose_parents(members: Sequence[Member], count: int, selection: Selection, source: random.Random) -> list[Member]:
    """Choose different members as parents; fewer than `count` if there are not enough."""
    ranked = sorted(members, key=lambda each: (-each.fitness, each.library.id))
    if selection == "top_k":
        ranked = ranked[: max(1, math.ceil(len(ranked) / 3))]
    if selection == "pareto":
        ranked = frontier(ranked)
    chosen: list[Member] = []
    for _ in range(min(count, len(ranked))):
        left = [each for each in ranked if each not in chosen]
        if selection == "rank":
            shares = [len(left) - place for place in range(len(left))]
            chosen.append(source.choices(left, shares)[0])
        elif selection == "tournament":
            chosen.append(min(source.sample(left, min(2, len(left))), key=left.index))
        else:
            chosen.append(source.choice(left))
    return chosen


def frontier(members: Sequence[Member]) -> list[Member]:
    """Return the members that no other one beats on every kind of edit and in length."""
    found = []
    for member in members:
        if not any(_beats(other, member) for other in members):
            found.append(member)
    return found


def survivors(
    strategy: Strategy,
    members: Sequence[Member],
    children: Sequence[Member],
    size: int,
    elites: int,
    source: random.Random,
) -> tuple[Member, ...]:
    """Choose the next population. At least one child survives if there is one and more than one place.

    Args:
        strategy: The strategy.
        members: The population.
        children: New members that were judged on all examples.
        size: Members to keep.
        elites: Best members that survive in any case.
        source: Random numbers, for `random`.
    """
    every = sorted((*members, *children), key=lambda each: (-each.fitness, each.library.id))
    if strategy == "iterative":
        best_child = max(children, key=_rank, default=None)
        current = max(members, key=lambda each: each.fitness)  # there are two after a migration
        return (best_child,) if best_child and best_child.fitness >= current.fitness else (current,)
    if strategy == "random":
        return tuple(source.sample(every, min(size, len(every))))
    if strategy == "pareto":
        first = frontier(every)
        every = [*first, *(each for each in every if each not in first)]
    kept = every[: min(elites, size - 1)]
    quota = max(1, (size - len(kept)) // 2)
    kept += [each for each in every if each in children and each not in kept][:quota]
    kept += [each for each in every if each not in kept][: size - len(kept)]
    return tuple(kept)


def difference(before: Library, after: Library) -> Proposal:
    """Return the edit that turns one Library into another."""
    changes: list[Change] = []
    why = "Found by a population search."
    for entry in after.entries:
        old = before.get(entry.name)
        if old is None:
            changes.append(AddEntry(entry, why))
        elif old.entry_id != entry.entry_id:
            changes.append(ReplaceEntry(entry, why))
    changes += [RemoveEntry(entry.name, why) for entry in before.entries if entry.name not in after]
    says = f"The best Library of the population: {len(changes)} entries differ."
    return Proposal("bundle", tuple(changes), says, (), SOURCE)


def _applied(run: Run, state: State, proposal: Proposal, parent: Library, seen: set[str]) -> Library | None:
    """Return the child; None if it cannot be made or was judged before."""
    try:
        library = proposal.applied_to(parent)
    except LibraryError as error:
        skip(run, state, proposal, error.message)
        return None
    if library.id in seen:
        skip(run, state, proposal, "The same Library was judged before.")
        return None
    seen.add(library.id)
    return library


def _beats(one: Member, other: Member) -> bool:
    def values(member: Member) -> Mapping[str, float]:
        return {**member.by_kind, "length": -float(_length(member.library))}

    ours, theirs = values(one), values(other)
    keys = ours.keys() & theirs.keys()
    return all(ours[key] >= theirs[key] for key in keys) and any(ours[key] > theirs[key] for key in keys)


def _rank(member: Member) -> tuple[float, str]:
    return member.fitness, member.library.id


def _length(library: Library) -> int:
    return sum(len(wording(entry)) for entry in library.entries)
