"""Finds near-duplicate and contradicting Skills, contradicting criteria, and text that is copied from instructions."""

import re
from collections.abc import Iterable, Sequence
from itertools import combinations

from rewardharness.errors import shown
from rewardharness.library.entry import RUBRIC_FILE, Entry
from rewardharness.library.problems import Findings
from rewardharness.library.rubric import Criterion

NEAR_DUPLICATE = 0.3
"""Minimum Jaccard similarity of three-word phrases at which two Skills are reported as near-duplicates."""

COPIED_WORDS = 6
"""Number of consecutive words that count as copied from an instruction."""

_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"[.!?;:\n]+")
_NEGATIONS = frozenset("not never no don doesn cannot avoid without".split())
_FILLERS = frozenset("a an the is are be of to do t should must always any edit candidate image that which".split())
_OPPOSITES = {
    "reject": "prefer", "penalize": "reward", "worse": "better", "lower": "higher", "less": "more",
    "darker": "brighter", "smaller": "larger", "decrease": "increase", "bad": "good", "ignore": "consider",
}  # fmt: skip
"""Words that turn a sentence into its opposite, and the word that each replaces."""


def compare_entries(entries: Sequence[Entry], findings: Findings) -> None:
    """Report near-duplicate and contradicting Skills, contradicting criteria, and a Library that has no criteria."""
    skills = [entry for entry in entries if entry.kind == "skill"]
    if skills and not any(entry.rubric for entry in skills):
        message = "The Library has no criteria and requires a model as the judge."
        findings.at("").note(message, None, "Use --judge vllm:NAME@URL, or add a rubric.yaml to a Skill.")
    texts = [(entry, _shingles(_text(entry), 3)) for entry in skills]
    for (first, first_phrases), (second, second_phrases) in combinations(texts, 2):
        common = first_phrases & second_phrases
        if common and len(common) >= NEAR_DUPLICATE * len(first_phrases | second_phrases):
            message = f"This Skill is nearly identical to `{first.name}`."
            findings.at(second.path).warning(message, None, "Merge them: judges read and weigh both.")
    _check_sentences(skills, findings)
    _check_contradictions(skills, findings)


def check_copied(entries: Sequence[Entry], instructions: Iterable[str], findings: Findings) -> None:
    """Report entries that contain phrases of the given instructions, such as those of the training examples."""
    phrases: dict[str, str] = {}
    for instruction in instructions:
        phrases |= dict.fromkeys(_shingles(instruction, COPIED_WORDS), instruction)
    for entry in entries:
        for phrase in sorted(_shingles(_text(entry), COPIED_WORDS) & phrases.keys())[:1]:
            message = f"'{shown(phrase)}' is copied from the instruction {shown(phrases[phrase])!r}."
            findings.at(entry.path).warning(message, None, "Use general wording that fits more than one example.")


def _check_sentences(skills: Sequence[Entry], findings: Findings) -> None:
    """Report sentences of Skills that say the opposite of a sentence of another Skill, such as its negation."""
    stated: dict[tuple[frozenset[str], bool], tuple[Entry, str]] = {}
    for entry in skills:
        for sentence in _SENTENCE.split(_text(entry)):
            words = _WORD.findall(sentence.lower())
            turned = sum(word in _NEGATIONS or word in _OPPOSITES for word in words) % 2 == 1
            subject = frozenset(_OPPOSITES.get(word, word) for word in words) - _NEGATIONS - _FILLERS
            if len(subject) < 2:
                continue
            skill, other = stated.get((subject, not turned), (entry, ""))
            if skill is not entry:
                message = f"'{shown(sentence.strip())}' contradicts '{shown(other.strip())}' in `{skill.name}`."
                findings.at(entry.path).warning(message, None, "Keep one of the two, or say when each applies.")
            stated.setdefault((subject, turned), (entry, sentence))


def _check_contradictions(skills: Sequence[Entry], findings: Findings) -> None:
    """Report criteria that have the same id but differ between Skills."""
    first_uses: dict[str, tuple[Entry, Criterion]] = {}
    for entry in skills:
        for criterion in entry.rubric.criteria if entry.rubric else ():
            skill, first = first_uses.setdefault(criterion.id, (entry, criterion))
            fields = ("text", "scale", "dimension")
            differing = [name for name in fields if getattr(first, name) != getattr(criterion, name)]
            if differing:
                message = f"Criterion `{criterion.id}` has a different {' and '.join(differing)} in `{skill.name}`."
                where = f"{entry.path.rpartition('/')[0]}/{RUBRIC_FILE}"
                findings.at(where).warning(message, None, "Rename one of the criteria, or make them equal.")


def _text(entry: Entry) -> str:
    criteria = entry.rubric.criteria if entry.rubric else ()
    return "\n".join((entry.description, entry.body, entry.system_prompt or "", *(row.text for row in criteria)))


def _shingles(text: str, size: int) -> frozenset[str]:
    """Return all phrases of `size` consecutive words."""
    words = _WORD.findall(text.lower())
    return frozenset(" ".join(words[start : start + size]) for start in range(len(words) - size + 1))
