r"""Triggers, which determine when an entry applies: the grammar of `metadata.triggers`.

Triggers are a comma-separated list. Each item is one of:

    always            matches every instruction
    remove, sky blue  matches a word or phrase: whole words, any case, with the English endings of `word_forms`
    /\bfrom .* to /    matches a regular expression, any case; `\/` is a literal slash
    kind: keep         matches an instruction that is read as this kind of edit, in whatever words

Regular expressions are untrusted. Their length is limited, they are applied only to the beginning of an instruction,
and patterns that could take very long to match (nested repeats, too many unbounded repeats) are rejected.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property, lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Literal

from rewardharness.errors import shown
from rewardharness.schema import EDIT_KINDS

MAX_PATTERN = 200
"""Maximum length of a regular expression in characters."""
_MAX_PREFIX = 90  # escaping at most doubles it
MAX_TRIGGERS = 200
"""Maximum number of triggers of one entry."""
MAX_SEARCHED = 500
"""Number of leading characters of an instruction that are matched against regular expressions."""
MAX_WAYS = 4 * MAX_SEARCHED**2
"""Maximum number of ways to match from one position: two unbounded repeats (`.*`) or a few bounded ones."""

# Scripts without spaces between words: Thai, Lao, Khmer, kana, Han, and Hangul with particles.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
# Python issues a FutureWarning for these in a character set.
_RESERVED_SYNTAX = re.compile(r"\[\^?\[|--|&&|~~|\|\|")
_VOWELS = "aeiou"
_START = 3
_WORDS = re.compile(r"\w+")
_KIND = re.compile(r"kind\s*:\s*(.*)", re.I)


class TriggerError(ValueError):
    """A list of triggers is invalid. The message is shown to users."""


@dataclass(frozen=True)
class Trigger:
    """One condition under which an entry applies."""

    kind: Literal["always", "words", "pattern", "edit"]
    text: str
    """The words, the regular expression without its slashes, or the kind of edit."""

    @property
    def always(self) -> bool:
        """Whether the trigger matches every instruction."""
        return self.kind == "always"

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        expression = self.text if self.kind == "pattern" else _words_expression(self.text)
        return re.compile(expression, re.IGNORECASE)

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        # Common prefixes of all word forms. They rule out most triggers before an expression is compiled.
        if _UNSPACED.search(self.text):
            return (self.text.lower(),)
        return tuple(_root(word) for word in _split_words(self.text))

    @cached_property
    def start(self) -> str:
        """Letters with which a word of an instruction must begin, for `Searched.starts`; empty if it must not."""
        root = self._roots[0] if self.kind == "words" else ""
        return root[:_START] if root.isascii() and root[:_START].isalnum() else ""

    def matches(self, instruction: str, kinds: tuple[str, ...] = ()) -> str | None:
        """Match the trigger against an instruction and the kinds of edit that are read from it.

        Returns:
            The matched text, `always` for a trigger that always applies, the kind of edit, or None.
        """
        return self.find(searched(instruction, kinds))

    def find(self, instruction: "Searched") -> str | None:
        """Match the trigger against a prepared instruction, like `matches`."""
        if self.always:
            return "always"
        if self.kind == "edit":
            return self.text if self.text in instruction.kinds else None
        if self.kind == "words" and not all(root in instruction.lower for root in self._roots):
            return None
        match = self._regex.search(instruction.head if self.kind == "pattern" else instruction.text)
        return None if match is None else match.group()

    def __str__(self) -> str:
        if self.kind != "pattern":
            return f"kind: {self.text}" if self.kind == "edit" else self.text
        return "/" + re.sub(r"(\\.)|/", lambda match: match.group(1) or "\\/", self.text, flags=re.DOTALL) + "/"


def instruction_trigger(instruction: str) -> Trigger:
    """Return a trigger that matches an instruction, or its beginning if it is long."""
    line = (_plain(instruction).strip().splitlines() or [""])[0]
    end = r"\s*$" if line == _plain(instruction).strip() and len(line) <= _MAX_PREFIX else ""
    return Trigger("pattern", rf"^\s*{re.escape(line[:_MAX_PREFIX])}{end}")


def parse_triggers(text: str) -> tuple[Trigger, ...]:
    """Parse a list of triggers.

    Raises:
        TriggerError: If the list is invalid.
    """
    triggers = tuple(_trigger(item) for item in _items(text))
    if len(triggers) > MAX_TRIGGERS:
        raise TriggerError(f"There are {len(triggers)} triggers; the limit is {MAX_TRIGGERS}.")
    return triggers


def word_forms(word: str) -> frozenset[str]:
    """Return a word with its regular English endings -s, -es, -ing, and -ed, including spelling changes.

    Words with fewer than three letters or with non-ASCII characters have no other forms.
    """
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return frozenset({word})
    word = word.lower()
    stem, last = word[:-1], word[-1]
    forms = {word, word + "s", word + "ing"}
    if last == "e":
        forms |= {stem + "ing", word + "d"}
    elif last == "y" and stem[-1] not in _VOWELS:
        forms |= {stem + "ies", stem + "ied"}
    else:
        forms.add(word + "ed")
        if last in "sxzo" or word.endswith(("ch", "sh")):
            forms.add(word + "es")
        if last not in "aeiouwxy" and stem[-1] in _VOWELS and (len(word) == 3 or word[-3] not in _VOWELS):
            forms |= {word + last + "ing", word + last + "ed"}
    return frozenset(forms)


def _items(text: str) -> list[str]:
    """Split at commas outside `/.../`."""
    items: list[str] = []
    rest = text.lstrip()
    while rest:
        match = re.match(r"/(?:\\.|[^\\/])*/" if rest.startswith("/") else r"[^,]*", rest, re.DOTALL)
        if match is None:
            raise TriggerError(f"The regular expression {shown(rest, 40)} has no closing slash.")
        rest = rest[match.end() :].lstrip()
        if rest and not rest.startswith(","):
            raise TriggerError(f"Expected a comma after {shown(match.group(), 40)}, found {shown(rest, 20)}.")
        items += filter(None, [match.group().strip()])
        rest = rest[1:].lstrip()
    return items


def _trigger(item: str) -> Trigger:
    if item.startswith("/"):
        expression = re.sub(r"\\/", "/", _plain(item[1:-1]))
        _check_pattern(expression)
        return Trigger("pattern", expression)
    if item.lower() == "always":
        return Trigger("always", "always")
    if kind := _KIND.fullmatch(item):
        if kind[1].lower() not in EDIT_KINDS:
            choices = ", ".join(EDIT_KINDS)
            raise TriggerError(f"{shown(item, 40)} names no kind of edit. Write `kind:` and one of: {choices}.")
        return Trigger("edit", kind[1].lower())
    phrase = " ".join(_plain(item).split())
    if not any(char.isalnum() for char in phrase):
        raise TriggerError(f"{shown(item, 40)} contains no word.")
    return Trigger("words", phrase)


@dataclass(frozen=True)
class Searched:
    """An instruction as triggers are matched against it."""

    text: str
    lower: str
    """The text in lower case."""
    head: str
    """Its beginning, for regular expressions."""
    starts: frozenset[str]
    """The first one to three letters of each word; empty for text that is not ASCII."""
    kinds: tuple[str, ...]
    """The kinds of edit that it asks for; empty if they were not read."""


@lru_cache(maxsize=64)
def searched(instruction: str, kinds: tuple[str, ...] = ()) -> Searched:
    """Prepare an instruction. A Library matches it against all its triggers."""
    text = _plain(instruction)
    lower = text.lower()
    words = _WORDS.findall(lower) if text.isascii() else ()
    starts = frozenset(word[:length] for word in words for length in range(1, _START + 1))
    return Searched(text, lower, text[:MAX_SEARCHED], starts, kinds)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).replace("\u2019", "'")


def _root(word: str) -> str:
    """Return the common prefix of all forms of a word."""
    return word.lower()[:-1] if len(word_forms(word)) > 1 and word[-1] in "eyEY" else word.lower()


def _split_words(phrase: str) -> list[str]:
    return [word for word in re.split(r"[\s-]+", phrase) if word]


def _words_expression(phrase: str) -> str:
    """Build the expression for a phrase: all forms of each word, separated by spaces or hyphens."""
    if _UNSPACED.search(phrase):
        return re.escape(phrase)
    forms = (sorted(word_forms(word), key=lambda form: (-len(form), form)) for word in _split_words(phrase))
    parts = ("(?:" + "|".join(map(re.escape, variants)) + ")" for variants in forms)
    return r"(?<!\w)" + r"[\s-]+".join(parts) + r"(?!\w)"


def _check_pattern(expression: str) -> None:
    name = f"/{shown(expression, 40)}/"
    if len(expression) > MAX_PATTERN:
        raise TriggerError(f"{name} has {len(expression)} characters; the limit is {MAX_PATTERN}.")
    if _RESERVED_SYNTAX.search(expression):
        raise TriggerError(f"{name} contains `[[`, `--`, `&&`, `~~`, or `||`; escape these with a backslash.")
    try:
        tree = _parser.parse(expression, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise TriggerError(f"{name} is not a regular expression: {error}.") from None
    if tree.getwidth()[0] == 0:
        raise TriggerError(f"{name} matches empty text; write `always`, or require at least one character.")
    try:
        ways = _ways(tree)
    except _RejectedPattern as error:
        raise TriggerError(f"{name} {error}.") from None
    if ways > MAX_WAYS:
        raise TriggerError(f"{name} could take too long; use fewer repeats, or bounded ones such as .{{0,30}}.")


class _RejectedPattern(ValueError):
    """A pattern uses a construct that is not allowed."""


def _ways(tree: Any) -> int:
    """Return an upper bound of the ways in which a pattern can match from one position through backtracking."""
    product = 1
    for operator, argument in tree.data:
        product = min(product * _ways_of(operator, argument), MAX_WAYS + 1)
    return product


def _ways_of(operator: Any, argument: Any) -> int:
    if operator in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN, sre.AT):
        return 1
    if operator is sre.SUBPATTERN:
        return _ways(argument[3])
    if operator in (sre.ASSERT, sre.ASSERT_NOT):
        return _ways(argument[1])
    if operator is sre.BRANCH:
        ways = [_ways(branch) for branch in argument[1]]
        return max(ways) if _mutually_exclusive(argument[1]) else sum(ways)
    if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        low, high, body = argument
        times = min(int(high), MAX_SEARCHED) - min(int(low), MAX_SEARCHED) + 1
        inner = _ways(body)
        if inner == 1:
            return times
        if int(high) > 4:
            raise _RejectedPattern("repeats a group that itself repeats or has alternatives")
        return min(int((inner + 1) ** int(high)), MAX_WAYS + 1)
    raise _RejectedPattern("uses a back-reference, a condition or an atomic group")


def _mutually_exclusive(branches: Any) -> bool:
    """Whether the first letters of all alternatives differ, so that at most one matches at a position."""
    if not all(len(branch) and branch[0][0] is sre.LITERAL for branch in branches):
        return False
    return len({chr(branch[0][1]).casefold() for branch in branches}) == len(branches)
