"""Ideas for edits of a Library: criteria, their weights, when Skills apply, Tools that measure, and Skills to merge.

Each is a proposal whose `idea` identifies it, without the examples that it cites.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, count

from rewardharness.evolution.analyzer import is_general, overlap
from rewardharness.evolution.builtin import phrasing
from rewardharness.evolution.builtin.forecast import Agreement, Forecast, ForecastCase
from rewardharness.evolution.proposal import Operator, Proposal, View, criteria_of
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import AddEntry, Change, Library, RemoveEntry, ReplaceEntry
from rewardharness.library.triggers import MAX_TRIGGERS, Trigger
from rewardharness.measure.table import MEASURES
from rewardharness.task import TEXT, entry_metadata

NAME = "built-in (no model)"
"""Source of the proposals."""
WEIGHTS = (1.0, 2.0, 4.0)
"""Weights with which a new criterion is tried."""
FACTORS = (0.5, 2.0)
"""Factors by which existing weights are changed."""
LEAST_LEAD = 2
"""Minimum lead of agreement over disagreement, in examples, for a measure to get a criterion."""
LIGHTEST, HEAVIEST = 0.25, 16.0
"""Bounds of the weights that are tried."""
NEW_TRIGGERS = 3
"""Triggers that one idea may add."""
PRECISION = 0.6
"""Minimum share of the instructions with a word that ask for a kind of edit, for the word to become a trigger."""
SMALL_BODY, SMALL_RUBRIC = 2500, 6
"""Characters of a body and criteria up to which a Skill is small enough to be merged."""

_WORD = re.compile(r"[a-z]{3,}")
_COMMON = frozenset(
    "the and for with that this from into are was were has have had not but you your its his her their them they "
    "then than when where which while who what how all one two can may should would could will been being does did "
    "over under about between image picture photo make please some also there here just like left right".split()
)


def new_criteria(forecast: Forecast) -> Iterator[Proposal]:
    """Criteria for one kind of edit, in its main Skill or a new one; then for every edit, in a general Skill."""
    for kind, cases in forecast.kinds.items():
        home = forecast.homes[kind]
        for measure in forecast.measures:
            if not any(
                criterion.measure == measure and kind in (criterion.applies or (kind,))
                for criterion in criteria_of(home)
            ):
                yield from _new_criterion(forecast, home, measure, cases, kind)
    general = [entry for entry in forecast.view.library.skills if is_general(entry) and entry.rubric]
    used = {criterion.measure for entry in general for criterion in criteria_of(entry) if not criterion.applies}
    for measure in forecast.measures:
        if measure not in used:
            yield from _new_criterion(forecast, _general_home(general, measure), measure, forecast.cases)


def _new_criterion(
    forecast: Forecast, home: Entry | None, measure: str, cases: Sequence[ForecastCase], kind: str = ""
) -> Iterator[Proposal]:
    """Propose a criterion with each weight, for one kind of edit or for every edit; a missing Skill is added."""
    agreement = forecast.agreement(measure, cases)
    if agreement.lead < LEAST_LEAD:
        return
    why = phrasing.evidence(measure, agreement, f"pairs of {f'kind `{kind}`' if kind else 'all kinds'}")
    thing = "response" if forecast.view.task is TEXT else "edit"
    key: tuple[str, ...] = ("criterion", "every edit")
    says = f"There is one more criterion for every {thing}"
    if kind and home is not None:
        says, key = f"`{home.name}` gets a criterion for edits of kind {kind}", ("criterion", home.name, kind)
    elif kind:
        says, key = f"Edits of kind {kind} get a Skill of their own, with a criterion", ("skill", kind)
    says = f"{says}: {phrasing.title(measure).lower()}. {why}"
    name, text = free_id(home, f"{kind or 'every'}-{_dashed(measure)}"), phrasing.criterion_text(measure)
    first = Criterion(
        name, text, 1, dimension=MEASURES[measure].dimension, measure=measure, applies=(kind,) * bool(kind)
    )
    for criterion in (replace(first, weight=weight) for weight in WEIGHTS):
        change: Change = AddEntry(_new_skill(forecast.view, kind, criterion, why), says)
        if home is not None:
            change = ReplaceEntry(with_criterion(home, criterion, why), says)
        yield _proposal("add", (change,), (*key, measure, f"{criterion.weight:g}"), says)


def _new_skill(view: View, kind: str, criterion: Criterion, why: str) -> Entry:
    wording = phrasing.KINDS[kind] if kind else phrasing.ANY_TEXT if view.task is TEXT else phrasing.ANY
    name = f"judging-{kind}-edits" if kind else f"judging-every-{wording.what.split()[-1]}"
    name = free_name(view.library, name)
    metadata = {**entry_metadata(view.task), "triggers": wording.triggers or "always"}
    body = phrasing.new_body(name, wording, phrasing.note(criterion, why))
    return Entry(name, "skill", wording.description, body, metadata, rubric=Rubric((criterion,)))


def other_weights(forecast: Forecast) -> Iterator[Proposal]:
    """Criteria that should count more, or less."""
    for entry, criterion in forecast.measured():
        for factor in FACTORS:
            weight = criterion.weight * factor
            if not LIGHTEST <= weight <= HEAVIEST:
                continue
            change = f"counts {'more' if factor > 1 else 'less'}: {weight:g} instead of {criterion.weight:g}"
            says = f"The criterion `{criterion.id}` of `{entry.name}` {change}. {_why(forecast, entry, criterion)}"
            key = ("reweight", entry.name, criterion.id, f"{weight:g}")
            yield _changed("reweight", with_other(entry, criterion, replace(criterion, weight=weight)), key, says)


def fewer_criteria(forecast: Forecast) -> Iterator[Proposal]:
    """Criteria whose measure disagrees with the labels more often than not."""
    for entry, criterion in forecast.measured():
        if _agreement(forecast, entry, criterion).lead >= 0:
            continue
        says = f"`{entry.name}` loses the criterion `{criterion.id}`. {_why(forecast, entry, criterion)}"
        key = ("remove", entry.name, criterion.id)
        yield _changed("remove", without_criterion(entry, criterion), key, says)


def divided_criteria(forecast: Forecast) -> Iterator[Proposal]:
    """Criteria that help some kinds of edit and hurt others, limited to those that they help."""
    for entry, criterion in forecast.measured():
        measure, helped, hurt = str(criterion.measure), list[str](), list[str]()
        cases = forecast.judged_by(entry, criterion)
        for kind in sorted({case.kind for case in cases}):
            agreement = forecast.agreement(measure, [case for case in cases if case.kind == kind])
            (hurt if agreement.disagrees > agreement.agrees else helped).append(kind)
        if not hurt or not helped:
            continue
        says = (
            f"The criterion `{criterion.id}` of `{entry.name}` applies only to edits of kind {', '.join(helped)}. "
            f"For {', '.join(hurt)} its measure `{measure}` was more often against the preferred candidate."
        )
        after = with_other(entry, criterion, replace(criterion, applies=tuple(helped)))
        yield _changed("split", after, ("split", entry.name, criterion.id, *helped), says)


def wider_triggers(forecast: Forecast) -> Iterator[Proposal]:
    """Triggers for Skills that are not consulted on all instructions of their kind."""
    for kind, cases in forecast.kinds.items():
        for entry in forecast.view.library.skills:
            if is_general(entry) or not _is_for(forecast, entry, kind):
                continue
            reached = {case.id for case in forecast.reach(entry)}
            passed = [case for case in cases if case.id not in reached and case.outcome.credit < 1]
            words = _telling_words(passed, kind, forecast.cases)
            if not words or len(entry.triggers) + len(words) > MAX_TRIGGERS:
                continue
            says = (
                f"`{entry.name}` is for edits of kind {kind} and was not consulted for {len(passed)} of them that were "
                f"missed. It also applies where the instruction says {', '.join(map(repr, words))}."
            )
            # A Skill without triggers was routed by its description; from here on its triggers decide alone.
            known = entry.metadata.get("triggers") or ", ".join(_own_words(entry, forecast.reach(entry)))
            triggers = ", ".join(filter(None, [known.strip().rstrip(","), *words]))
            after = replace(entry, metadata={**entry.metadata, "triggers": triggers})
            yield _changed("retrigger", after, ("trigger", entry.name, *words), says)


def fewer_triggers(forecast: Forecast) -> Iterator[Proposal]:
    """Triggers by which a Skill is consulted for other kinds of edit."""
    for entry in forecast.view.library.skills:
        if is_general(entry) or len(entry.triggers) < 2:
            continue
        alone: dict[Trigger, list[ForecastCase]] = {}
        for case in forecast.reach(entry):
            asked = case.request
            matching = [trigger for trigger in entry.triggers if trigger.matches(asked.instruction, asked.kinds)]
            if len(matching) == 1:
                alone.setdefault(matching[0], []).append(case)
        for trigger, cases in alone.items():
            at_home = any(_is_for(forecast, entry, case.kind) for case in cases)
            if at_home or all(case.outcome.credit == 1 for case in cases):
                continue
            says = (
                f"`{entry.name}` is no longer consulted because of the trigger `{trigger}`, which alone matched "
                f"{len(cases)} examples."
            )
            rest = ", ".join(str(other) for other in entry.triggers if other != trigger)
            after = replace(entry, metadata={**entry.metadata, "triggers": rest})
            yield _changed("retrigger", after, ("untrigger", entry.name, str(trigger)), says)


def measured_tools(forecast: Forecast) -> Iterator[tuple[float, Proposal]]:
    """Tools for measures that criteria use: new ones, and existing ones with wider triggers.

    Yields:
        The expected benefit, and the idea. It grows with the number of missed examples and with the agreement of the
        measure with the labels; the effect of a Tool on a model cannot be predicted.
    """
    tools = {tool.measure: tool for tool in forecast.view.library.tools if tool.measure is not None}
    seen: set[str] = set()
    for entry, criterion in forecast.measured():
        measure = str(criterion.measure)
        cases = forecast.judged_by(entry, criterion)
        agreement = forecast.agreement(measure, cases)
        promise = sum(1 - case.outcome.credit for case in cases) * (agreement.share - 0.5)
        if MEASURES[measure].medium == "text" or promise <= 0 or (measure in seen and measure not in tools):
            continue
        seen.add(measure)
        why = phrasing.evidence(measure, agreement, f"pairs for which `{entry.name}` is consulted")
        tool = tools.get(measure)
        if tool is None:
            yield promise, _new_tool(forecast, entry, measure, why)
        elif 2 * sum(forecast.fires(tool, case) for case in cases) < len(cases):
            yield promise, _offered_tool(tool, entry, why)


def _new_tool(forecast: Forecast, entry: Entry, measure: str, why: str) -> Proposal:
    name = free_name(forecast.view.library, f"{_dashed(measure)}-meter")
    says = f"A judge can have {measure.replace('_', ' ')} measured where `{entry.name}` is consulted. {why}"
    triggers = entry.metadata.get("triggers", "")
    description = f"Measures on pixels: {MEASURES[measure].description}"
    metadata = {"triggers": triggers} if triggers else {}
    tool = Entry(name, "tool", description, phrasing.tool_body(name, measure), metadata, measure=measure)
    return _proposal("add_tool", (AddEntry(tool, says),), ("tool", measure), says)


def _offered_tool(tool: Entry, entry: Entry, why: str) -> Proposal:
    says = f"The Tool `{tool.name}` is also offered wherever `{entry.name}` is consulted. {why}"
    ours = [str(trigger) for trigger in (*tool.triggers, *entry.triggers)]
    triggers = ", ".join(list(dict.fromkeys(ours))[:MAX_TRIGGERS])
    after = replace(tool, metadata={**tool.metadata, "triggers": "always" if is_general(entry) else triggers})
    return _changed("fix_tool", after, ("offer", tool.name, entry.name), says)


def merged_skills(forecast: Forecast) -> Iterator[Proposal]:
    """Small Skills that are always consulted together and overlap."""
    skills = [entry for entry in forecast.view.library.skills if len(entry.body) <= SMALL_BODY]
    small = [entry for entry in skills if len(criteria_of(entry)) <= SMALL_RUBRIC]
    reach = {entry.name: frozenset(case.id for case in forecast.reach(entry)) for entry in small}
    for first, second in combinations(small, 2):
        together = reach[first.name] == reach[second.name] != frozenset()
        common = overlap(first, second)
        if not together or is_general(first) != is_general(second) or not common.enough:
            continue
        says = f"`{first.name}` and `{second.name}` are consulted for the same examples; one Skill says what both said."
        says += f" They graded twice by {', '.join(common.measures)}." if common.measures else ""
        description, body = f"{first.description} {second.description}"[:1000], phrasing.merged_body(first, second)
        metadata, rubric = {**first.metadata, **_both_triggers(first, second)}, _both_rubrics(first, second)
        after = replace(first, description=description, body=body, metadata=metadata, rubric=rubric)
        changes = (ReplaceEntry(after, says), RemoveEntry(second.name, says))
        yield _proposal("merge", changes, ("merge", first.name, second.name), says)


def _is_for(forecast: Forecast, entry: Entry, kind: str) -> bool:
    return entry == forecast.homes.get(kind) or any(kind in criterion.applies for criterion in criteria_of(entry))


def _telling_words(passed: Sequence[ForecastCase], kind: str, cases: Sequence[ForecastCase]) -> list[str]:
    """Return words of missed instructions that distinguish this kind of edit from others, the most useful first."""
    candidates = sorted({word for case in passed for word in _WORD.findall(case.request.instruction.lower())} - _COMMON)
    useful: dict[str, set[str]] = {}
    for word in candidates:
        trigger = Trigger("words", word)
        hits = [case for case in cases if trigger.matches(case.request.instruction)]
        if sum(kind in case.request.kinds for case in hits) >= max(2, PRECISION * len(hits)):
            useful[word] = {case.id for case in passed if case in hits}
    chosen: list[str] = []
    covered: set[str] = set()
    while useful and len(chosen) < NEW_TRIGGERS:
        best = min(useful, key=lambda word: (-len(useful[word] - covered), word))
        if not useful[best] - covered:
            break
        covered |= useful.pop(best)
        chosen.append(best)
    return chosen


def _own_words(entry: Entry, reached: Sequence[ForecastCase]) -> list[str]:
    """Return words of the description of a Skill that occur in the instructions on which it was consulted."""
    words = dict.fromkeys(_WORD.findall(f"{entry.name.replace('-', ' ')} {entry.description}".lower()))
    asked = {word for case in reached for word in _WORD.findall(case.request.instruction.lower())}
    return [word for word in words if word in asked and word not in _COMMON]


def _both_triggers(first: Entry, second: Entry) -> dict[str, str]:
    if not first.triggers or not second.triggers:
        return {}
    both = list(dict.fromkeys(str(trigger) for trigger in (*first.triggers, *second.triggers)))
    return {"triggers": ", ".join(both[:MAX_TRIGGERS])}


def _both_rubrics(first: Entry, second: Entry) -> Rubric | None:
    if first.rubric is None or second.rubric is None:
        return first.rubric or second.rubric
    known = {(one.measure, one.applies) for one in first.rubric.criteria if one.measure is not None}
    extra = {**second.rubric.extra, **first.rubric.extra}
    for criterion in second.rubric.criteria:
        if (criterion.measure, criterion.applies) not in known:
            first = replace(
                first, rubric=Rubric((*criteria_of(first), replace(criterion, id=free_id(first, criterion.id))))
            )
    return Rubric(criteria_of(first), extra)


def free_name(library: Library, name: str) -> str:
    """Return a name that no entry has."""
    return next(variant for variant in _numbered(name) if variant not in library)


def free_id(entry: Entry | None, name: str) -> str:
    """Return an id that no criterion of a Skill has."""
    taken = {criterion.id for criterion in criteria_of(entry)}
    return next(variant for variant in _numbered(name) if variant not in taken)


def _numbered(name: str) -> Iterator[str]:
    return chain([name], (f"{name}-{number}" for number in count(2)))


def with_criterion(entry: Entry, criterion: Criterion, why: str) -> Entry:
    """Give a Skill one more criterion, in its rubric and in its body."""
    rubric = Rubric((*criteria_of(entry), criterion), entry.rubric.extra if entry.rubric else {})
    return replace(entry, rubric=rubric, body=phrasing.with_note(entry.body, phrasing.note(criterion, why)))


def with_other(entry: Entry, old: Criterion, new: Criterion) -> Entry:
    """Put a criterion in the place of another."""
    assert entry.rubric is not None
    criteria = tuple(new if criterion.id == old.id else criterion for criterion in entry.rubric.criteria)
    return replace(entry, rubric=replace(entry.rubric, criteria=criteria))


def without_criterion(entry: Entry, criterion: Criterion) -> Entry:
    """Take a criterion out of a Skill; a rubric that would have no weight left goes as a whole."""
    assert entry.rubric is not None
    rest = tuple(other for other in entry.rubric.criteria if other.id != criterion.id)
    rubric = replace(entry.rubric, criteria=rest) if any(other.weight > 0 for other in rest) else None
    return replace(entry, rubric=rubric, body=phrasing.without_note(entry.body, criterion))


def _general_home(general: Sequence[Entry], measure: str) -> Entry | None:
    """Return the Skill for every edit with the most criteria in the dimension of a measure."""
    dimension = MEASURES[measure].dimension
    sizes = {entry.name: sum(criterion.dimension == dimension for criterion in criteria_of(entry)) for entry in general}
    return min(general, key=lambda entry: (-sizes[entry.name], entry.name), default=None)


def _agreement(forecast: Forecast, entry: Entry, criterion: Criterion) -> Agreement:
    return forecast.agreement(str(criterion.measure), forecast.judged_by(entry, criterion))


def _why(forecast: Forecast, entry: Entry, criterion: Criterion) -> str:
    agreement = _agreement(forecast, entry, criterion)
    return phrasing.evidence(str(criterion.measure), agreement, "pairs to which it applies")


def _proposal(operator: Operator, changes: tuple[Change, ...], key: tuple[str, ...], says: str) -> Proposal:
    return Proposal(operator, changes, says, (), NAME, key)


def _changed(operator: Operator, after: Entry, key: tuple[str, ...], says: str) -> Proposal:
    return _proposal(operator, (ReplaceEntry(after, says),), key, says)


def _dashed(measure: str) -> str:
    return measure.replace("_", "-")


IDEAS = (new_criteria, other_weights, fewer_criteria, divided_criteria, wider_triggers, fewer_triggers, merged_skills)
"""All ideas about Skills, in the order in which they are tried."""
