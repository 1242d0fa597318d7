"""Schedules of mutation operators: what to ask for next.

Schedules and their states are values. Random numbers depend on the seed and the state alone, so that a resumed run
asks for the same operators.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean
from typing import Any, Literal, get_args

from rewardharness.errors import InputError, shown
from rewardharness.evolution.objective import JudgedPair
from rewardharness.evolution.proposal import MUTATIONS, Mutation
from rewardharness.evolution.state import seed_of
from rewardharness.judging.ranks import spearman

ScheduleKind = Literal["fixed", "success_feedback", "exploration_decay", "diversity_driven"]
"""How operators are chosen.

`fixed`: in turn. `success_feedback`: Thompson sampling from the gains of earlier children. `exploration_decay`: at
first operators that change the structure of the Library, later those that refine its entries. `diversity_driven`: the
more alike the members of the population judge, the more operators that change the structure.
"""

STRUCTURAL: frozenset[Mutation] = frozenset({"decompose", "counterexample_trigger", "merge", "retire", "swap_tool"})
"""Operators that change what the Library consists of; the others refine its entries."""


@dataclass(frozen=True)
class OperatorSchedule:
    """The settings of a schedule."""

    kind: ScheduleKind = "success_feedback"
    operators: tuple[Mutation, ...] = MUTATIONS
    prior: float = 1.0
    """Both parameters of the Beta prior of an operator."""
    full_gain: float = 0.1
    """Gain that counts as a full success; as a loss, as a full failure."""
    half_life: float = 20.0
    """Children after which the share of structural operators has halved. For `exploration_decay`."""
    least: float = 0.2
    """Smallest share of structural operators."""
    enough: float = 0.3
    """Diversity from which on the share of structural operators is the smallest. For `diversity_driven`."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.operators if name not in MUTATIONS]
        if self.kind not in get_args(ScheduleKind):
            raise InputError(
                f"Unknown operator schedule '{shown(str(self.kind), 40)}'.",
                next_step=f"Choose one of: {', '.join(get_args(ScheduleKind))}.",
            )
        if unknown or not self.operators or len(set(self.operators)) < len(self.operators):
            problem = (
                f"Unknown operator '{shown(str(unknown[0]), 40)}'" if unknown else "Operators are missing or repeated"
            )
            raise InputError(f"{problem}.", next_step=f"List some of: {', '.join(MUTATIONS)}.")
        positive = (self.prior, self.full_gain, self.half_life, self.enough)
        if not all(math.isfinite(each) and each > 0 for each in positive) or not 0 <= self.least <= 1:
            raise InputError(
                "A number of the operator schedule is not usable.",
                next_step="Give positive numbers, and a smallest share from 0 to 1.",
            )


@dataclass(frozen=True)
class OperatorRecord:
    """Results of the children of one operator."""

    children: int = 0
    successes: float = 0.0
    failures: float = 0.0


@dataclass(frozen=True)
class OperatorState:
    """What a schedule remembers."""

    asked: int = 0
    """Operators asked for so far."""
    records: Mapping[str, OperatorRecord] = field(default_factory=dict)

    def observed(self, operator: Mutation, gain: float | None, schedule: OperatorSchedule) -> "OperatorState":
        """Return the state after a child of an operator was judged.

        Args:
            operator: The operator.
            gain: Its paired gain over its parent, with sign; None without a usable child, which is a failure.
            schedule: The schedule.
        """
        share = 0.0 if gain is None else min(1.0, max(0.0, 0.5 + 0.5 * gain / schedule.full_gain))
        old = self.records.get(operator, OperatorRecord())
        new = OperatorRecord(old.children + 1, old.successes + share, old.failures + 1.0 - share)
        return replace(self, records={**self.records, operator: new})

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        rows = {name: [row.children, row.successes, row.failures] for name, row in sorted(self.records.items())}
        return {"asked": self.asked, "records": rows}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "OperatorState":
        """Read the JSON form.

        Raises:
            InputError: If it is damaged.
        """
        try:
            rows = {name: OperatorRecord(*row) for name, row in value["records"].items()}
            numbers = [value["asked"], *(number for row in value["records"].values() for number in row)]
        except (KeyError, TypeError, AttributeError) as error:
            raise _damaged() from error
        usable = all(isinstance(number, int | float) and 0 <= number < math.inf for number in numbers)
        if not usable or len(numbers) != 1 + 3 * len(rows) or not rows.keys() <= set(MUTATIONS):
            raise _damaged()
        return cls(value["asked"], rows)


def next_operators(
    schedule: OperatorSchedule,
    state: OperatorState,
    count: int,
    *,
    seed: int,
    possible: Sequence[Mutation] = MUTATIONS,
    diversity: float | None = None,
) -> tuple[tuple[Mutation, ...], OperatorState]:
    """Choose the operators of the next children.

    Args:
        schedule: The schedule.
        state: Results of earlier children.
        count: How many operators are wanted.
        seed: Random seed of the run.
        possible: Operators that can be applied to the parent.
        diversity: Diversity of the population, for `diversity_driven`; None if it is unknown, which counts as 0.

    Returns:
        The operators, none if none is possible; and the state to go on with.
    """
    usable = [name for name in schedule.operators if name in possible]
    if not usable:
        return (), state
    chosen: list[Mutation] = []
    for number in range(state.asked, state.asked + count):
        if schedule.kind == "fixed":
            chosen.append(_in_turn(schedule.operators, usable, number))
            continue
        source = random.Random(seed_of("operator", seed, number))
        if schedule.kind == "success_feedback":
            chosen.append(max(usable, key=_draws(schedule, state, usable, source).__getitem__))
        else:
            chosen.append(_by_share(_structural_share(schedule, number, diversity), usable, source))
    return tuple(chosen), replace(state, asked=state.asked + count)


def behavioral_distance(first: Sequence[JudgedPair], second: Sequence[JudgedPair]) -> float | None:
    """Return how differently two Libraries judge: 1 minus Spearman's correlation of their margins, in [0, 2].

    Args:
        first: Pairs of a probe set, judged with one Library.
        second: The same pairs, judged with the other Library.

    Returns:
        The distance; None if fewer than two pairs were judged with both, or if one Library gives all pairs one margin.
    """
    one, other = ({pair.key: pair for pair in pairs if pair.margin is not None} for pairs in (first, second))
    keys = sorted(one.keys() & other.keys(), key=lambda key: (key[0], sorted(key[1])))
    margins = [_toward_first_name(one[key]) for key in keys], [_toward_first_name(other[key]) for key in keys]
    if len(keys) > 1 and margins[0] == margins[1]:
        return 0.0
    rho = spearman(*margins)
    return None if rho is None else 1.0 - rho


def diversity_of(population: Sequence[Sequence[JudgedPair]]) -> float | None:
    """Return the mean distance between the members of a population; None if no distance is known.

    Args:
        population: The pairs of one probe set, as judged with each Library.
    """
    found = [behavioral_distance(one, other) for one, other in combinations(population, 2)]
    known = [distance for distance in found if distance is not None]
    return fmean(known) if known else None


def _in_turn(operators: Sequence[Mutation], usable: Sequence[Mutation], number: int) -> Mutation:
    """Return the operator at a place of the cycle, or the next one that is usable."""
    places = range(number, number + len(operators))
    return next(name for place in places if (name := operators[place % len(operators)]) in usable)


def _draws(
    schedule: OperatorSchedule, state: OperatorState, usable: Sequence[Mutation], source: random.Random
) -> dict[Mutation, float]:
    """Draw the success rate of each operator from its posterior."""
    records = {name: state.records.get(name, OperatorRecord()) for name in usable}
    return {
        name: source.betavariate(schedule.prior + row.successes, schedule.prior + row.failures)
        for name, row in records.items()
    }


def _structural_share(schedule: OperatorSchedule, number: int, diversity: float | None) -> float:
    if schedule.kind == "exploration_decay":
        need = math.pow(0.5, number / schedule.half_life)
    else:
        need = min(1.0, max(0.0, 1.0 - (diversity or 0.0) / schedule.enough))
    return schedule.least + (1.0 - schedule.least) * need


def _by_share(share: float, usable: Sequence[Mutation], source: random.Random) -> Mutation:
    structural = [name for name in usable if name in STRUCTURAL]
    refining = [name for name in usable if name not in STRUCTURAL]
    wanted = structural if source.random() < share else refining
    return source.choice(wanted or usable)


def _toward_first_name(pair: JudgedPair) -> float:
    """Return the margin of the candidate whose name sorts first, so that labels do not correlate with it."""
    assert pair.margin is not None
    margin: float = pair.margin
    return margin if pair.better < pair.worse else -margin


def _damaged() -> InputError:
    return InputError("The state of the operator schedule is damaged.", next_step="Start over with --restart.")
