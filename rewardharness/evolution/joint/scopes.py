"""Scopes of a joint fit: which training examples are fitted together, and when the fitted Skill applies."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rewardharness.evolution.builtin.forecast import ForecastCase
from rewardharness.evolution.builtin.phrasing import ANY, ANY_TEXT, KINDS, KindWords
from rewardharness.task import TEXT, task_of

LEAST_CASES = 30
"""Minimum number of examples of a scope."""
COVERAGE = 0.9
"""Minimum share of the instructions of a scope that contain its phrase."""
_LONGEST = 4
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_SAMENESS = re.compile(
    r"\b(same|similar|like|alike|identical|resembl\w+|match\w*|closest|close to|faithful\w*|reproduc\w+|preserv\w+"
    r"|keep\w*|unchanged|variation)\b",
    re.IGNORECASE,
)
_FUNCTION_WORDS = frozenset(
    "a an and are as at be by for from has have in into is it its of on or so that the their them then there this to"
    " was were which with without image picture photo please".split()
)


@dataclass(frozen=True)
class Scope:
    """Examples that are fitted together."""

    name: str
    """Name of the Skill."""
    words: KindWords
    """Texts of the Skill, with the triggers that select its examples."""
    applies: tuple[str, ...]
    """Kinds of edit to which its criteria apply; empty for all that the triggers select."""
    cases: tuple[ForecastCase, ...]
    same_look: bool
    """Whether the instructions ask for the appearance of the source, so that similarity to the source is a merit."""


def find_scopes(cases: Sequence[ForecastCase]) -> tuple[Scope, ...]:
    """Divide examples into scopes.

    If nearly all instructions share a phrase, there is one scope with the phrase as trigger. Otherwise all examples are
    a scope, and then each kind of edit with enough examples, with a shared phrase or else the usual triggers of the
    kind.
    """
    whole = _phrase_scope(cases, ())
    if whole is not None:
        return (whole,) if len(whole.cases) >= LEAST_CASES else ()
    if len(cases) < LEAST_CASES:
        return ()
    if task_of(cases[0].outcome.example) is TEXT:
        return (Scope("preferences-for-all-responses", ANY_TEXT, (), tuple(cases), False),)
    scopes = [Scope("preferences-for-all-edits", ANY, (), tuple(cases), _same_look(cases))]
    for kind, words in KINDS.items():
        chosen = [case for case in cases if case.kind == kind]
        if len(chosen) < LEAST_CASES:
            continue
        scope = _phrase_scope(chosen, (kind,))
        if scope is None and words.triggers:
            scope = Scope(f"preferences-for-{kind}-edits", words, (kind,), tuple(chosen), _same_look(chosen))
        if scope is not None and len(scope.cases) >= LEAST_CASES:
            scopes.append(scope)
    return tuple(scopes)


def _phrase_scope(cases: Sequence[ForecastCase], applies: tuple[str, ...]) -> Scope | None:
    phrase = shared_phrase([case.request.instruction for case in cases])
    if not phrase:
        return None
    words = KindWords(
        f'is asked for with the words "{phrase}"',
        "The criteria and their weights were fitted on people's choices between such edits.",
        phrase,
    )
    name = "preferences-for-" + "-".join(re.findall(r"[a-z0-9]+", phrase))[:40].strip("-")
    chosen = tuple(case for case in cases if phrase in _plain(case.request.instruction))
    return Scope(name, words, applies, chosen, _same_look(chosen))


def shared_phrase(instructions: Sequence[str]) -> str:
    """Return the most specific phrase that nearly all instructions share; empty if there is none.

    A phrase has at least two words that are no function words, and neither begins nor ends with one.
    """
    counts: Counter[str] = Counter()
    for instruction in instructions:
        found = _WORD.findall(instruction.lower())
        plain = _plain(instruction)
        counts.update(
            {
                phrase
                for size in range(2, _LONGEST + 1)
                for start in range(len(found) - size + 1)
                if (phrase := " ".join(found[start : start + size])) in plain and _is_specific(phrase)
            }
        )
    shared = [phrase for phrase, count in counts.items() if count >= COVERAGE * len(instructions)]
    return min(shared, key=lambda phrase: (-_content_words(phrase), len(phrase), phrase), default="")


def _same_look(cases: Sequence[ForecastCase]) -> bool:
    asked = [
        case.kind in {"keep", "appearance"} or _SAMENESS.search(case.request.instruction) is not None for case in cases
    ]
    return bool(asked) and sum(asked) >= COVERAGE * len(asked)


def _plain(instruction: str) -> str:
    return re.sub(r"\s+", " ", instruction.lower())


def _content_words(phrase: str) -> int:
    return sum(word not in _FUNCTION_WORDS for word in phrase.split())


def _is_specific(phrase: str) -> bool:
    words = phrase.split()
    ends = words[0] in _FUNCTION_WORDS or words[-1] in _FUNCTION_WORDS
    return not ends and _content_words(phrase) >= 2
