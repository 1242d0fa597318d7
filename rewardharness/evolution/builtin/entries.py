"""Ideas about whole entries: when they apply, Tools that measure, and Skills that may become one."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from rewardharness.evolution.builtin.forecast import ForecastCase
from rewardharness.evolution.builtin.ideas import Idea, RoundContext, free_id, free_name
from rewardharness.evolution.builtin.phrasing import evidence, merged_body, tool_body
from rewardharness.evolution.shape import is_general, overlap
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import AddEntry, RemoveEntry, ReplaceEntry
from rewardharness.library.triggers import MAX_TRIGGERS, Trigger
from rewardharness.measure.table import MEASURES

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


def wider_triggers(context: RoundContext) -> Iterator[Idea]:
    """Triggers for Skills that are not consulted on all instructions of their kind."""
    for kind, cases in context.kinds.items():
        for entry in context.library.skills:
            if is_general(entry) or not (entry == context.homes[kind] or _is_for(entry, kind)):
                continue
            reached = {case.id for case in context.forecast.reach(entry)}
            passed = [case for case in cases if case.id not in reached and case.outcome.credit < 1]
            words = _telling_words(passed, kind, context.forecast.cases)
            if not words or len(entry.triggers) + len(words) > MAX_TRIGGERS:
                continue
            says = (
                f"`{entry.name}` is for edits of kind {kind} and was not consulted for {len(passed)} of them that were "
                f"missed. It also applies where the instruction says {', '.join(map(repr, words))}."
            )
            # A Skill without triggers was routed by its description; from here on its triggers decide alone.
            known = entry.metadata.get("triggers") or ", ".join(_own_words(entry, context.forecast.reach(entry)))
            triggers = ", ".join(filter(None, [known.strip().rstrip(","), *words]))
            after = replace(entry, metadata={**entry.metadata, "triggers": triggers})
            yield Idea("retrigger", (ReplaceEntry(after, says),), ("trigger", entry.name, *words), says)


def fewer_triggers(context: RoundContext) -> Iterator[Idea]:
    """Triggers by which a Skill is consulted for other kinds of edit."""
    for entry in context.library.skills:
        if is_general(entry) or len(entry.triggers) < 2:
            continue
        alone: dict[Trigger, list[ForecastCase]] = {}
        for case in context.forecast.reach(entry):
            matching = [trigger for trigger in entry.triggers if trigger.matches(case.request.instruction)]
            if len(matching) == 1:
                alone.setdefault(matching[0], []).append(case)
        for trigger, cases in alone.items():
            at_home = any(entry == context.homes[case.kind] or _is_for(entry, case.kind) for case in cases)
            if at_home or all(case.outcome.credit == 1 for case in cases):
                continue
            says = (
                f"`{entry.name}` is no longer consulted because an instruction says {str(trigger)!r}, which alone "
                f"matched {len(cases)} examples."
            )
            rest = ", ".join(str(each) for each in entry.triggers if each != trigger)
            after = replace(entry, metadata={**entry.metadata, "triggers": rest})
            yield Idea("retrigger", (ReplaceEntry(after, says),), ("untrigger", entry.name, str(trigger)), says)


def measured_tools(context: RoundContext) -> Iterator[tuple[float, Idea]]:
    """Tools for measures that criteria use: new ones, and existing ones with wider triggers.

    Yields:
        The expected benefit, and the idea. It grows with the number of missed examples and with the agreement of the
        measure with the labels; the effect of a Tool on a model cannot be predicted.
    """
    tools = {tool.measure: tool for tool in context.library.tools if tool.measure is not None}
    seen: set[str] = set()
    for entry, criterion in context.measured():
        measure = str(criterion.measure)
        cases = context.judged_by(entry, criterion)
        agreement = context.forecast.agreement(measure, cases)
        promise = sum(1 - case.outcome.credit for case in cases) * (agreement.share - 0.5)
        if promise <= 0 or (measure in seen and measure not in tools):
            continue
        seen.add(measure)
        why = evidence(measure, agreement, f"pairs for which `{entry.name}` is consulted")
        tool = tools.get(measure)
        if tool is None:
            yield promise, _new_tool(context, entry, measure, why)
        elif 2 * sum(context.forecast.fires(tool, case) for case in cases) < len(cases):
            yield promise, _offered_tool(tool, entry, why)


def _new_tool(context: RoundContext, entry: Entry, measure: str, why: str) -> Idea:
    name = free_name(context.library, f"{measure.replace('_', '-')}-meter")
    says = f"A judge can have {measure.replace('_', ' ')} measured where `{entry.name}` is consulted. {why}"
    triggers = entry.metadata.get("triggers", "")
    description = f"Measures on pixels: {MEASURES[measure].description}"
    metadata = {"triggers": triggers} if triggers else {}
    tool = Entry(name, "tool", description, tool_body(name, measure), metadata, measure=measure)
    return Idea("add_tool", (AddEntry(tool, says),), ("tool", measure), says)


def _offered_tool(tool: Entry, entry: Entry, why: str) -> Idea:
    says = f"The Tool `{tool.name}` is also offered wherever `{entry.name}` is consulted. {why}"
    ours = [str(trigger) for trigger in (*tool.triggers, *entry.triggers)]
    triggers = ", ".join(list(dict.fromkeys(ours))[:MAX_TRIGGERS])
    after = replace(tool, metadata={**tool.metadata, "triggers": "always" if is_general(entry) else triggers})
    return Idea("fix_tool", (ReplaceEntry(after, says),), ("offer", tool.name, entry.name), says)


def merged_skills(context: RoundContext) -> Iterator[Idea]:
    """Small Skills that are always consulted together and overlap."""
    small = [entry for entry in context.library.skills if _is_small(entry)]
    reach = {entry.name: frozenset(case.id for case in context.forecast.reach(entry)) for entry in small}
    for first, second in combinations(small, 2):
        bundle_of = reach[first.name] == reach[second.name] != frozenset()
        common = overlap(first, second)
        if not bundle_of or is_general(first) != is_general(second) or not common.found:
            continue
        says = f"`{first.name}` and `{second.name}` are consulted for the same examples; one Skill says what both said."
        says += f" They graded twice by {', '.join(common.measures)}." if common.measures else ""
        after = replace(
            first,
            description=f"{first.description} {second.description}"[:1000],
            body=merged_body(first, second),
            metadata={**first.metadata, **_both_triggers(first, second)},
            rubric=_both_rubrics(first, second),
        )
        changes = (ReplaceEntry(after, says), RemoveEntry(second.name, says))
        yield Idea("merge", changes, ("merge", first.name, second.name), says)


def _is_for(entry: Entry, kind: str) -> bool:
    return any(kind in each.applies for each in (entry.rubric.criteria if entry.rubric else ()))


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


def _is_small(entry: Entry) -> bool:
    return len(entry.body) <= SMALL_BODY and len(entry.rubric.criteria if entry.rubric else ()) <= SMALL_RUBRIC


def _both_triggers(first: Entry, second: Entry) -> dict[str, str]:
    if not first.triggers or not second.triggers:
        return {}
    both = list(dict.fromkeys(str(trigger) for trigger in (*first.triggers, *second.triggers)))
    return {"triggers": ", ".join(both[:MAX_TRIGGERS])}


def _both_rubrics(first: Entry, second: Entry) -> Rubric | None:
    if first.rubric is None or second.rubric is None:
        return first.rubric or second.rubric
    criteria: list[Criterion] = list(first.rubric.criteria)
    known = {(one.measure, one.applies) for one in criteria if one.measure is not None}
    for each in second.rubric.criteria:
        if (each.measure, each.applies) in known:
            continue
        criteria.append(replace(each, id=free_id(replace(first, rubric=Rubric(tuple(criteria))), each.id)))
    return Rubric(tuple(criteria), {**second.rubric.extra, **first.rubric.extra})
