"""Population searches: several Libraries at once, from which parents are chosen and children proposed.

Parents are rated and children compared on the examples that proposals are written from. Children are judged on a few
examples first and dropped early (successive halving). The best member becomes the champion only if it passes the
acceptance test against the champion on the other examples, which the search has not used.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Literal

from rewardharness.evolution.analyzer import kind_of
from rewardharness.evolution.events import PhaseBegan
from rewardharness.evolution.gate import ALPHA, Evidence, SignTest, level
from rewardharness.evolution.joint.step import fit_next, fits
from rewardharness.evolution.operators import Choice, next_operator, possible_mutations, with_gains
from rewardharness.evolution.proposal import Mutation, Outcome, Proposal, wording
from rewardharness.evolution.schedules import FIT, Schedule, ending_of
from rewardharness.evolution.state import GateSettings, Member, Population, State, seed_of
from rewardharness.evolution.steps import Run, decide, emit_decided, request_proposals, skip, view_of
from rewardharness.library.store import AddEntry, Change, Library, RemoveEntry, ReplaceEntry
from rewardharness.schema import Example, Usage

Strategy = Literal["iterative", "evolutionary", "pareto", "random"]
"""`iterative`: one lineage, each child replaces its parent if it is no worse. `evolutionary`: the best members survive,
with places reserved for children. `pareto`: members survive that no other one beats on every kind of edit and in
length. `random`: parents, operators and survivors are drawn, as a control."""

Selection = Literal["rank", "tournament", "top_k", "pareto"]
"""How parents are chosen: by the share of their rank, as the best of two drawn members, from the better third, or from
the members that no other one beats."""

Objective = Literal["default", "accuracy"]
"""How a Library is rated: its accuracy, in `default` drawn toward 1/2 for few examples, and less for variance between
samples, contradictions between presentation orders, and length."""

ELITES, PARENTS, PER_PARENT, PATIENCE = 2, 3, 2, 4
"""Best members that survive in any case; parents per generation; children per parent; and generations without a better
member after which the search ends."""

MIGRATION = 5
"""Generations of an island between two migrations of its best member to the next island."""

RACE = (8, 24)
"""Examples on which children are compared before all are judged; each time the better half goes on."""

FINAL_TESTS = 3
"""Members that may be tested against the champion at the end."""

SOURCE = "search"
"""Who proposes the difference between a member and the champion."""

PRIOR, VARIANCE, INCONSISTENCY, LENGTH, REFERENCE = 8, 0.2, 0.1, 0.02, 20_000
"""Of the objective `default`: examples at which the accuracy counts half, weights, and the characters of a Library at
which half of the weight of length is subtracted."""


@dataclass(frozen=True)
class PopulationSchedule(Schedule):
    """A population search."""

    name: Strategy = "evolutionary"
    proposals: int = 60
    """Maximum number of children."""
    population: int = 8
    """Members of an island; at least 2."""
    selection: Selection = "tournament"
    operators: Choice = "success_feedback"
    objective: Objective = "default"
    islands: int = 1
    """Populations with own random numbers that take turns; the best member of each migrates to the next."""

    def advance(self, run: Run, state: State) -> State:
        """Take the next step: a joint fit, a generation, or a final test."""
        if state.fitting and self.name != "random" and fits(state):
            return fit_next(run, state, FIT * ALPHA)
        if state.population is None:
            run.emit(PhaseBegan("skills", 0, step=state.step))
            first = self._member(run, state.library, 0)
            members = tuple(replace(first, island=island) for island in range(self.islands))
            return replace(state, population=Population(members))
        if state.phase == "prune" or state.proposed >= self.proposals or state.idle >= PATIENCE * self.islands:
            return self._test_best(run, state, state.population)
        return self._generation(run, state, state.population)

    def _member(self, run: Run, library: Library, island: int) -> Member:
        """Judge a Library on the examples that proposals are written from."""
        outcomes = run.evaluator.judge(library, run.sides[0])
        judged = [(kind_of(outcome.example), outcome.credit) for outcome in outcomes if outcome.judged]
        kinds = sorted({kind for kind, _ in judged})
        by_kind = {kind: fmean(credit for other, credit in judged if other == kind) for kind in kinds}
        return Member(library, value_of(self.objective, outcomes, library), by_kind, island)

    def _generation(self, run: Run, state: State, population: Population) -> State:
        source = random.Random(seed_of(run.seed, "generation", population.generation))
        island = population.generation % self.islands
        here = [member for member in population.members if member.island == island]
        seen, asked, children, silent = set(population.seen), population.asked, list[_Child](), True
        selection: Selection = "pareto" if self.name == "pareto" else self.selection
        for parent in choose_parents(here, 1 if self.name == "iterative" else PARENTS, selection, source):
            limit = min(PER_PARENT, self.proposals - state.proposed - len(children))
            if limit <= 0:
                break
            outcomes = run.evaluator.judge(parent.library, run.sides[0])
            at = replace(state, library=parent.library)
            chosen = self._operators(run, at, outcomes, replace(population, asked=asked))
            asked += len(chosen)
            then, proposals, replied = request_proposals(run, at, outcomes, limit, chosen)
            if not replied and run.orchestrator.spent == Usage():  # rules know other edits than these operators
                then, proposals, replied = request_proposals(run, at, outcomes, limit)
            state, silent = replace(then, library=state.library), silent and not replied
            for proposal in proposals:
                library = proposal.applied_to(parent.library)
                if library.id in seen:
                    skip(run, state, proposal, "The same Library was judged before.")
                else:
                    children.append(_Child(parent.library, proposal, library))
                    seen.add(library.id)
        raced = self._race(run, state, children, source)
        judged = [self._member(run, child.library, island) for child in raced]
        kept = survivors(self.name, here, judged, self.population, source)
        better = max(map(_rank, kept))[0] > max(map(_rank, population.members))[0]
        idle = 0 if better else PATIENCE if silent and self.islands == 1 else state.idle + 1
        members = (*(member for member in population.members if member.island != island), *kept)
        members = migrated(members, population.generation, self.islands, self.population)
        gains = [(child.proposal.mutation, child.gain) for child in children if child.proposal.mutation]
        results = with_gains(population.results, gains)
        after = Population(members, tuple(sorted(seen)), population.generation + 1, asked, results)
        return replace(state, population=after, idle=idle, proposed=state.proposed + len(children))

    def _operators(
        self, run: Run, state: State, outcomes: Sequence[Outcome], population: Population
    ) -> tuple[Mutation, ...]:
        """Choose the operators of the children of one parent; none if none is possible."""
        model = not run.orchestrator.name.startswith("built-in")
        usable = possible_mutations(view_of(run, state, outcomes, PER_PARENT), model=model)
        choice: Choice = "fixed" if self.name == "random" else self.operators
        seed, different = seed_of(run.seed, "operators", state.round), 0.0
        if choice == "diversity_driven":
            different = diversity([run.evaluator.judge(member.library, run.sides[0]) for member in population.members])
        numbers = range(population.asked, population.asked + PER_PARENT) if usable else ()
        return tuple(next_operator(choice, usable, number, population.results, seed, different) for number in numbers)

    def _race(self, run: Run, state: State, children: Sequence["_Child"], source: random.Random) -> list["_Child"]:
        """Judge children on more and more examples; after each part the better half goes on."""
        order = _hard_first(run, state, source)
        left = list(children)
        for size in (*(size for size in RACE if size < len(order)), len(order)):
            for child in left:
                before, after = (
                    run.evaluator.judge(library, order[:size]) for library in (child.parent, child.library)
                )
                child.gain = paired_gain(self.objective, before, after)
            kept = len(left) if size == len(order) else math.ceil(len(left) / 2)
            if self.name == "random":
                source.shuffle(left)
            else:
                left.sort(key=lambda child: -child.gain)
            for child in left[kept:]:
                reason = f"dropped after {size} examples: gain {100 * child.gain:+.1f} points over its parent"
                emit_decided(run, state, child.proposal, Evidence("reject", reason, "successive halving"))
            left = left[:kept]
        return left

    def _test_best(self, run: Run, state: State, population: Population) -> State:
        """Test the best member against the champion on examples that the search has not used."""
        if state.phase != "prune":
            run.emit(PhaseBegan("prune", state.round, step=state.step))
        state = replace(state, phase="prune")
        members = [member for member in population.members if member.library.id != state.library.id]
        best = max(members, key=_rank, default=None)
        if self.name == "random" and members:
            best = random.Random(seed_of(run.seed, "final", state.tests)).choice(members)
        if best is None or state.tests >= FINAL_TESTS:
            return replace(state, ending=ending_of(state, self.proposals))
        rest = tuple(member for member in population.members if member.library.id != best.library.id)
        state = replace(state, population=replace(population, members=rest))
        proposal = difference(state.library, best.library)
        policy = SignTest(level(state.tests + 1, (1 - FIT) * ALPHA if state.fitted else ALPHA))
        evidence = {example.id for example in run.sides[1]}
        if len(run.evaluator.affected(state.library, best.library, run.sides[1])) < policy.least:
            skip(run, state, proposal, f"It affects fewer than {policy.least} of the examples that count as evidence.")
            return state
        tested = decide(run, state, proposal, GateSettings(policy, run.noise), evidence)
        ending = ending_of(state, self.proposals) if tested.version > state.version else ""
        return replace(tested, tests=state.tests + 1, ending=ending)


@dataclass
class _Child:
    parent: Library
    proposal: Proposal
    library: Library
    gain: float = 0.0


def value_of(objective: Objective, outcomes: Sequence[Outcome], library: Library | None = None) -> float:
    """Rate a Library by its outcomes.

    Args:
        objective: What counts.
        outcomes: Labeled examples as judged with the Library. Those without a judgment do not count.
        library: The Library, to count its length; None not to.
    """
    judged = [outcome for outcome in outcomes if outcome.judged]
    right = accuracy(judged)
    if objective == "accuracy":
        return right
    orders = [outcome.judgment.position_consistent for outcome in judged]
    variances = [[score.variance for score in outcome.judgment.scores.values()] for outcome in judged]
    spread = [sum(filter(None, values)) for values in variances if values and None not in values]
    length = _length(library) if library is not None else 0
    value = 0.5 + len(judged) / (len(judged) + PRIOR) * (right - 0.5) - VARIANCE * _mean(spread)
    value -= INCONSISTENCY * _mean([not consistent for consistent in orders if consistent is not None])
    return value - LENGTH * length / (length + REFERENCE)


def accuracy(judged: Sequence[Outcome]) -> float:
    """Return the accuracy on judged examples; 1/2 without any.

    Those judged in one presentation order count in equal shares by the place of the preferred candidate, so that a
    judge that always prefers the first candidate has accuracy 1/2 with every Library.
    """
    sides: dict[bool | None, list[float]] = {None: [], True: [], False: []}
    for outcome in judged:
        sides[_preferred_first(outcome)].append(outcome.credit)
    single = len(sides[True]) + len(sides[False])
    balanced = (fmean(sides[True]) + fmean(sides[False])) / 2 if sides[True] and sides[False] else 0.5
    return (sum(sides[None]) + single * balanced) / len(judged) if judged else 0.5


def _preferred_first(outcome: Outcome) -> bool | None:
    """Return whether the only presentation order has the preferred candidate first; None for several, or no pair."""
    pair = {*outcome.example.labels}
    orders = {step.order for step in outcome.judgment.steps if pair == {*step.order}}
    preferred = outcome.example.preference
    return orders.pop()[0] == preferred if len(orders) == 1 and len(pair) == 2 and preferred in pair else None


def paired_gain(objective: Objective, before: Sequence[Outcome], after: Sequence[Outcome]) -> float:
    """Return the gain of one Library over another on the examples that were judged with both; 0 without any."""
    pairs = [pair for pair in zip(before, after, strict=True) if all(outcome.judged for outcome in pair)]
    return value_of(objective, [new for _, new in pairs]) - value_of(objective, [old for old, _ in pairs])


def diversity(judged: Sequence[Sequence[Outcome]]) -> float:
    """Return the share of the examples that two members of a population judge differently, over all pairs of them."""
    pairs = [pair for members in combinations(judged, 2) for pair in zip(*members, strict=True)]
    return _mean([one.judgment.ranking != other.judgment.ranking for one, other in pairs])


def choose_parents(members: Sequence[Member], count: int, selection: Selection, source: random.Random) -> list[Member]:
    """Choose different members as parents; fewer than `count` if there are not enough."""
    left = sorted(members, key=lambda member: (-member.fitness, member.library.id))
    if selection == "top_k":
        left = left[: max(1, math.ceil(len(left) / 3))]
    if selection == "pareto":
        left = frontier(left)
    chosen: list[Member] = []
    for _ in range(min(count, len(left))):
        if selection == "rank":
            chosen += source.choices(left, range(len(left), 0, -1))
        elif selection == "tournament":
            chosen.append(min(source.sample(left, min(2, len(left))), key=left.index))
        else:
            chosen.append(source.choice(left))
        left = [member for member in left if member is not chosen[-1]]
    return chosen


def frontier(members: Sequence[Member]) -> list[Member]:
    """Return the members that no other one beats on every kind of edit and in length."""
    values = [{**member.by_kind, "length": -float(_length(member.library))} for member in members]
    return [member for member, own in zip(members, values, strict=True) if not any(_beats(one, own) for one in values)]


def _beats(ours: Mapping[str, float], theirs: Mapping[str, float]) -> bool:
    gains = [ours[key] - theirs[key] for key in ours.keys() & theirs.keys()]
    return min(gains) >= 0 < max(gains) if gains else False


def survivors(
    strategy: Strategy, members: Sequence[Member], children: Sequence[Member], size: int, source: random.Random
) -> tuple[Member, ...]:
    """Choose the next population. At least one child survives if there is one and more than one place.

    Args:
        strategy: The strategy.
        members: The population.
        children: New members that were judged on all examples.
        size: Members to keep.
        source: Random numbers, for `random`.
    """
    every = sorted((*members, *children), key=lambda member: (-member.fitness, member.library.id))
    if strategy == "iterative":
        return (max(every, key=lambda member: (member.fitness, member in children, member.library.id)),)
    if strategy == "random":
        return tuple(source.sample(every, min(size, len(every))))
    if strategy == "pareto":
        first = frontier(every)
        every = [*first, *(member for member in every if member not in first)]
    kept = every[: min(ELITES, size - 1)]
    quota = max(1, (size - len(kept)) // 2)
    kept += [member for member in every if member in children and member not in kept][:quota]
    kept += [member for member in every if member not in kept][: size - len(kept)]
    return tuple(kept)


def migrated(members: tuple[Member, ...], generation: int, islands: int, size: int) -> tuple[Member, ...]:
    """Return the members after the best one of an island has replaced the worst one of the next, if it is due."""
    turn, island = divmod(generation, islands)
    if islands == 1 or turn % MIGRATION != MIGRATION - 1:
        return members
    best, target = max((member for member in members if member.island == island), key=_rank), (island + 1) % islands
    others = [member for member in members if member.island == target]
    if any(member.library.id == best.library.id for member in others):
        return members
    worst = min(others, key=_rank) if len(others) >= size else None
    return (*(member for member in members if member is not worst), replace(best, island=target))


def difference(before: Library, after: Library) -> Proposal:
    """Return the edit that turns one Library into another."""
    why = "Found by a population search."
    known = {entry.name: entry.entry_id for entry in before.entries}
    new = [entry for entry in after.entries if known.get(entry.name) != entry.entry_id]
    changes: list[Change] = [ReplaceEntry(one, why) if one.name in known else AddEntry(one, why) for one in new]
    changes += [RemoveEntry(entry.name, why) for entry in before.entries if entry.name not in after]
    says = f"The best Library of the population: {len(changes)} entries differ."
    return Proposal("bundle", tuple(changes), says, (), SOURCE)


def _hard_first(run: Run, state: State, source: random.Random) -> list[Example]:
    """Order examples: two that are hard for the champion (missed, or a small margin), then a drawn one."""
    judged = [state.outcomes[example.id] for example in run.sides[0]]
    judged.sort(key=lambda outcome: (outcome.credit + (outcome.judgment.margin or 0.0), outcome.example.id))
    hard, order = [outcome.example for outcome in judged], list[Example]()
    while hard:
        order, hard = [*order, *hard[:2]], hard[2:]
        if hard:
            order.append(hard.pop(source.randrange(len(hard))))
    return order


def _rank(member: Member) -> tuple[float, str]:
    return member.fitness, member.library.id


def _length(library: Library) -> int:
    return sum(len(wording(entry)) for entry in library.entries)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
