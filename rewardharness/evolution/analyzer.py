"""The Chain Analyzer: finds out from reasoning chains what goes wrong.

It uses rules, without a model: failures are grouped by kind of edit, by the consulted Skills, and by the evidence for
the wrong candidate in the chain. `llm_orchestrator` asks a model the same question.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rewardharness.evolution.proposal import MAX_CITED, Finding, Outcome
from rewardharness.judging import media
from rewardharness.schema import LABELS, TIE, EditRequest, Example, Judgment

LEAD = 0.03
"""Difference between two grades in [0, 1] below which neither candidate leads."""

LIBRARY_FAILURES = frozenset({"nothing_to_measure", "no_criteria"})
"""Codes of judgments that failed because the Library has nothing that applies."""

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


@lru_cache(maxsize=4096)
def request_of(example: Example) -> EditRequest:
    """Read the instruction of an example by rules, cached."""
    return media.request_of(example)


def kind_of(example: Example) -> str:
    """Return the kind of edit by the rules of the judge, without the category of the dataset."""
    return request_of(example).kinds[0]


def missed(outcome: Outcome) -> bool:
    """Return whether the Library may be the cause: the label was missed, or nothing in it applied."""
    failure = outcome.judgment.failure
    return outcome.failed or (failure is not None and failure.code in LIBRARY_FAILURES)


def find_clusters(outcomes: Iterable[Outcome]) -> tuple[Cluster, ...]:
    """Group failures.

    Args:
        outcomes: Judged examples with labels. Judgments that failed for reasons outside the Library are ignored.

    Returns:
        Clusters, strongest first.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.example.preference is not None and (outcome.judged or missed(outcome)):
            groups[kind_of(outcome.example), specific_skills(outcome.judgment)].append(outcome)
    clusters: list[Cluster] = []
    for (kind, skills), members in groups.items():
        wrong = sorted((each for each in members if missed(each)), key=_gravest)
        successes = len(members) - len(wrong)
        clusters += _divide(kind, skills, wrong, successes)
    return tuple(sorted(clusters, key=lambda each: (-each.strength, each.kind, each.skills, each.misled_by)))


def analyze(outcomes: Sequence[Outcome], limit: int = 8) -> tuple[Finding, ...]:
    """Describe what goes wrong, by rules.

    Args:
        outcomes: The judged training examples.
        limit: Findings at most.

    Returns:
        Findings, strongest first, each with at most `MAX_CITED` cited examples.
    """
    return tuple(_finding(cluster) for cluster in find_clusters(outcomes)[:limit])


def specific_skills(judgment: Judgment) -> tuple[str, ...]:
    """Return the names of the consulted Skills that are not always consulted."""
    return tuple(each.name for each in judgment.entries if each.kind == "skill" and each.reason != "always")


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
    leads = {
        name: grades[chosen] - grades[wanted]
        for name, grades in chain_grades(judgment).items()
        if chosen in grades and wanted in grades
    }
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
    named = [each.get("image") if isinstance(each, dict) else each for each in images if isinstance(images, list)]
    return [str(each).upper() for each in named if str(each).upper() in LABELS]


def _grades(result: Mapping[str, Any], labels: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Read the grades of an observation: one for its candidate, or one per letter."""
    by_label = {label: result[label] for label in LABELS if isinstance(result.get(label), dict)}
    if not by_label and len(labels) == 1:
        by_label = {labels[0]: result}
    for label, each in by_label.items():
        grade = each.get("grade")
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
    if ours is None or theirs is None:
        return {}
    leads = {}
    for name in ("instruction", "quality"):
        one, other = getattr(ours, name), getattr(theirs, name)
        if one is not None and other is not None:
            leads[f"{name} score"] = (one - other) / 3
    return leads


def _gravest(outcome: Outcome) -> tuple[float, str]:
    return -(outcome.judgment.margin or 0.0), outcome.example.id


def _divide(kind: str, skills: tuple[str, ...], wrong: Sequence[Outcome], successes: int) -> list[Cluster]:
    """Divide failures by what misled the judge; causes that occur once form one group."""
    by_cause: dict[str, list[Outcome]] = defaultdict(list)
    causes = {outcome.example.id: misled_by(outcome) for outcome in wrong}
    often = {cause for cause, count in Counter(causes.values()).items() if count > 1}
    for outcome in wrong:
        cause = causes[outcome.example.id]
        by_cause[cause if cause in often or len(wrong) == 1 else ""].append(outcome)
    return [Cluster(kind, skills, cause, tuple(members), successes) for cause, members in by_cause.items()]


def _finding(cluster: Cluster) -> Finding:
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
