"""Mutation operators: purposes of edits, each with a condition that is checked on the edit itself.

A model is asked for an operator and may write anything, so what it wrote is compared with the Library before the edit.
The checks judge nothing and use no label beyond those of the examples that proposals are written from.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rewardharness.evolution.evolver import similarity
from rewardharness.evolution.proposal import MUTATIONS, Mutation, Operator, Outcome, Proposal, View, wording
from rewardharness.judging.router import fires
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion
from rewardharness.library.store import RemoveEntry
from rewardharness.measure.table import MEASURES

OPERATORS_OF: Mapping[Mutation, tuple[Operator, ...]] = MappingProxyType(
    {
        "raise_bar": ("modify",),
        "decompose": ("modify", "split"),
        "focus_on_facts": ("modify",),
        "punish_artifacts": ("modify", "add", "reweight"),
        "counterexample_trigger": ("add", "modify"),
        "reweight": ("reweight",),
        "merge": ("merge",),
        "retire": ("remove", "modify"),
        "retrigger": ("retrigger",),
        "swap_tool": ("fix_tool",),
        "fix_tool": ("fix_tool",),
    }
)
"""The typed edits that each operator can be written with."""

WITHOUT_MODEL: frozenset[Mutation] = frozenset(
    {"decompose", "punish_artifacts", "counterexample_trigger", "reweight", "merge", "retire", "retrigger"}
)
"""Operators that the built-in Orchestrator can apply in the phase `skills`."""

SAME_TEXT = 0.8
"""Share of word shingles from which on two parts of a criterion say the same."""
WEIGHT_TOLERANCE = 0.25
"""Relative change of weight that a decomposition may make."""
LEAST_SHIFT = 0.01
"""Smallest change of a share of the weight that counts."""

_TASTE = re.compile(
    r"\b(aesthetic\w*|appeal\w*|attractive\w*|beaut\w*|compelling|creative\w*|elegan\w*|excellent|impressive\w*|lovely|nice\w*"
    r"|pleas(?:ant|ing)\w*|pretty|satisf\w*|striking\w*|stunning|subjective\w*|tasteful\w*|vibe\w*|wonderful\w*)\b"
    r"|好看|美观|漂亮|优美|精美|出色|令人满意|有创意|吸引人|惊艳",
    re.IGNORECASE,
)
_FACTS = re.compile(
    r"\b(absent|brightness|colou?rs?|count\w*|edges?|exactly|fingers?|hues?|identical|labels?|letters?|lines?|materials?"
    r"|missing|number|objects?|outlines?|pixels?|positions?|present|shadows?|shapes?|sizes?|spell\w*|textures?|unchanged"
    r"|visible|words?)\b"
    r"|数量|颜色|位置|大小|形状|边缘|阴影|材质|纹理|文字|字母|缺失|存在|物体|亮度|像素|轮廓",
    re.IGNORECASE,
)
_ARTIFACTS = re.compile(
    r"\b(alter\w*|artifacts?|banding|blocky|blur\w*|defects?|deform\w*|distort\w*|duplicat\w*|extra|flicker\w*|ghost\w*|halos?"
    r"|melted|nois[ey]\w*|over-?edit\w*|oversaturat\w*|oversharpen\w*|pasted|preserv\w*|seams?|smear\w*|unasked|unchanged"
    r"|unnatural\w*|unrelated|unrequested|untouched|unwanted|warp\w*)\b"
    r"|瑕疵|伪影|接缝|模糊|变形|扭曲|噪点|光晕|拼贴|过度编辑|多余|保持不变|未要求|没有要求|失真|重影",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Step:
    """One entry before and after an edit."""

    old: Entry | None
    new: Entry | None

    @property
    def criteria(self) -> tuple[dict[str, Criterion], dict[str, Criterion]]:
        """Its criteria before and after, by id."""
        return _criteria(self.old), _criteria(self.new)


@dataclass(frozen=True)
class _Edit:
    """An edit, with what it changes."""

    steps: tuple[_Step, ...]
    cited: tuple[str, ...]
    outcomes: tuple[Outcome, ...]

    def changed(self, kind: str) -> list[_Step]:
        """Entries of a kind that are there before and after."""
        return [step for step in self.steps if step.old and step.new and step.old.kind == step.new.kind == kind]


def condition_problem(mutation: Mutation, proposal: Proposal, view: View) -> str:
    """Return why an edit does not do what an operator is for, in a sentence; empty if it does.

    Args:
        mutation: The operator.
        proposal: The edit, which can be applied to the Library of the view.
        view: The input of the round.
    """
    steps: list[_Step] = []
    for change in proposal.changes:
        name = change.name if isinstance(change, RemoveEntry) else change.entry.name
        steps.append(_Step(view.library.get(name), None if isinstance(change, RemoveEntry) else change.entry))
    return _CONDITIONS[mutation](_Edit(tuple(steps), proposal.cited, view.outcomes))


def possible_mutations(view: View, *, model: bool = True) -> tuple[Mutation, ...]:
    """Return the operators that the Library and the phase of a round allow.

    Args:
        view: The input of the round.
        model: Whether a model writes the edits; the built-in Orchestrator applies fewer operators.
    """
    skills, tools = view.library.skills, view.library.tools
    free = [entry for entry in (tools if view.phase == "tools" else view.library.entries) if not entry.protected]
    sizes = [len(entry.rubric.criteria) if entry.rubric else 0 for entry in skills]
    in_phase: dict[str, dict[Mutation, bool]] = {
        "skills": {
            "raise_bar": bool(skills),
            "decompose": bool(skills) if model else any(sizes),
            "focus_on_facts": bool(skills),
            "punish_artifacts": True,
            "counterexample_trigger": any(outcome.failed for outcome in view.outcomes),
            "reweight": any(size > 1 for size in sizes),
            "merge": len(skills) > 1,
            "retire": any(entry.kind == "skill" for entry in free) or any(size > 1 for size in sizes),
            "retrigger": bool(skills),
        },
        "tools": {"swap_tool": bool(tools), "fix_tool": bool(tools), "retire": bool(free), "retrigger": bool(tools)},
        "prune": {"merge": len(skills) > 1 or len(tools) > 1, "retire": bool(free)},
    }
    allowed = in_phase[view.phase]
    known = MUTATIONS if model else tuple(name for name in MUTATIONS if name in WITHOUT_MODEL)
    return tuple(name for name in known if allowed.get(name, False))


def _raises_bar(edit: _Edit) -> str:
    problem = _only_changes(edit, "skill", "Raising the bar")
    for step in edit.changed("skill"):
        before, after = step.criteria
        if before.keys() - after.keys() or after.keys() - before.keys():
            return "Raising the bar changes criteria and neither adds nor removes any."
        shares = _shares(step.old), _shares(step.new)
        stricter = [name for name in before if after[name].text != before[name].text]
        if any(len(after[name].text) < len(before[name].text) for name in stricter):
            return "A stricter criterion says at least as much as before."
        if any(shares[1].get(name, 0.0) < shares[0].get(name, 0.0) - LEAST_SHIFT for name in stricter):
            return "A stricter criterion keeps at least its share of the weight."
        if not stricter and (before or not _says_more(step)):
            problem = problem or "No criterion asks for more than before."
    return problem


def _decomposes(edit: _Edit) -> str:
    old, new = ([entry for step in edit.steps if (entry := pick(step))] for pick in (_old, _new))
    if len(old) == 1 and len(new) == 2:
        same = similarity(wording(new[0]), wording(new[1])) >= SAME_TEXT
        return "The two entries of a decomposition say different things." if same else ""
    problem = _only_changes(edit, "skill", "A decomposition")
    if problem or len(edit.steps) != 1:
        return problem or "A decomposition changes one Skill."
    before, after = edit.steps[0].criteria
    parents = [one for name, one in before.items() if after.get(name) != one]
    parts = [one for name, one in after.items() if before.get(name) != one]
    if len(parents) != 1 or len(parts) < 2:
        return "A decomposition replaces one criterion with two or more."
    for number, one in enumerate(parts):
        for other in parts[:number]:
            apart = one.measure != other.measure or set(one.applies) != set(other.applies)
            if not apart and (one.text == other.text or similarity(one.text, other.text) >= SAME_TEXT):
                return "The parts of a decomposed criterion look at different things."
    alone = all(one.applies for one in parts) and len({kind for one in parts for kind in one.applies}) == sum(
        len(set(one.applies)) for one in parts
    )
    weight = max(one.weight for one in parts) if alone else sum(one.weight for one in parts)
    if abs(weight - parents[0].weight) > WEIGHT_TOLERANCE * parents[0].weight:
        return f"The parts have about the weight of the criterion together: {parents[0].weight:g}."
    return ""


def _states_facts(edit: _Edit) -> str:
    problem = _only_changes(edit, "skill", "Focusing on facts")
    if problem:
        return problem
    old, new = (_all_wording(edit, pick) for pick in (_old, _new))
    if len(_TASTE.findall(new)) > len(_TASTE.findall(old)):
        return "The new wording has more words of taste than before."
    measured = sum(one.measure is not None for step in edit.steps for one in step.criteria[1].values())
    measured -= sum(one.measure is not None for step in edit.steps for one in step.criteria[0].values())
    fewer = len(_TASTE.findall(new)) < len(_TASTE.findall(old))
    if fewer or measured > 0 or len(_FACTS.findall(new)) > len(_FACTS.findall(old)):
        return ""
    return "The new wording names no more observable facts, such as counts, colors or positions, than before."


def _punishes_artifacts(edit: _Edit) -> str:
    if any(step.new is None for step in edit.steps):
        return "Punishing artifacts removes no entry."
    for step in edit.steps:
        before, after = (_artifact_share(entry) for entry in (step.old, step.new))
        if after > before + LEAST_SHIFT:
            return ""
        if not step.criteria[1] and _mentions(_ARTIFACTS, step.new) > _mentions(_ARTIFACTS, step.old):
            return ""
    return "No criterion about artifacts or unrequested changes gets more weight than before."


def _answers_counterexample(edit: _Edit) -> str:
    if any(step.new is None for step in edit.steps):
        return "A rule for a counterexample removes no entry."
    cited = [item for item in edit.outcomes if item.example.id in edit.cited and item.failed]
    passed = [item for item in edit.outcomes if item.judged and not item.failed]
    new = [step.new for step in edit.steps if step.new and _guidance(step.new) != _guidance(step.old)]
    if not new:
        return "No entry says anything new."
    if not any(fires(entry, item.example.instruction) for entry in new for item in cited):
        return "The triggers match none of the cited failures."
    if passed and all(fires(entry, item.example.instruction) for entry in new for item in passed):
        return "The triggers match every success, too; choose words of the cited failures."
    return ""


def _reweights(edit: _Edit) -> str:
    problem = _only_changes(edit, "skill", "Reweighting")
    for step in edit.changed("skill"):
        before, after = step.criteria
        if before.keys() != after.keys() or any(before[name].text != after[name].text for name in before):
            return "Reweighting changes weights and no criterion."
        if step.old and step.new and _guidance(step.old) != _guidance(step.new):
            return "Reweighting changes weights and no text."
    shifts = [abs(after - before) for step in edit.steps for before, after in _share_pairs(step)]
    return problem or (
        "" if max(shifts, default=0.0) >= LEAST_SHIFT else "No share of the weight changes by 1% or more."
    )


def _merges(edit: _Edit) -> str:
    old, new = ([entry for step in edit.steps if (entry := pick(step))] for pick in (_old, _new))
    if len(old) < 2 or len(new) != 1:
        return "A merge makes one entry of two or more."
    if len(wording(new[0])) >= sum(len(wording(entry)) for entry in old):
        return "The merged entry is no shorter than the entries together."
    lost = [
        item
        for item in edit.outcomes
        if _reached(old, item.example.instruction) > _reached(new, item.example.instruction)
    ]
    return f"The merged entry misses {len(lost)} of the examples on which one of them was consulted." if lost else ""


def _retires(edit: _Edit) -> str:
    for step in edit.steps:
        before, after = step.criteria
        if step.old is None or after.keys() - before.keys() or any(before[name] != one for name, one in after.items()):
            return "Retiring removes an entry or criteria, and adds or changes nothing."
        if step.new and (not before.keys() - after.keys() or len(wording(step.new)) >= len(wording(step.old))):
            return f"`{step.old.name}` loses no criterion, or gets no shorter."
    return ""


def _retriggers(edit: _Edit) -> str:
    if any(not (step.old and step.new) or wording(step.old) != wording(step.new) for step in edit.steps):
        return "Retriggering changes the triggers of existing entries and no text."
    if any(before != after for step in edit.steps for before, after in [step.criteria]):
        return "Retriggering changes no criterion."
    for item in edit.outcomes:
        text = item.example.instruction
        if any(_fires(step.old, text) != _fires(step.new, text) for step in edit.steps):
            return ""
    return "The new triggers match the same examples as the old ones."


def _swaps_tool(edit: _Edit) -> str:
    tools = [step for step in edit.steps if (step.new or step.old or _NO_ENTRY).kind == "tool"]
    if not tools or len(tools) < len(edit.steps):
        return "Swapping a Tool changes Tools only."
    if any(step.new is None for step in tools) and any(step.old is None for step in tools):
        return ""
    other = [step for step in edit.changed("tool") if step.old and step.new and _is_other_tool(step.old, step.new)]
    return (
        ""
        if other
        else "The Tool still asks the same; another measure, or another prompt with other keys, takes its place."
    )


def _fixes_tool(edit: _Edit) -> str:
    problem = _only_changes(edit, "tool", "Fixing a Tool")
    if any(step.old and step.new and step.old.measure != step.new.measure for step in edit.steps):
        return "A fixed Tool keeps its measure; to use another one, swap the Tool."
    if any(step.old and step.new and _tool_text(step.old) == _tool_text(step.new) for step in edit.steps):
        return "A fixed Tool gets another prompt, text or schema."
    return problem


_CONDITIONS: Mapping[Mutation, Callable[[_Edit], str]] = MappingProxyType(
    {
        "raise_bar": _raises_bar,
        "decompose": _decomposes,
        "focus_on_facts": _states_facts,
        "punish_artifacts": _punishes_artifacts,
        "counterexample_trigger": _answers_counterexample,
        "reweight": _reweights,
        "merge": _merges,
        "retire": _retires,
        "retrigger": _retriggers,
        "swap_tool": _swaps_tool,
        "fix_tool": _fixes_tool,
    }
)

_NO_ENTRY = Entry("none", "skill", "")


def _old(step: _Step) -> Entry | None:
    return step.old


def _new(step: _Step) -> Entry | None:
    return step.new


def _criteria(entry: Entry | None) -> dict[str, Criterion]:
    return {one.id: one for one in entry.rubric.criteria} if entry and entry.rubric else {}


def _shares(entry: Entry | None) -> dict[str, float]:
    """Return the normalized weight of each criterion."""
    return entry.rubric.weights() if entry and entry.rubric else {}


def _share_pairs(step: _Step) -> list[tuple[float, float]]:
    before, after = _shares(step.old), _shares(step.new)
    return [(before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after}]


def _only_changes(edit: _Edit, kind: str, what: str) -> str:
    if len(edit.changed(kind)) == len(edit.steps):
        return ""
    return f"{what} changes existing {'Skills' if kind == 'skill' else 'Tools'} and neither adds nor removes an entry."


def _says_more(step: _Step) -> bool:
    old, new = (wording(entry) if entry else "" for entry in (step.old, step.new))
    return old != new and len(new) >= len(old)


def _guidance(entry: Entry | None) -> tuple[str, str]:
    """Return the text of an entry for a judge, without its triggers and weights."""
    if entry is None:
        return "", ""
    return entry.body, "\n".join([entry.system_prompt or "", *(one.text for one in _criteria(entry).values())])


def _all_wording(edit: _Edit, pick: Callable[[_Step], Entry | None]) -> str:
    return "\n".join(wording(entry) for step in edit.steps if (entry := pick(step)))


def _mentions(words: re.Pattern[str], entry: Entry | None) -> int:
    return len(words.findall(wording(entry))) if entry else 0


def _artifact_share(entry: Entry | None) -> float:
    """Return the share of the weight of criteria about artifacts and unrequested changes."""
    shares = _shares(entry)
    return sum(shares.get(one.id, 0.0) for one in _criteria(entry).values() if _about_artifacts(one))


def _about_artifacts(one: Criterion) -> bool:
    measure = MEASURES.get(one.measure) if one.measure else None
    return (measure is not None and measure.dimension == "quality") or bool(_ARTIFACTS.search(one.text))


def _fires(entry: Entry | None, instruction: str) -> bool:
    return entry is not None and fires(entry, instruction) is not None


def _reached(entries: Sequence[Entry], instruction: str) -> bool:
    return any(_fires(entry, instruction) for entry in entries)


def _is_other_tool(old: Entry, new: Entry) -> bool:
    if old.measure != new.measure:
        return True
    prompts = similarity(old.system_prompt or "", new.system_prompt or "") < 0.5
    return prompts and set(old.output_schema or {}) != set(new.output_schema or {})


def _tool_text(entry: Entry) -> tuple[object, ...]:
    return wording(entry), entry.input_schema, entry.output_schema
