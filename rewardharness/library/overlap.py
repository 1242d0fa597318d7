"""Compares the entries of a Library with each other and with instructions: what is said twice, or said otherwise."""

import re
from collections.abc import Iterable, Sequence
from itertools import combinations

from rewardharness.errors import shown
from rewardharness.library.entry import RUBRIC_FILE, Entry
from rewardharness.library.problems import Findings
from rewardharness.library.rubric import Criterion

NEAR_DUPLICATE = 0.3
"""Share of common phrases of three words above which two Skills are called near-duplicates."""

COPIED_WORDS = 6
"""Consecutive words of an instruction that count as copied from it."""

_WORD = re.compile(r"[^\W_]+")


def compare_entries(entries: Sequence[Entry], findings: Findings) -> None:
    """Collect near-duplicate Skills, contradicting criteria, and that there is nothing to grade without a model."""
    skills = [entry for entry in entries if entry.kind == "skill"]
    if skills and not any(entry.rubric for entry in skills):
        message = "The Library has no criteria: it needs a model as judge."
        findings.at("").note(message, None, "Judge with --judge vllm:NAME@URL, or give a Skill a rubric.yaml.")
    texts = [(entry, _shingles(_text(entry), 3)) for entry in skills]
    for (one, before), (other, after) in combinations(texts, 2):
        if before and after and len(before & after) >= NEAR_DUPLICATE * len(before | after):
            message = f"This Skill says nearly the same as `{one.name}`."
            findings.at(other.path).warning(message, None, "Merge the two: judges read and weigh both.")
    _check_contradictions(skills, findings)


def check_copied(entries: Sequence[Entry], instructions: Iterable[str], findings: Findings) -> None:
    """Collect entries with phrases of instructions, such as those of the examples that a Library was evolved on."""
    phrases: dict[str, str] = {}
    for instruction in instructions:
        phrases |= dict.fromkeys(_shingles(instruction, COPIED_WORDS), instruction)
    for entry in entries:
        for phrase in sorted(_shingles(_text(entry), COPIED_WORDS) & phrases.keys())[:1]:
            message = f"'{shown(phrase)}' is copied from the instruction {shown(phrases[phrase])!r}."
            findings.at(entry.path).warning(message, None, "Say it in general words: it fits one example.")


def _check_contradictions(skills: Sequence[Entry], findings: Findings) -> None:
    """Report criteria of one name that several Skills grade differently."""
    known: dict[str, tuple[Entry, Criterion]] = {}
    for entry in skills:
        for criterion in entry.rubric.criteria if entry.rubric else ():
            other, first = known.setdefault(criterion.id, (entry, criterion))
            differing = [name for name in ("text", "scale", "dimension") if _differs(first, criterion, name)]
            if differing:
                message = f"Criterion `{criterion.id}` has another {' and '.join(differing)} than in `{other.name}`."
                where = f"{entry.path.rpartition('/')[0]}/{RUBRIC_FILE}"
                findings.at(where).warning(message, None, "Rename one of the two, or say the same.")


def _differs(one: Criterion, other: Criterion, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


def _text(entry: Entry) -> str:
    criteria = entry.rubric.criteria if entry.rubric else ()
    return "\n".join((entry.description, entry.body, entry.system_prompt or "", *(each.text for each in criteria)))


def _shingles(text: str, size: int) -> frozenset[str]:
    """All phrases of so many consecutive words."""
    words = _WORD.findall(text.lower())
    return frozenset(" ".join(words[place : place + size]) for place in range(len(words) - size + 1))
