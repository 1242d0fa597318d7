"""Ideas about criteria: new ones, other weights, and criteria that are removed or apply to fewer kinds of edit."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rewardharness.evolution.builtin.forecast import Agreement
from rewardharness.evolution.builtin.ideas import (
    Idea,
    RoundContext,
    free_id,
    free_name,
    with_criterion,
    with_other,
    without_criterion,
)
from rewardharness.evolution.builtin.phrasing import (
    ANY,
    KINDS,
    KindWords,
    criterion_text,
    evidence,
    new_body,
    note,
    title,
)
from rewardharness.evolution.shape import is_general
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import AddEntry, ReplaceEntry
from rewardharness.measure.table import MEASURES

WEIGHTS = (1.0, 2.0, 4.0)
"""Weights with which a new criterion is tried."""
FACTORS = (0.5, 2.0)
"""Factors by which existing weights are changed."""
LEAST_LEAD = 2
"""Minimum lead of agreement over disagreement, in examples, for a measure to get a criterion."""
LIGHTEST, HEAVIEST = 0.25, 16.0
"""Bounds of the weights that are tried."""


def criteria_for_kinds(context: RoundContext) -> Iterator[Idea]:
    """Criteria for one kind of edit, in the main Skill of that kind or in a new one."""
    for kind, cases in context.kinds.items():
        home = context.homes[kind]
        for measure in context.measures:
            agreement = context.forecast.agreement(measure, cases)
            if agreement.lead >= LEAST_LEAD and not _grades(home, measure, kind):
                why = evidence(measure, agreement, f"pairs of kind `{kind}`")
                for weight in WEIGHTS:
                    criterion = _criterion(free_id(home, f"{kind}-{_dashed(measure)}"), measure, weight, (kind,))
                    yield _for_kind(context, home, kind, criterion, why)


def _for_kind(context: RoundContext, home: Entry | None, kind: str, criterion: Criterion, why: str) -> Idea:
    measure, weight = str(criterion.measure), f"{criterion.weight:g}"
    if home is not None:
        says = f"`{home.name}` gets a criterion for edits of kind {kind}: {title(measure).lower()}. {why}"
        key = ("criterion", home.name, kind, measure, weight)
        return Idea("add", (ReplaceEntry(with_criterion(home, criterion, why), says),), key, says)
    says = f"Edits of kind {kind} get a Skill of their own, with a criterion: {title(measure).lower()}. {why}"
    entry = _new_skill(free_name(context.library, f"judging-{kind}-edits"), KINDS[kind], criterion, why)
    return Idea("add", (AddEntry(entry, says),), ("skill", kind, measure, weight), says)


def criteria_for_all(context: RoundContext) -> Iterator[Idea]:
    """Criteria for every edit, in a Skill that is always consulted."""
    general = [entry for entry in context.library.skills if is_general(entry) and entry.rubric]
    used = {each.measure for entry in general if entry.rubric for each in entry.rubric.criteria if not each.applies}
    for measure in context.measures:
        agreement = context.forecast.agreement(measure, context.forecast.cases)
        if measure in used or agreement.lead < LEAST_LEAD:
            continue
        why = evidence(measure, agreement, "pairs of all kinds")
        says = f"There is one more criterion for every edit: {title(measure).lower()}. {why}"
        home = _general_home(general, measure)
        for weight in WEIGHTS:
            criterion = _criterion(free_id(home, f"every-{_dashed(measure)}"), measure, weight, ())
            key = ("criterion", "every edit", measure, f"{weight:g}")
            if home is not None:
                yield Idea("add", (ReplaceEntry(with_criterion(home, criterion, why), says),), key, says)
            else:
                name = free_name(context.library, "judging-every-edit")
                entry = _new_skill(name, ANY, criterion, why)
                yield Idea("add", (AddEntry(entry, says),), key, says)


def other_weights(context: RoundContext) -> Iterator[Idea]:
    """Criteria that should count more, or less."""
    for entry, criterion in context.measured():
        for factor in FACTORS:
            weight = criterion.weight * factor
            if not LIGHTEST <= weight <= HEAVIEST:
                continue
            how = f"counts {'more' if factor > 1 else 'less'}: {weight:g} instead of {criterion.weight:g}"
            says = f"The criterion `{criterion.id}` of `{entry.name}` {how}. {_why(context, entry, criterion)}"
            key = ("reweight", entry.name, criterion.id, f"{weight:g}")
            after = with_other(entry, criterion, replace(criterion, weight=weight))
            yield Idea("reweight", (ReplaceEntry(after, says),), key, says)


def fewer_criteria(context: RoundContext) -> Iterator[Idea]:
    """Criteria whose measure disagrees with the labels more often than not."""
    for entry, criterion in context.measured():
        if _agreement(context, entry, criterion).lead >= 0:
            continue
        says = f"`{entry.name}` loses the criterion `{criterion.id}`. {_why(context, entry, criterion)}"
        after = without_criterion(entry, criterion)
        yield Idea("remove", (ReplaceEntry(after, says),), ("remove", entry.name, criterion.id), says)


def divided_criteria(context: RoundContext) -> Iterator[Idea]:
    """Criteria that help some kinds of edit and hurt others, limited to those that they help."""
    for entry, criterion in context.measured():
        measure, helped, hurt = str(criterion.measure), list[str](), list[str]()
        cases = context.judged_by(entry, criterion)
        for kind in sorted({case.kind for case in cases}):
            agreement = context.forecast.agreement(measure, [case for case in cases if case.kind == kind])
            (hurt if agreement.disagrees > agreement.agrees else helped).append(kind)
        if not hurt or not helped:
            continue
        says = (
            f"The criterion `{criterion.id}` of `{entry.name}` applies only to edits of kind {', '.join(helped)}. "
            f"For {', '.join(hurt)} its measure `{measure}` was more often against the preferred candidate."
        )
        after = with_other(entry, criterion, replace(criterion, applies=tuple(helped)))
        yield Idea("split", (ReplaceEntry(after, says),), ("split", entry.name, criterion.id, *helped), says)


def _grades(home: Entry | None, measure: str, kind: str) -> bool:
    criteria = home.rubric.criteria if home is not None and home.rubric else ()
    return any(each.measure == measure and (not each.applies or kind in each.applies) for each in criteria)


def _general_home(general: Sequence[Entry], measure: str) -> Entry | None:
    """Return the Skill for every edit with the most criteria in the dimension of a measure."""
    dimension = MEASURES[measure].dimension

    def rank(entry: Entry) -> tuple[int, str]:
        criteria = entry.rubric.criteria if entry.rubric else ()
        return -sum(each.dimension == dimension for each in criteria), entry.name

    return min(general, key=rank, default=None)


def _agreement(context: RoundContext, entry: Entry, criterion: Criterion) -> Agreement:
    return context.forecast.agreement(str(criterion.measure), context.judged_by(entry, criterion))


def _why(context: RoundContext, entry: Entry, criterion: Criterion) -> str:
    return evidence(str(criterion.measure), _agreement(context, entry, criterion), "pairs to which it applies")


def _criterion(name: str, measure: str, weight: float, applies: tuple[str, ...]) -> Criterion:
    dimension = MEASURES[measure].dimension
    return Criterion(name, criterion_text(measure), weight, dimension=dimension, measure=measure, applies=applies)


def _new_skill(name: str, words: KindWords, criterion: Criterion, why: str) -> Entry:
    body = new_body(name, words, note(criterion, why))
    description = f"How to judge an edit that {words.phrase}."
    return Entry(
        name, "skill", description, body, {"triggers": words.triggers or "always"}, rubric=Rubric((criterion,))
    )


def _dashed(measure: str) -> str:
    return measure.replace("_", "-")
