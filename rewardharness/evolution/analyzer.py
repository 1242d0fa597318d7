"""The Chain Analyzer, and what a model reads that analyses chains or writes edits.

It finds out from reasoning chains what goes wrong, and from the Library what is redundant. It uses rules, without a
model: failures are grouped by kind of edit, by the consulted Skills, and by the evidence for the wrong candidate in the
chain. `llm_orchestrator` asks a model the same question. Findings about failures show neither redundant Skills nor
Skills that suit only one kind of edit; `shape_findings` does.

In what a model reads, everything that comes from examples, chains or entries is delimited and disarmed. Examples are
called e1, e2, ...: no id, no file name and no name of a generator is ever part of it. Labels are, because edits are
learned from them.
"""

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from rewardharness.evolution.evolver import similarity
from rewardharness.evolution.operators import typed_edits_of
from rewardharness.evolution.proposal import MAX_CITED, Finding, Mutation, Outcome, RejectedProposal, View, criteria_of
from rewardharness.judging.chain import neutral
from rewardharness.judging.instruction import request_of
from rewardharness.library.entry import Entry
from rewardharness.library.plaintext import invisible
from rewardharness.library.store import Library
from rewardharness.measure.table import MEASURES
from rewardharness.prompts import load, sections
from rewardharness.schema import EDIT_KINDS, LABELS, TIE, Example, Judgment, TextInput
from rewardharness.task import TEXT

LEAD = 0.03
"""Difference between two grades in [0, 1] below which neither candidate leads."""

ALIKE = 0.4
"""Share of common wording from which on two Skills overlap."""
TOGETHER = 0.8
"""Share of the examples on which either of two Skills is consulted, on which both must be for them to overlap."""
LEAST = 4
"""Examples on which Skills must be consulted for anything to be said of them."""
UNEVEN = 0.4
"""Difference between the shares of misses of two kinds of edit from which on one Skill does not suit both."""

_UNREAD = "nothing in the chain"
_SHOWN = re.compile(r"\b([A-D]) as ([A-D])\b")


@dataclass(frozen=True)
class Cluster:
    """Failures that have something in common."""

    kind: str
    """Kind of edit, the strongest that the rules find in the instruction."""
    skills: tuple[str, ...]
    """Consulted Skills, without those that are always consulted."""
    misled_by: str
    """The Tool, measure or score that favored the wrong candidate; empty if it differs."""
    failures: tuple[Outcome, ...]
    """The most confident ones first."""
    successes: int
    """Successes of the same kind with the same Skills."""

    @property
    def strength(self) -> float:
        """Number of failures, weighted by their share of the examples."""
        return len(self.failures) ** 2 / (len(self.failures) + self.successes)


def kind_of(example: Example) -> str:
    """Return the kind of edit by the rules of the judge, without the category of the dataset."""
    return request_of(example).kinds[0]


def find_clusters(outcomes: Iterable[Outcome]) -> tuple[Cluster, ...]:
    """Group failures.

    Args:
        outcomes: Judged examples with labels. Judgments that failed for reasons outside the Library are ignored.

    Returns:
        Clusters, strongest first.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.example.preference is not None and (outcome.judged or outcome.missed):
            entries = outcome.judgment.entries
            skills = tuple(entry.name for entry in entries if entry.kind == "skill" and entry.reason != "always")
            groups[kind_of(outcome.example), skills].append(outcome)
    clusters = [cluster for (kind, skills), members in groups.items() for cluster in _divide(kind, skills, members)]
    return tuple(
        sorted(clusters, key=lambda cluster: (-cluster.strength, cluster.kind, cluster.skills, cluster.misled_by))
    )


def analyze(outcomes: Sequence[Outcome], limit: int = 8) -> tuple[Finding, ...]:
    """Describe what goes wrong, by rules.

    Args:
        outcomes: The judged training examples.
        limit: Findings at most.

    Returns:
        Findings, strongest first, each with at most `MAX_CITED` cited examples.
    """
    return tuple(_cluster_finding(cluster) for cluster in find_clusters(outcomes)[:limit])


def misled_by(outcome: Outcome) -> str:
    """Return what favored the judge's choice most, against the label.

    Returns:
        The name of a Tool or measure of the chain; else of a score, such as `quality score`; else a text that says
        that there is none.
    """
    judgment, wanted = outcome.judgment, outcome.example.preference
    chosen = judgment.preference
    if chosen is None:
        return "no criterion that applies"
    if wanted is None or TIE in (chosen, wanted):
        return _UNREAD
    known = ((name, grades) for name, grades in chain_grades(judgment).items() if {chosen, wanted} <= grades.keys())
    leads = {name: grades[chosen] - grades[wanted] for name, grades in known}
    if not leads or max(leads.values()) < LEAD:
        leads = _score_leads(judgment, chosen, wanted)
    best = max(leads, key=lambda name: (leads[name], name), default="")
    return best if best and leads[best] >= LEAD else _UNREAD


def chain_grades(judgment: Judgment) -> dict[str, dict[str, float]]:
    """Collect the grades in a chain.

    Returns:
        Name of the Tool or measure to letter of the candidate to grade in [0, 1]; the last of repeated observations.
    """
    grades: dict[str, dict[str, float]] = defaultdict(dict)
    own: dict[str, str] = {}
    name, labels = "", list[str]()
    for step in judgment.steps:
        if step.kind == "think" and step.text.startswith("Shown as:"):
            own = {alias: letter for letter, alias in _SHOWN.findall(step.text)}
        elif step.kind == "tool":
            asked = _object(step.text)
            name, labels = str(asked.get("name", "")), [step.subject] if step.subject else _labels(asked)
        elif step.kind == "obs" and name:
            for label, grade in _grades(_object(step.text), labels):
                grades[name][own.get(label, label)] = grade
            name = ""
    return dict(grades)


def _labels(asked: Mapping[str, Any]) -> list[str]:
    images = asked.get("images", [])
    named = [image.get("image") if isinstance(image, dict) else image for image in images if isinstance(images, list)]
    return [str(label).upper() for label in named if str(label).upper() in LABELS]


def _grades(result: Mapping[str, Any], labels: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Read the grades of an observation: one for its candidate, or one per letter."""
    by_label = {label: result[label] for label in LABELS if isinstance(result.get(label), dict)}
    if not by_label and len(labels) == 1:
        by_label = {labels[0]: result}
    for label, answer in by_label.items():
        grade = answer.get("grade")
        if isinstance(grade, int | float) and not isinstance(grade, bool) and 0 <= grade <= 1:
            yield label, float(grade)


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _score_leads(judgment: Judgment, chosen: str, wanted: str) -> dict[str, float]:
    ours, theirs = judgment.scores.get(chosen), judgment.scores.get(wanted)
    leads = {}
    for name in ("instruction", "quality"):
        one, other = (getattr(scores, name, None) for scores in (ours, theirs))
        if one is not None and other is not None:
            leads[f"{name} score"] = (one - other) / 3
    return leads


def _divide(kind: str, skills: tuple[str, ...], members: Sequence[Outcome]) -> list[Cluster]:
    """Divide failures by what misled the judge; causes that occur once form one group."""
    wrong = [member for member in members if member.missed]
    wrong.sort(key=lambda member: (-(member.judgment.margin or 0.0), member.example.id))
    by_cause: dict[str, list[Outcome]] = defaultdict(list)
    causes = [misled_by(outcome) for outcome in wrong]
    for outcome, cause in zip(wrong, causes, strict=True):
        by_cause[cause if causes.count(cause) > 1 or len(wrong) == 1 else ""].append(outcome)
    right = len(members) - len(wrong)
    return [Cluster(kind, skills, cause, tuple(failures), right) for cause, failures in by_cause.items()]


def _cluster_finding(cluster: Cluster) -> Finding:
    count, total = len(cluster.failures), len(cluster.failures) + cluster.successes
    context = f"judged with {', '.join(cluster.skills)}" if cluster.skills else "without a special Skill"
    cause = {
        "": "What misled the judge differs.",
        _UNREAD: "Nothing that the chains observed distinguishes the candidates.",
        "no criterion that applies": "The Library has no criterion for them that can be graded.",
    }.get(cluster.misled_by, f"The wrong candidate was favored by: {cluster.misled_by.replace('_', ' ')}.")
    wrong = "missed" if count == 1 else "are missed"
    statement = f"Edits of kind {cluster.kind}, {context}: {count} of {total} {wrong}. {cause}"
    cited = tuple(outcome.example.id for outcome in cluster.failures[:MAX_CITED])
    return Finding(statement, cited, (cluster.kind,), count, cluster.successes)


@dataclass(frozen=True)
class Overlap:
    """What two Skills have in common."""

    measures: tuple[str, ...]
    """Measures by which both grade the same edits, which then count twice."""
    alike: float
    """Share of common wording, in [0, 1]."""

    @property
    def enough(self) -> bool:
        """Whether the Skills overlap enough for a finding."""
        return bool(self.measures) or self.alike >= ALIKE


def overlap(first: Entry, second: Entry) -> Overlap:
    """Compare what two Skills say, wherever they are consulted."""
    ours, theirs = (entry.rubric.criteria if entry.rubric else () for entry in (first, second))
    pairs = [(one, other) for one in ours for other in theirs if one.measure and one.measure == other.measure]
    same = [
        one for one, other in pairs if not (one.applies and other.applies and {*one.applies}.isdisjoint(other.applies))
    ]
    return Overlap(tuple(dict.fromkeys(str(one.measure) for one in same)), similarity(first.body, second.body))


def shape_findings(view: View) -> tuple[Finding, ...]:
    """Find Skills to merge and Skills to split, in this order, without those of rejected edits.

    Each finding cites at most `MAX_CITED` examples.
    """
    consulted: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in view.outcomes:
        for entry in outcome.judgment.entries:
            consulted[entry.name].append(outcome)
    return (*_mergers(view, consulted), *_splits(view, consulted))


def _mergers(view: View, consulted: Mapping[str, Sequence[Outcome]]) -> Iterator[Finding]:
    tried = {frozenset(edit.names) for edit in view.rejected if edit.operator == "merge"}
    for first, second in combinations(view.library.skills, 2):
        ids = [{outcome.example.id for outcome in consulted[name]} for name in (first.name, second.name)]
        both, either = ids[0] & ids[1], ids[0] | ids[1]
        if len(both) < LEAST or len(both) < TOGETHER * len(either) or is_general(first) != is_general(second):
            continue
        common = overlap(first, second)
        if not common.enough or any({first.name, second.name} <= names for names in tried):
            continue
        what = [f"both grade by {', '.join(common.measures)}, which so counts twice"] if common.measures else []
        what += [f"they share {common.alike:.0%} of their wording"] if common.alike >= ALIKE else []
        statement = (
            f"The Skills `{first.name}` and `{second.name}` overlap: both are consulted on {len(both)} of the "
            f"{len(either)} examples on which either is, and {' and '.join(what)}. One Skill could say what both say."
        )
        yield _finding(statement, [outcome for outcome in consulted[first.name] if outcome.example.id in both])


def _splits(view: View, consulted: Mapping[str, Sequence[Outcome]]) -> Iterator[Finding]:
    tried = {name for edit in view.rejected if edit.operator in {"split", "retrigger"} for name in edit.names}
    for entry in view.library.skills:
        if entry.name in tried or is_general(entry):
            continue
        by_kind: dict[str, list[Outcome]] = defaultdict(list)
        for outcome in consulted[entry.name]:
            by_kind[kind_of(outcome.example)].append(outcome)
        misses = {
            kind: sum(one.missed for one in outcomes)
            for kind, outcomes in sorted(by_kind.items())
            if len(outcomes) >= LEAST
        }
        shares = {kind: count / len(by_kind[kind]) for kind, count in misses.items()}
        if not shares or max(shares.values()) - min(shares.values()) < UNEVEN:
            continue
        good, bad = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
        counts = {kind: f"{misses[kind]} of {len(by_kind[kind])} missed" for kind in (good, bad)}
        statement = (
            f"The Skill `{entry.name}` is consulted for edits of kind {good} ({counts[good]}) and of kind {bad} "
            f"({counts[bad]}). What it says may suit only the first: split it, or change when it applies."
        )
        yield _finding(statement, by_kind[bad])


def _finding(statement: str, outcomes: Sequence[Outcome]) -> Finding:
    ordered = sorted(outcomes, key=lambda outcome: (not outcome.missed, outcome.example.id))
    cited = tuple(outcome.example.id for outcome in ordered[:MAX_CITED])
    kinds = [kind for kind, _ in Counter(kind_of(outcome.example) for outcome in ordered).most_common(MAX_CITED)]
    failures = sum(outcome.missed for outcome in outcomes)
    return Finding(statement, cited, tuple(kinds), failures, len(outcomes) - failures)


def is_general(entry: Entry) -> bool:
    """Whether an entry is consulted for every instruction."""
    return any(trigger.always for trigger in entry.triggers)


MAX_ENTRY, MAX_INSTRUCTION, MAX_TRIGGERS = 3000, 600, 240
"""Characters that are shown of an entry's body, of an instruction, and of a list of triggers."""
MAX_RESPONSE, MAX_CHAIN = 2000, 2500
"""Characters that are shown of a text candidate and of a chain."""
MAX_TRIED = 12
"""Edits tried before that are shown, the latest."""

_TAG = re.compile(r"<(/?\s*(?:library|entry|case|candidate|chain|instruction|finding|tried)\b)", re.IGNORECASE)


def quoted(text: str, limit: int) -> str:
    """Make foreign text safe to quote: tags disarmed, invisible characters gone, the middle of a long one left out."""
    hidden = {offset for offset, _ in invisible(text)}
    plain = "".join(char for offset, char in enumerate(text) if offset not in hidden) if hidden else text
    if len(plain) > limit:
        plain = f"{plain[: limit // 2].rstrip()} [...] {plain[-(limit // 2) :].lstrip()}"
    return _TAG.sub(r"‹\1", neutral(plain)).strip()


def choose_cases(outcomes: Sequence[Outcome], misses: int, hits: int, seed: int) -> list[Outcome]:
    """Choose what to read: misses from all clusters in turn, and hits of the same kinds of edit.

    Args:
        outcomes: The outcomes of the training examples.
        misses: Failures at most.
        hits: Successes at most, drawn by the seed.
        seed: Which ones.
    """
    rows = [list(cluster.failures) for cluster in find_clusters(outcomes)]
    depth = max(map(len, rows), default=0)
    chosen = [row[level] for level in range(depth) for row in rows if level < len(row)][:misses]
    kinds = {kind_of(case.example) for case in chosen}
    met = [case for case in outcomes if case.judged and not case.missed and kind_of(case.example) in kinds]
    drawn = random.Random(seed).sample(met, min(hits, len(met)))
    return [*chosen, *sorted(drawn, key=lambda case: case.example.id)]


def cases_text(cases: Sequence[Outcome]) -> str:
    """Write cases with their chains; they are called e1, e2 and so on."""
    return "\n".join(_case_text(outcome, f"e{number}") for number, outcome in enumerate(cases, 1))


def _case_text(outcome: Outcome, alias: str) -> str:
    example, judgment = outcome.example, outcome.judgment
    verdict = f"The judge preferred {judgment.preference} (margin {judgment.margin or 0:.2f})"
    if judgment.preference is None:
        verdict = f"The judge gave no answer ({judgment.failure.code if judgment.failure else 'unknown'})"
    consulted = ", ".join(entry.name for entry in judgment.entries) or "nothing"
    chain = "\n".join(f"[{step.kind}] {step.text}" for step in judgment.steps)
    return (
        f'<case name="{alias}">\nKind of edit: {kind_of(example)}. Candidates: {", ".join(example.labels)}. '
        f"People preferred {example.preference}. {verdict}.\nConsulted: {consulted}.\n"
        f"<instruction>\n{quoted(example.instruction, MAX_INSTRUCTION)}\n</instruction>\n"
        f"{_responses(example)}<chain>\n{quoted(chain, MAX_CHAIN) or '(none)'}\n</chain>\n</case>"
    )


def _responses(example: Example) -> str:
    """Write the text candidates of a case; nothing for images and videos."""
    candidates = zip(example.labels, example.candidates, strict=True)
    texts = [
        (label, quoted(candidate.text, MAX_RESPONSE))
        for label, candidate in candidates
        if isinstance(candidate, TextInput)
    ]
    return "".join(f'<candidate name="{label}">\n{text}\n</candidate>\n' for label, text in texts)


def counts_text(outcomes: Sequence[Outcome]) -> str:
    """Write hits and misses by kind of edit, most misses first."""
    missing: Counter[str] = Counter(kind_of(outcome.example) for outcome in outcomes if outcome.missed)
    total: Counter[str] = Counter(kind_of(outcome.example) for outcome in outcomes if outcome.judged or outcome.missed)
    kinds = sorted(total, key=lambda kind: (-missing[kind], kind))
    return "\n".join(f"- {kind}: {missing[kind]} of {total[kind]} missed" for kind in kinds) or "- nothing was judged"


def library_text(library: Library, whole: Iterable[str] = ()) -> str:
    """Write a Library: every entry in a few lines, and those named with their bodies.

    Args:
        library: The Library.
        whole: Names of entries that are shown with their bodies.
    """
    full = set(whole)
    return "\n".join(entry_text(entry, entry.name in full) for entry in library.entries) or "(empty)"


def entry_text(entry: Entry, whole: bool) -> str:
    """Write one entry, with its body and prompt if `whole`."""
    triggers = quoted(entry.metadata.get("triggers", ""), MAX_TRIGGERS) or "(none: its description decides)"
    lines = [f'<entry name="{entry.name}" kind="{entry.kind}">', quoted(entry.description, MAX_INSTRUCTION)]
    lines += [f"triggers: {triggers}", *([f"measure: {quoted(entry.measure, 64)}"] if entry.measure else [])]
    for criterion in criteria_of(entry):
        of = f", only {'/'.join(criterion.applies)}" if criterion.applies else ""
        by = f", measure {quoted(criterion.measure, 64)}" if criterion.measure else ""
        text = quoted(criterion.text, 200) if whole else ""
        lines.append(
            f"- criterion {criterion.id} (weight {criterion.weight:g}, {criterion.dimension}{of}{by}) {text}".rstrip()
        )
    schema = json.dumps(dict(entry.output_schema), ensure_ascii=False) if entry.output_schema else ""
    texts = {"system prompt:\n": entry.system_prompt, "output_schema: ": schema, "body:\n": entry.body}
    lines += [f"{head}{quoted(text, MAX_ENTRY)}" for head, text in texts.items() if whole and text]
    return "\n".join([*lines, "</entry>"])


def tried_text(rejected: Sequence[RejectedProposal]) -> str:
    """Write what was tried before, the latest last."""
    lines = [f"- {quoted(tried.statement, 300)} ({quoted(tried.reason, 120) or 'not kept'})" for tried in rejected]
    return "<tried>\n" + ("\n".join(lines[-MAX_TRIED:]) or "(nothing)") + "\n</tried>"


def grammar(view: View) -> str:
    """Write how edits are written in this phase."""
    if view.phase == "prune":
        return load("evolve_prune")
    names = () if view.phase == "tools" and view.task is TEXT else view.known_measures  # Tools measure pixels
    known = [f"- {name}: {MEASURES[name].description}" for name in names if name in MEASURES]
    measures = "\n".join(known) or "- (none)"
    if view.phase == "tools":
        return load("evolve_tools", view.task.wording, measures=measures)
    return load("evolve_skills", kinds=kinds_text(view), measures=measures)


def kinds_text(view: View) -> str:
    """List the kinds of edit; a prompt for text has none."""
    return "other" if view.task is TEXT else ", ".join(EDIT_KINDS)


def mutation_text(mutation: Mutation) -> str:
    """Write which operator is wanted, what it is for, and with which typed edits it can be written."""
    typed = " or ".join(f'"{name}"' for name in typed_edits_of(mutation))
    return load("evolve_mutation", name=mutation, purpose=sections("mutations")[mutation], operators=typed)
