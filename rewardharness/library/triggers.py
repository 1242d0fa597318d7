r"""When an entry applies: the grammar of `metadata.triggers`.

A list separated by commas. Each item is one of

    always            every instruction
    remove, sky blue  a word or phrase: whole words, any case, with the simple English endings of `word_forms`
    /\bfrom .* to /    a regular expression over the instruction, any case; `\/` stands for a slash

Regular expressions come from untrusted files. They are short, see only the beginning of an instruction, and a
pattern whose search could take very long (repeats inside repeats, too many open repeats) is refused.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Literal

from rewardharness.errors import shown

MAX_PATTERN = 200
"""Characters of one regular expression, at most."""
MAX_TRIGGERS = 200
"""Items of one list, at most."""
MAX_SEARCHED = 500
"""Characters at the beginning of an instruction that a regular expression sees. Words see all of it."""
MAX_WAYS = 4 * MAX_SEARCHED**2
"""Ways in which a pattern may match from one position, at most: two open repeats (`.*`), or a few bounded ones."""

# Scripts that put no spaces between words: Thai, Lao, Khmer, kana, Han, Hangul with its particles.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
# In a set these make Python warn that their meaning may change.
_UNSETTLED = re.compile(r"\[\^?\[|--|&&|~~|\|\|")
_VOWELS = "aeiou"


class TriggerError(ValueError):
    """A list of triggers that does not follow the grammar. The message is a sentence for a person."""


@dataclass(frozen=True)
class Trigger:
    """One condition under which an entry applies."""

    kind: Literal["always", "words", "pattern"]
    text: str
    """The words, or the regular expression without its slashes."""

    @property
    def always(self) -> bool:
        """Whether it applies to every instruction."""
        return self.kind == "always"

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        expression = self.text if self.kind == "pattern" else _words_expression(self.text)
        return re.compile(expression, re.IGNORECASE)

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        # What all forms of each word begin with. Most triggers are ruled out by these, before anything is compiled.
        if _UNSPACED.search(self.text):
            return (self.text.lower(),)
        return tuple(_root(word) for word in _split_words(self.text))

    def matches(self, instruction: str) -> str | None:
        """Look for the trigger in an instruction.

        Returns:
            The text that matched, `always` for a trigger that always applies, or None.
        """
        if self.always:
            return "always"
        text = _plain(instruction)
        if self.kind == "pattern":
            text = text[:MAX_SEARCHED]
        elif not all(root in text.lower() for root in self._roots):
            return None
        found = self._regex.search(text)
        return None if found is None else found.group()

    def __str__(self) -> str:
        if self.kind != "pattern":
            return self.text
        return "/" + re.sub(r"(\\.)|/", lambda found: found.group(1) or "\\/", self.text, flags=re.DOTALL) + "/"


def parse_triggers(text: str) -> tuple[Trigger, ...]:
    """Read a list of triggers.

    Raises:
        TriggerError: If it does not follow the grammar.
    """
    triggers = tuple(_trigger(item) for item in _items(text))
    if len(triggers) > MAX_TRIGGERS:
        raise TriggerError(f"There are {len(triggers)} triggers; at most {MAX_TRIGGERS} are read.")
    return triggers


def word_forms(word: str) -> frozenset[str]:
    """Return a word with its simple English endings: -s or -es, -ing, -ed, with the usual changes of spelling.

    Only for words of three or more Latin letters; others stand for themselves alone.
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
    """Split at commas, except inside `/.../`."""
    items: list[str] = []
    position = 0
    while position < len(text):
        rest = text[position:].lstrip()
        position = len(text) - len(rest)
        found = re.match(r"/(?:\\.|[^\\/])*/", rest, re.DOTALL) if rest.startswith("/") else re.match(r"[^,]*", rest)
        if found is None:
            raise TriggerError(f"The regular expression {shown(rest, 40)} has no closing slash.")
        position += found.end()
        after = text[position:].lstrip()
        if after and not after.startswith(","):
            raise TriggerError(f"After {shown(found.group(), 40)} comes {shown(after, 20)}; a comma belongs there.")
        position = len(text) - len(after) + 1
        if found.group().strip():
            items.append(found.group().strip())
    return items


def _trigger(item: str) -> Trigger:
    if item.startswith("/"):
        expression = re.sub(r"\\/", "/", _plain(item[1:-1]))
        _check_pattern(expression)
        return Trigger("pattern", expression)
    if item.lower() == "always":
        return Trigger("always", "always")
    words = " ".join(_plain(item).split())
    if not any(char.isalnum() for char in words):
        raise TriggerError(f"{shown(item, 40)} holds no word.")
    return Trigger("words", words)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).replace("\u2019", "'")


def _root(word: str) -> str:
    """Return what all forms of a word begin with."""
    return word.lower()[:-1] if len(word_forms(word)) > 1 and word[-1] in "eyEY" else word.lower()


def _split_words(words: str) -> list[str]:
    return [word for word in re.split(r"[\s-]+", words) if word]


def _words_expression(words: str) -> str:
    """Build the expression for a phrase: each word with its endings, spaces or hyphens between."""
    if _UNSPACED.search(words):
        return re.escape(words)
    parts = []
    for word in _split_words(words):
        forms = sorted(word_forms(word), key=lambda form: (-len(form), form))
        parts.append("(?:" + "|".join(map(re.escape, forms)) + ")")
    return r"(?<!\w)" + r"[\s-]+".join(parts) + r"(?!\w)"


def _check_pattern(expression: str) -> None:
    name = f"/{shown(expression, 40)}/"
    if len(expression) > MAX_PATTERN:
        raise TriggerError(f"{name} has {len(expression)} characters; at most {MAX_PATTERN} are allowed.")
    if _UNSETTLED.search(expression):
        raise TriggerError(f"{name} holds `[[`, `--`, `&&`, `~~` or `||`; escape these with a backslash.")
    try:
        tree = _parser.parse(expression, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise TriggerError(f"{name} is not a regular expression: {error}.") from None
    if tree.getwidth()[0] == 0:
        raise TriggerError(f"{name} also matches no text at all; write `always`, or make it ask for something.")
    try:
        ways = _ways(tree)
    except _Refused as refused:
        raise TriggerError(f"{name} {refused}.") from None
    if ways > MAX_WAYS:
        raise TriggerError(f"{name} could search too long; use fewer repeats, or bounded ones such as .{{0,30}}.")


class _Refused(ValueError):
    """A construct that a pattern may not use."""


def _ways(tree: Any) -> int:
    """Bound the number of ways in which a pattern can match from one position: what backtracking would try."""
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
        return max(ways) if _told_apart(argument[1]) else sum(ways)
    if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        low, high, body = argument
        times = min(int(high), MAX_SEARCHED) - min(int(low), MAX_SEARCHED) + 1
        inner = _ways(body)
        if inner == 1:
            return times
        if int(high) > 4:
            raise _Refused("repeats a group that itself repeats or has alternatives")
        return min(int((inner + 1) ** int(high)), MAX_WAYS + 1)
    raise _Refused("uses a back-reference, a condition or an atomic group")


def _told_apart(branches: Any) -> bool:
    """Whether the first letters of alternatives differ, so that at most one of them can match at a position."""
    firsts = []
    for branch in branches:
        if not len(branch) or branch[0][0] is not sre.LITERAL:
            return False
        firsts.append(chr(branch[0][1]).casefold())
    return len(set(firsts)) == len(firsts)
