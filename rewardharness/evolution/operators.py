"""Mutation operators: purposes of edits, a condition for each that is checked on the edit, and which one comes next.

A model is asked for an operator and may write anything, so what it wrote is compared with the Library before the edit.
The checks judge nothing and use no label beyond those of the examples that proposals are written from.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from rewardharness.evolution.evolver import similarity
from rewardharness.evolution.proposal import MUTATIONS, Mutation, Operator, Proposal, View, criteria_of, wording
from rewardharness.evolution.state import seed_of
from rewardharness.judging.router import fires
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion
from rewardharness.measure.table import MEASURES
from rewardharness.prompts import sections

Choice = Literal["success_feedback", "fixed", "exploration_decay", "diversity_driven"]
"""How operators are chosen.

`fixed`: in turn. `success_feedback`: Thompson sampling from the gains of earlier children. `exploration_decay`: at
first operators that change the structure of the Library, later those that refine its entries. `diversity_driven`: the
more alike the members of the population judge, the more operators that change the structure.
"""

Results = Mapping[str, tuple[float, float]]
"""Sums of the successes and failures of children, by operator."""

WITHOUT_MODEL = frozenset[Mutation](MUTATIONS) - {"raise_bar", "focus_on_facts", "swap_tool", "fix_tool"}
"""Operators that the built-in Orchestrator can apply in the phase `skills`."""

STRUCTURAL: frozenset[Mutation] = frozenset({"decompose", "counterexample_trigger", "merge", "retire", "swap_tool"})
"""Operators that change what the Library consists of; the others refine its entries."""

SAME_TEXT, OTHER_PROMPT = 0.8, 0.5
"""Share of word shingles from which on two parts of a criterion say the same, and below which a prompt is another."""
WEIGHT_TOLERANCE = 0.25
"""Relative change of weight that a decomposition may make."""
LEAST_SHIFT = 0.01
"""Smallest change of a share of the weight that counts."""
FULL_GAIN = 0.1
"""Gain of a child over its parent that counts as a full success; as a loss, as a full failure."""
HALF_LIFE, LEAST_SHARE, ENOUGH = 20, 0.2, 0.3
"""Children after which the share of structural operators has halved its distance to the smallest share; this smallest
share; and the diversity from which on `diversity_driven` uses it."""

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
    """One entry before and after an edit; `_NONE` where there is none."""

    old: Entry
    new: Entry

    @property
    def kept(self) -> bool:
        """Whether the entry is there before and after, and of the same kind."""
        return _NONE not in (self.old, self.new) and self.old.kind == self.new.kind

    @property
    def criteria(self) -> tuple[dict[str, Criterion], dict[str, Criterion]]:
        """Its criteria before and after, by id."""
        before, after = ({one.id: one for one in criteria_of(entry)} for entry in (self.old, self.new))
        return before, after

    @property
    def shifts(self) -> dict[str, float]:
        """By how much the share of the weight of each criterion rises, by id."""
        before, after = (entry.rubric.weights() if entry.rubric else {} for entry in (self.old, self.new))
        return {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}}

    def count(self, pattern: re.Pattern[str]) -> int:
        """Return how many more of some words it has after the edit."""
        before, after = (len(pattern.findall(wording(entry))) for entry in (self.old, self.new))
        return after - before


@dataclass(frozen=True)
class _Edit:
    """An edit, with the examples that it was written from."""

    steps: tuple[_Step, ...]
    cited: tuple[str, ...]
    view: View

    @property
    def old(self) -> list[Entry]:
        """The entries before, without new ones."""
        return [step.old for step in self.steps if step.old != _NONE]

    @property
    def new(self) -> list[Entry]:
        """The entries after, without removed ones."""
        return [step.new for step in self.steps if step.new != _NONE]

    def changes(self, kind: str) -> bool:
        """Whether it changes entries of a kind, and neither adds nor removes any."""
        return all(step.kept and step.old.kind == kind for step in self.steps)


_NONE = Entry("none", "skill", "")


def typed_edits_of(mutation: Mutation) -> tuple[Operator, ...]:
    """Return the typed edits that an operator can be written with."""
    return _OPERATORS[mutation][1]


def condition_problem(mutation: Mutation, proposal: Proposal, view: View) -> str:
    """Return the purpose of an operator that an edit does not serve; empty if it does.

    Args:
        mutation: The operator.
        proposal: The edit, which can be applied to the Library of the view.
        view: The input of the round.
    """
    entries = [getattr(change, "entry", _NONE) for change in proposal.changes]  # there is none if it is removed
    pairs = zip(proposal.names, entries, strict=True)
    steps = tuple(_Step(view.library.get(name) or _NONE, new) for name, new in pairs)
    if _OPERATORS[mutation][0](_Edit(steps, proposal.cited, view)):
        return ""
    return " ".join(sections("mutations")[mutation].split())


def possible_mutations(view: View, *, model: bool = True) -> tuple[Mutation, ...]:
    """Return the operators that the Library and the phase of a round allow.

    Args:
        view: The input of the round.
        model: Whether a model writes the edits; the built-in Orchestrator applies fewer operators.
    """
    skills, tools = view.library.skills, view.library.tools
    free = [entry for entry in (tools if view.phase == "tools" else view.library.entries) if not entry.protected]
    sizes = [len(criteria_of(entry)) for entry in skills]
    several = any(size > 1 for size in sizes)
    rules: tuple[tuple[str, bool, tuple[Mutation, ...]], ...] = (
        ("skills", True, ("punish_artifacts",)),
        ("skills", bool(skills), ("raise_bar", "focus_on_facts", "retrigger")),
        ("skills", bool(skills) if model else any(sizes), ("decompose",)),
        ("skills", any(outcome.failed for outcome in view.outcomes), ("counterexample_trigger",)),
        ("skills", several, ("reweight",)),
        ("skills", several or any(entry.kind == "skill" for entry in free), ("retire",)),
        ("skills", len(skills) > 1, ("merge",)),
        ("tools", bool(tools), ("swap_tool", "fix_tool", "retrigger")),
        ("tools", bool(free), ("retire",)),
        ("prune", bool(free), ("retire",)),
        ("prune", len(skills) > 1 or len(tools) > 1, ("merge",)),
    )
    allowed = {name for phase, holds, names in rules if holds and phase == view.phase for name in names}
    return tuple(name for name in MUTATIONS if name in allowed and (model or name in WITHOUT_MODEL))


def with_gains(results: Results, gains: Sequence[tuple[Mutation, float]]) -> Results:
    """Return the results with those of more children.

    Args:
        results: The results so far.
        gains: The operator of each child, and its paired gain over its parent, with sign.
    """
    totals = dict(results)
    for name, gain in gains:
        share, (won, lost) = min(1.0, max(0.0, 0.5 + 0.5 * gain / FULL_GAIN)), totals.get(name, (0.0, 0.0))
        totals[name] = won + share, lost + 1.0 - share
    return totals


def next_operator(
    choice: Choice, usable: Sequence[Mutation], number: int, results: Results, seed: int, diversity: float = 0.0
) -> Mutation:
    """Choose the operator of the next child.

    Args:
        choice: How it is chosen.
        usable: Operators that can be applied to the parent, at least one.
        number: Operators asked for so far.
        results: Results of earlier children.
        seed: Random seed of the round.
        diversity: Share of the examples that members of the population judge differently.
    """
    if choice == "fixed":
        turns = (MUTATIONS[(number + place) % len(MUTATIONS)] for place in range(len(MUTATIONS)))
        return next(name for name in turns if name in usable)
    source = random.Random(seed_of("operator", seed, number))
    if choice == "success_feedback":
        counts = {name: results.get(name, (0.0, 0.0)) for name in usable}
        drawn = {name: source.betavariate(1.0 + won, 1.0 + lost) for name, (won, lost) in counts.items()}
        return max(usable, key=drawn.__getitem__)
    need = 0.5 ** (number / HALF_LIFE) if choice == "exploration_decay" else max(0.0, 1.0 - diversity / ENOUGH)
    structural = source.random() < LEAST_SHARE + (1.0 - LEAST_SHARE) * need
    return source.choice([name for name in usable if (name in STRUCTURAL) == structural] or usable)


def _raises_bar(edit: _Edit) -> bool:
    for step in edit.steps:
        before, after = step.criteria
        old, new = wording(step.old), wording(step.new)
        changed = [name for name in before if name in after and after[name].text != before[name].text]
        shorter = any(len(after[name].text) < len(before[name].text) for name in changed)
        lighter = any(step.shifts.get(name, 0.0) < -LEAST_SHIFT for name in changed)
        same = not changed and (bool(before) or old == new or len(new) < len(old))
        if before.keys() != after.keys() or shorter or lighter or same:
            return False
    return edit.changes("skill")


def _decomposes(edit: _Edit) -> bool:
    if len(edit.old) == 1 and len(edit.new) == 2:
        return similarity(*map(wording, edit.new)) < SAME_TEXT
    if len(edit.steps) != 1 or not edit.changes("skill"):
        return False
    before, after = edit.steps[0].criteria
    whole = [one for name, one in before.items() if after.get(name) != one]
    parts = [one for name, one in after.items() if before.get(name) != one]
    if len(whole) != 1 or len(parts) < 2 or any(_same(one, other) for one, other in combinations(parts, 2)):
        return False
    kinds = [kind for one in parts for kind in set(one.applies)]
    alone = all(one.applies for one in parts) and len(set(kinds)) == len(kinds)
    weight = (max if alone else sum)(one.weight for one in parts)
    return abs(weight - whole[0].weight) <= WEIGHT_TOLERANCE * whole[0].weight


def _same(one: Criterion, other: Criterion) -> bool:
    """Return whether two parts of a criterion look at the same thing."""
    apart = one.measure != other.measure or set(one.applies) != set(other.applies)
    return not apart and (one.text == other.text or similarity(one.text, other.text) >= SAME_TEXT)


def _states_facts(edit: _Edit) -> bool:
    taste, facts = (sum(step.count(pattern) for step in edit.steps) for pattern in (_TASTE, _FACTS))
    measures = [sum(one.measure is not None for one in side.values()) for step in edit.steps for side in step.criteria]
    better = taste < 0 or facts > 0 or sum(measures[1::2]) > sum(measures[::2])
    return edit.changes("skill") and taste <= 0 and better


def _punishes_artifacts(edit: _Edit) -> bool:
    for step in edit.steps:
        said = not step.criteria[1] and step.count(_ARTIFACTS) > 0
        if said or _artifact_share(step.new) > _artifact_share(step.old) + LEAST_SHIFT:
            return len(edit.new) == len(edit.steps)
    return False


def _answers_counterexample(edit: _Edit) -> bool:
    cited = [item.example for item in edit.view.outcomes if item.example.id in edit.cited and item.failed]
    passed = [item.example for item in edit.view.outcomes if item.judged and not item.failed]
    new = [step.new for step in edit.steps if _guidance(step.new) != _guidance(step.old)]
    reached = any(_reached(new, example.instruction) for example in cited)
    everything = passed and all(fires(entry, example.instruction) for entry in new for example in passed)
    return reached and not everything and len(edit.new) == len(edit.steps)


def _reweights(edit: _Edit) -> bool:
    for step in edit.steps:
        before, after = ({name: one.text for name, one in side.items()} for side in step.criteria)
        if before != after or _guidance(step.old) != _guidance(step.new):
            return False
    shifted = any(abs(shift) >= LEAST_SHIFT for step in edit.steps for shift in step.shifts.values())
    return shifted and edit.changes("skill")


def _merges(edit: _Edit) -> bool:
    if len(edit.old) < 2 or len(edit.new) != 1:
        return False
    shorter = len(wording(edit.new[0])) < sum(len(wording(entry)) for entry in edit.old)
    asked = [item.example.instruction for item in edit.view.outcomes]
    return shorter and all(_reached(edit.new, said) for said in asked if _reached(edit.old, said))


def _retires(edit: _Edit) -> bool:
    for step in edit.steps:
        before, after = step.criteria
        shorter = step.new == _NONE or (len(after) < len(before) and len(wording(step.new)) < len(wording(step.old)))
        if step.old == _NONE or not shorter or any(before.get(name) != one for name, one in after.items()):
            return False
    return True


def _retriggers(edit: _Edit) -> bool:
    same = all(step.kept and wording(step.old) == wording(step.new) for step in edit.steps)
    if not same or any(before != after for step in edit.steps for before, after in [step.criteria]):
        return False
    asked = [item.example.instruction for item in edit.view.outcomes]
    return any(_reached([step.old], said) != _reached([step.new], said) for step in edit.steps for said in asked)


def _swaps_tool(edit: _Edit) -> bool:
    if any(entry.kind != "tool" for entry in (*edit.old, *edit.new)):
        return False
    for old, new in ((step.old, step.new) for step in edit.steps if step.kept):
        keys = set(old.output_schema or {}) != set(new.output_schema or {})
        prompt = similarity(old.system_prompt or "", new.system_prompt or "") < OTHER_PROMPT
        if old.measure != new.measure or (keys and prompt):
            return True
    return len(edit.old) < len(edit.steps) and len(edit.new) < len(edit.steps)


def _fixes_tool(edit: _Edit) -> bool:
    def parts(entry: Entry) -> tuple[object, ...]:
        return wording(entry), entry.input_schema, entry.output_schema

    fixed = all(step.old.measure == step.new.measure and parts(step.old) != parts(step.new) for step in edit.steps)
    return fixed and edit.changes("tool")


def _guidance(entry: Entry) -> tuple[str, ...]:
    """Return the texts of an entry for a judge, without its triggers and weights."""
    return entry.body, entry.system_prompt or "", *(one.text for one in criteria_of(entry))


def _artifact_share(entry: Entry) -> float:
    """Return the share of the weight of criteria about artifacts and unrequested changes."""
    shares = entry.rubric.weights() if entry.rubric else {}
    return sum(shares.get(one.id, 0.0) for one in criteria_of(entry) if _about_artifacts(one))


def _about_artifacts(one: Criterion) -> bool:
    measure = MEASURES.get(one.measure) if one.measure else None
    return (measure is not None and measure.dimension == "quality") or bool(_ARTIFACTS.search(one.text))


def _reached(entries: Sequence[Entry], instruction: str) -> bool:
    return any(fires(entry, instruction) is not None for entry in entries)


_OPERATORS: Mapping[Mutation, tuple[Callable[[_Edit], bool], tuple[Operator, ...]]] = {
    "raise_bar": (_raises_bar, ("modify",)),
    "decompose": (_decomposes, ("modify", "split")),
    "focus_on_facts": (_states_facts, ("modify",)),
    "punish_artifacts": (_punishes_artifacts, ("modify", "add", "reweight")),
    "counterexample_trigger": (_answers_counterexample, ("add", "modify")),
    "reweight": (_reweights, ("reweight",)),
    "merge": (_merges, ("merge",)),
    "retire": (_retires, ("remove", "modify")),
    "retrigger": (_retriggers, ("retrigger",)),
    "swap_tool": (_swaps_tool, ("fix_tool",)),
    "fix_tool": (_fixes_tool, ("fix_tool",)),
}
"""The condition of each operator, and the typed edits that it can be written with."""
